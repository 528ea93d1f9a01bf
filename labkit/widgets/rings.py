"""Rings: the four rings of an AF_XDP socket turning, and where every frame of its memory is."""

from __future__ import annotations

import threading
import weakref
from collections import deque
from collections.abc import Callable, Mapping
from html import escape
from typing import Any

import traitlets

from labkit.errors import LabError, StateError
from labkit.lesson.xsk_at_work import GIVES_BACK, PACES, AtWork
from labkit.lesson.xsk_rings import RingsState, rings_picture, state_of
from labkit.widgets.assets import RINGS_CSS, RINGS_ESM
from labkit.widgets.comms import answer_beside_cells
from labkit.widgets.still import Pictured, Still
from labkit.widgets.ticker import Ticker
from labkit.xsk import XskSocket

__all__ = ["Rings"]

_MOST_ERRORS = 50
_shown: dict[str, Rings] = {}
_shown_lock = threading.RLock()


class Rings(Pictured):
    """The rings of ``what``, an XskSocket, ten times a second; of an ``AtWork`` also what its program does, to be changed.

    The places of all frames add up to the memory in every picture, whatever moves while it is read (``state_of``). One
    message a tick goes to the browser, which answers; while it is hidden none goes. What went wrong is shown in red and
    kept in ``errors``. One view a socket: showing another ends the first. It ends with its socket, and the program with it
    where there is one. Raises StateError for what is no open socket.
    """

    _esm = RINGS_ESM
    _css = RINGS_CSS
    state = traitlets.Dict().tag(sync=True)
    ended: str | None = "closed"  # until it has begun

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
        self.errors: deque[Exception] = deque(maxlen=_MOST_ERRORS)
        self._problem = ""
        self._moment: RingsState = state_of(xsk)
        self._lost: dict[str, int] = {}
        self._still = Still()
        self.ended = None
        self._ticker = Ticker(self._tick, self._failed, interval_s=interval_s, name="rings")
        super().__init__()
        answer_beside_cells(self)
        self.on_msg(self._heard)
        _take_over(self)
        self._tick(0)
        self._ticker.start()

    def close(self) -> None:
        """Stop, and take it off the page. Safe to call again."""
        self._end("closed")
        with _shown_lock:
            for where in [where for where, each in _shown.items() if each is self]:
                del _shown[where]
        layout = self.layout  # a widget of its own, with a comm of its own
        super().close()
        if layout is not None:
            layout.close()

    # What is shown

    def _tick(self, seq: int) -> None:
        if self.xsk.closed:
            self._end("socket")
            return
        try:
            self._moment, self._lost = state_of(self.xsk), _losses(self.xsk)
        except StateError:  # it was closed this very moment
            self._end("socket")
            return
        if self.at_work is not None and self.at_work.problem is not None:
            self._remember(self.at_work.problem)
        self.state = self._state(seq)

    def _state(self, seq: int) -> dict[str, Any]:
        moment, work = self._moment, self.at_work
        return {
            "seq": seq,
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
            "sending": work is not None and work.sending,
            "taken": None if work is None else work.taken,
            "ended": _ENDED.get(self.ended or "", ""),
            "error": self._problem,
        }

    # The browser's side

    def _heard(self, _widget: object, message: Any, _buffers: object) -> None:
        if not isinstance(message, dict):
            return
        kind = message.get("type")
        if kind == "ack":
            self._guarded(lambda: self._ticker.acknowledge(int(message.get("seq", 0))))
        elif kind == "hello":
            self._ticker.hello()
        elif self.at_work is not None and self.ended is None:
            self._guarded(self._obey, self.at_work, message)

    def _obey(self, work: AtWork, message: Mapping[str, Any]) -> None:
        self._problem = ""
        if message.get("type") == "send":
            if work.sending:
                work.stop()
            else:
                work.send()
        elif message.get("id") in ("gives_back", "pace"):
            setattr(work, str(message["id"]), message.get("value"))

    def _guarded(self, work: Callable[..., None], *given: Any) -> None:
        """Nothing escapes: a callback's exception would go unseen."""
        try:
            work(*given)
        except Exception as error:
            self._failed(error)

    def _failed(self, error: Exception) -> None:
        self._remember(error)
        self.state = self._state(self._ticker.seq)

    def _remember(self, error: Exception) -> None:
        if not self.errors or self.errors[-1] is not error:
            self.errors.append(error)
        self._problem = (
            f"{error.message} {error.remedy}" if isinstance(error, LabError) else f"{type(error).__name__}: {error}"
        )

    # The end, and what stays

    def _end(self, why: str) -> None:
        if self.ended is not None:
            return
        self.ended = why
        self._ticker.stop()
        self.state = self._state(self._ticker.seq)
        self._still.update(self._picture())

    def _picture(self) -> str:
        """What a page shows where no kernel answers."""
        note = "<p><b>A still picture.</b> Run this notebook's cells again to see the rings turn.</p>"
        error = f"<p>{escape(self._problem)}</p>" if self._problem else ""
        return note + error + rings_picture(self._moment)._repr_html_()

    def __repr__(self) -> str:
        return f"<rings of {self.xsk.where}: {self.ended or 'live'}>"


_ENDED = {
    "closed": "Closed. Run the cells that make the socket and this view again to go on.",
    "socket": "The socket is closed; this is its last moment. Run the cells that make it again to go on.",
    "replaced": "This was shown again: go on there.",
}
_LOST = {
    "rx_ring_full": "no room in the receive ring",
    "rx_fill_ring_empty_descs": "no empty frame in the fill ring",
    "tx_invalid_descs": "invalid to transmit",
}


def _losses(xsk: XskSocket) -> dict[str, int]:
    counters = xsk.statistics()
    return {words: getattr(counters, name) for name, words in _LOST.items()}


def _controls(work: AtWork) -> list[dict[str, Any]]:
    return [
        {
            "id": "pace",
            "label": "The program takes packets",
            "kind": "segmented",
            "options": list(PACES),
            "value": work.pace,
        },
        {
            "id": "gives_back",
            "label": "and gives back",
            "kind": "segmented",
            "options": list(GIVES_BACK),
            "value": work.gives_back,
        },
    ]


def _take_over(made: Rings) -> None:
    """Make it the one of its socket's place; the one before says so. The lab's end is its end."""
    with _shown_lock:
        before = _shown.get(made.xsk.where)
        _shown[made.xsk.where] = made
    weak = weakref.ref(made)

    def ended() -> None:
        there = weak()
        if there is not None:
            there._end("socket")

    made.xsk.interface.host.lab.on_close(ended)
    if before is not None:
        before._end("replaced")
