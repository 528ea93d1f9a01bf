"""Rings: the four rings of an AF_XDP socket turning, and where every frame of its memory is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from labkit.errors import StateError
from labkit.lesson.xsk_at_work import GIVES_BACK, PACES, AtWork
from labkit.lesson.xsk_rings import RingsState, rings_picture, state_of
from labkit.widgets.assets import RINGS_CSS, RINGS_ESM
from labkit.widgets.live import LiveView, segmented
from labkit.xsk import XskSocket

__all__ = ["Rings"]

_LOST = {
    "rx_ring_full": "no room in the receive ring",
    "rx_fill_ring_empty_descs": "no empty frame in the fill ring",
    "tx_invalid_descs": "invalid to transmit",
}


class Rings(LiveView):
    """The rings of ``what``, an XskSocket, ten times a second; of an ``AtWork`` also what its program does, to be changed.

    The places of all frames add up to the memory in every picture, whatever moves while it is read (``state_of``).
    Raises StateError for what is no open socket.
    """

    _esm = RINGS_ESM
    _css = RINGS_CSS
    words: Mapping[str, str] = {
        "closed": "Closed. Run the cells that make the socket and this view again to go on.",
        "gone": "The socket is closed; this is its last moment. Run the cells that make it again to go on.",
        "replaced": "This was shown again: go on there.",
    }
    still_words = "Run this notebook's cells again to see the rings turn."

    def __init__(self, what: XskSocket | AtWork, *, interval_s: float = 0.1) -> None:
        self.at_work = what if isinstance(what, AtWork) else None
        xsk = what.xsk if isinstance(what, AtWork) else what
        if not isinstance(xsk, XskSocket) or xsk.closed:
            raise StateError(
                f"{xsk!r} is no open AF_XDP socket.",
                tried="to show its rings",
                remedy="give what lk.xsk.XskSocket(…) returned, or lesson.AtWork of it",
            )
        self.xsk = xsk
        self._moment: RingsState
        self._lost: dict[str, int]
        self._begin(xsk.interface.host.lab, xsk.where, interval_s)

    def _read(self) -> None:
        counters = self.xsk.statistics()
        self._moment, self._lost = state_of(self.xsk), {said: getattr(counters, name) for name, said in _LOST.items()}

    def _shown_now(self) -> dict[str, Any]:
        moment, work = self._moment, self.at_work
        return {
            "title": f"The rings of {moment.where}",
            "rings": [
                {
                    "name": ring.name,
                    "size": ring.size,
                    "producer": ring.producer,
                    "consumer": ring.consumer,
                    "filled": len(ring.frames),
                    "puts": ring.puts_in,
                    "takes": ring.takes_out,
                    "wake": ring.needs_wakeup,
                }
                for ring in moment.rings
            ],
            "places": list(moment.places.items()),
            "frames": moment.frames,
            "lost": list(self._lost.items()),
            "controls": [] if work is None else _controls(work),
            "taken": None if work is None else work.taken,
        }

    def _order(self, message: Mapping[str, Any]) -> None:
        if message.get("id") in ("gives_back", "pace"):
            setattr(self.at_work, str(message["id"]), message.get("value"))

    def _still_now(self) -> str:
        return rings_picture(self._moment)._repr_html_()

    def __repr__(self) -> str:
        return f"<rings of {self.xsk.where}: {self.ended or 'live'}>"


def _controls(work: AtWork) -> list[dict[str, Any]]:
    return [
        segmented("pace", "The program takes packets", PACES, work.pace),
        segmented("gives_back", "and gives back", GIVES_BACK, work.gives_back),
    ]
