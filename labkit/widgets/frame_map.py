"""FrameMap: try the kernel's bpf_xdp_adjust_… functions on a real frame, and see its buffer after each."""

from __future__ import annotations

import threading
import weakref
from collections import deque
from collections.abc import Callable, Mapping
from html import escape
from typing import Any

import traitlets

from labkit.errors import LabError, StateError
from labkit.interface import Interface
from labkit.lab import Lab
from labkit.lesson.frame_map import far_end, map_of
from labkit.lesson.frame_map_drawing import WIDTH_PX
from labkit.observe.adjusting import MOST_STEPS, SENDERS, Adjusted, Adjuster, Step, steps_of
from labkit.program.link import MODES
from labkit.traffic.frames import icmp, tcp, udp, vlan
from labkit.widgets.assets import FRAME_MAP_CSS, FRAME_MAP_ESM
from labkit.widgets.comms import answer_beside_cells
from labkit.widgets.frame_map_data import drawing_for, table_for
from labkit.widgets.still import Pictured, Still

__all__ = ["FrameMap"]

_TRIED = "to show a frame"
_MOST_ERRORS = 50
_LARGE = 1514  # bytes: the default MTU and an Ethernet header
_shown: dict[str, FrameMap] = {}
_shown_lock = threading.RLock()

# Every frame to choose from, from the interface's peer to the interface.
_FRAMES: dict[str, Callable[[Interface, Interface], bytes]] = {
    "UDP": lambda source, target: udp(source, target, payload=b"metadata and headroom!"),
    "TCP": lambda source, target: tcp(source, target, options=[("MSS", 1460)]),
    "ICMP": lambda source, target: icmp(source, target, payload=bytes(range(22))),
    "VLAN": lambda source, target: vlan(udp(source, target, payload=b"metadata and headroom!"), 10),
    "large": lambda source, target: udp(source, target, size=min(_LARGE, target.mtu + 14)),
    "Ethernet alone": lambda source, target: bytes(udp(source, target)[:14]),
}


class FrameMap(Pictured):
    """The buffer of a real frame, byte by byte, and controls that move its ends.

    Each try sends one frame to ``interface`` (by default the far end of the lab's first link) through bpf/adjust.c,
    which does all the steps so far and drops it. What the kernel refuses stands there in its words; what went wrong
    otherwise is shown in red and kept in ``errors``. One drawing a lab: showing another, as by running the cell again,
    ends the first. It ends with the lab. Raises StateError where the lab is closed or has no link.
    """

    _esm = FRAME_MAP_ESM
    _css = FRAME_MAP_CSS
    state = traitlets.Dict().tag(sync=True)
    drawing = traitlets.Dict().tag(sync=True)
    table = traitlets.Dict().tag(sync=True)
    ended: str | None = "closed"  # until it has begun

    def __init__(self, lab: Lab, interface: Interface | None = None) -> None:
        if not isinstance(lab, Lab) or lab.closed:
            raise StateError("A frame needs an open lab.", tried=_TRIED, remedy="give one, as lk.widgets.FrameMap(lab)")
        self.lab = lab
        self.interface = far_end(lab) if interface is None else interface
        self.errors: deque[Exception] = deque(maxlen=_MOST_ERRORS)
        self.steps: tuple[Step, ...] = ()
        self.chosen = {"frame": "UDP", "mode": "native", "sender": "socket"}
        self.found: Adjusted | None = None
        self._problem: tuple[str, str] | None = None
        self._width = WIDTH_PX[1]
        self._turn = 0
        self._still = Still()
        self._work = threading.RLock()
        self._adjuster = Adjuster(lab)
        self.ended = None
        _take_over(self)
        super().__init__()
        answer_beside_cells(self)
        self.on_msg(self._heard)
        self._guarded(self._run, self.steps, self.chosen)

    # From Python

    def attempt(self, kind: str, by_bytes: int = 0) -> None:
        """Add a step and send a frame through all of them. Raises LabError, and then nothing has changed."""
        if len(self.steps) >= MOST_STEPS:
            raise StateError(f"{MOST_STEPS} steps are the most.", tried=_TRIED, remedy="undo one, or reset")
        self._run((*self.steps, *steps_of([(kind, by_bytes)])), self.chosen)

    def undo(self) -> None:
        """Take the last step away. Raises LabError."""
        self._run(self.steps[:-1], self.chosen)

    def reset(self) -> None:
        """Take all steps away: the frame as it comes. Raises LabError."""
        self._run((), self.chosen)

    def choose(self, **values: str) -> None:
        """Set ``frame`` (a label of the page), ``mode`` or ``sender``; the steps stay. Raises LabError."""
        options = self._options()
        for name, value in values.items():
            if value not in options.get(name, ()):
                raise StateError(
                    f"{name} can't be {value!r}.", tried=_TRIED, remedy="use " + ", ".join(options.get(name, options))
                )
        self._run(self.steps, {**self.chosen, **values})

    def close(self) -> None:
        """End it, let go of its program and take it off the page. Safe to call again."""
        self._end("closed")
        with _shown_lock:
            for name in [name for name, each in _shown.items() if each is self]:
                del _shown[name]
        layout = self.layout  # a widget of its own, with a comm of its own
        super().close()
        if layout is not None:
            layout.close()

    # The work

    def _run(self, steps: tuple[Step, ...], chosen: Mapping[str, Any]) -> None:
        with self._work:
            if self.ended is not None:
                raise StateError(_ENDED[self.ended], tried=_TRIED)
            frame = _FRAMES[chosen["frame"]](self.interface.peer, self.interface)
            found = self._adjuster.run(
                frame, steps, mode=chosen["mode"], interface=self.interface, sender=chosen["sender"]
            )
            self.steps, self.chosen, self.found, self._problem = steps, dict(chosen), found, None
            self._show()

    def _show(self) -> None:
        """Everything anew for the browser, and the picture that stays."""
        with self.hold_sync():
            if self.found is not None:
                shown = map_of(self.found, self.interface.peer.host.name)
                self.drawing = drawing_for(self.found, self._width)
                self.table = table_for(shown)
            self.state = self._state()
        self._still.update(self._picture())

    def _state(self) -> dict[str, Any]:
        text, remedy = self._problem or ("", "")
        self._turn += 1  # so that the browser hears an answer to everything
        last = self.table.get("rows", [["", "", ""]])[-1]
        return {
            "turn": self._turn,
            "title": f"{self.lab.name}: a frame's buffer at {self.interface.where}",
            "options": {name: list(values) for name, values in self._options().items()},
            "chosen": self.chosen,
            "steps": len(self.steps),
            "most": MOST_STEPS,
            "said": f"Step {last[0]}: {last[2]}." if self.steps else "The frame as it came.",
            "ended": _ENDED.get(self.ended or "", ""),
            "error": f"{text} Remedy: {remedy}." if remedy else text,
        }

    def _options(self) -> dict[str, tuple[str, ...]]:
        return {"frame": tuple(_FRAMES), "mode": tuple(MODES), "sender": SENDERS}

    # The browser's side

    def _heard(self, _widget: object, message: Any, _buffers: object) -> None:
        if not isinstance(message, dict) or self.ended is not None:
            return
        kind = message.get("type")
        if kind == "try":
            self._guarded(self.attempt, message.get("kind"), message.get("bytes"))
        elif kind == "choose":
            self._guarded(lambda: self.choose(**{str(message.get("id")): message.get("value", "")}))
        elif kind == "undo":
            self._guarded(self.undo)
        elif kind == "reset":
            self._guarded(self.reset)
        elif kind == "width":
            self._guarded(self._resize, message.get("width"))

    def _guarded(self, work: Callable[..., None], *given: Any) -> None:
        """Nothing escapes: a callback's exception would go unseen. It is shown, and the controls go back."""
        try:
            work(*given)
        except Exception as error:
            self.errors.append(error)
            if isinstance(error, LabError):
                self._problem = (error.message, error.remedy)
            else:
                self._problem = (f"{type(error).__name__}: {error}", "run the cell again")
            self.state = {}  # so that the controls are set again
            self.state = self._state()

    def _resize(self, width: Any) -> None:
        wanted = min(max(int(width), WIDTH_PX[0]), WIDTH_PX[1])
        with self._work:
            if wanted != self._width:
                self._width = wanted
                if self.found is not None:
                    self.drawing = drawing_for(self.found, wanted)

    # The end, and what stays

    def _end(self, why: str) -> None:
        if self.ended is not None:
            return
        self.ended = why
        self._adjuster.close()
        self.state = self._state()
        self._still.update(self._picture())

    def _picture(self) -> str:
        """What a page shows where no kernel answers."""
        note = "<p><b>A still picture, the last one.</b> Run this notebook's cells again to try further steps.</p>"
        if self.found is None:
            return note + f"<p>{escape(self.state.get('error', ''))}</p>"
        return note + map_of(self.found, self.interface.peer.host.name)._repr_html_()

    def __repr__(self) -> str:
        return f"<frame's buffer at {self.interface.where}: {self.ended or f'{len(self.steps)} steps'}>"


_ENDED = {
    "closed": "The lab is closed. Run the cells that make the lab and this drawing again to go on.",
    "replaced": "This was shown again: go on there.",
}


def _take_over(made: FrameMap) -> None:
    """Make it the one of its lab; the one before says so. The lab's end is its end."""
    with _shown_lock:
        before = _shown.get(made.lab.name)
        _shown[made.lab.name] = made
    weak = weakref.ref(made)

    def ended() -> None:
        there = weak()
        if there is not None:
            there._end("closed")

    made.lab.on_close(ended)
    if before is not None:
        before._end("replaced")
