"""FrameInspector: captured frames, and why a program decides as it does on each: replayed, line by line."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any, Literal

import traitlets

from labkit.errors import LabError, StateError
from labkit.follow import Replay, Trace
from labkit.follow.explaining import explained
from labkit.follow.replay import checked, place_of
from labkit.interface import Interface
from labkit.lab import Lab
from labkit.lesson.frame_map import far_end
from labkit.program.program import Program
from labkit.traffic.capture import Capture, CapturedFrame
from labkit.widgets.assets import FRAME_INSPECTOR_CSS, FRAME_INSPECTOR_ESM
from labkit.widgets.frame_inspector_data import detail_of, summary_of
from labkit.widgets.frame_inspector_rows import TRIED, Row, check, shown_row, waiting
from labkit.widgets.live import LiveView

__all__ = ["FrameInspector"]

_MOST = 1_000
_A_TICK_S = 0.15  # of replaying in one tick; what is left waits for the next
_AT = ("sender", "receiver")


class FrameInspector(LiveView):
    """Frames on their way to ``what``, an interface (of a Lab: the far end of its first link), or frames given as a list.

    Each is replayed through ``program`` (by default the one attached there): a copy of it, with copies of its maps, so that
    nothing is counted. They are captured where they are sent, ``at`` "sender", as a tap never sees what native XDP
    drops; no tap sees what the generator or a redirect hands over, and at the "receiver" only what XDP lets pass. At most
    ``most`` frames are kept. A driver can't be asked in a replay: with ``silent_driver`` it has no hints. ``choose``,
    ``edit``, ``replay`` and ``clear`` are what the page's buttons do. Raises StateError.
    """

    _esm = FRAME_INSPECTOR_ESM
    _css = FRAME_INSPECTOR_CSS
    detail = traitlets.Dict().tag(sync=True)
    words: Mapping[str, str] = {
        "closed": "Closed. Run the cell that shows it again to go on.",
        "gone": "The lab is closed: no more frames come. Run the cells that make it again to go on.",
        "replaced": "This was shown again: go on there.",
    }
    still_words = "Run this notebook's cells again to inspect further frames."

    def __init__(
        self,
        what: Lab | Interface | Sequence[bytes],
        program: Program | None = None,
        *,
        most: int = 64,
        at: Literal["sender", "receiver"] = "sender",
        silent_driver: bool = False,
        interval_s: float = 0.25,
    ) -> None:
        check(program is None or isinstance(program, Program), program, "a program", "give what lab.load(…) returned")
        check(isinstance(most, int) and 0 < most <= _MOST, most, "a number of frames", f"use 1 to {_MOST:,}")
        check(at in _AT, at, "an end to capture at", 'use "sender" or "receiver"')
        self.given, self.most, self.at, self.silent_driver = program, most, at, silent_driver
        self.rows: list[Row] = []
        self.chosen = 0
        self.lab, self.interface = self._place(what, program)
        self._capture: Capture | None = None
        self._taken = 0
        self._work = threading.RLock()
        self._replay: Replay | None = None
        self._sent: tuple[Any, ...] = ()
        self._began = time.time()
        where = self.interface.where if self.interface is not None else f"frames given to {program}"
        if not isinstance(what, (Lab, Interface)):
            self._take_given(what)
        else:
            self._capture = self._new_capture()
        try:
            self._begin(self.lab, where, interval_s)
        except BaseException:
            self._let_go()
            raise

    @staticmethod
    def _place(what: Any, program: Program | None) -> tuple[Lab, Interface | None]:
        interface = far_end(what) if isinstance(what, Lab) and not what.closed else what
        if isinstance(what, (list, tuple)):
            interface = place_of(program) if program is not None else None
        lab = interface.host.lab if isinstance(interface, Interface) else None
        if isinstance(what, (list, tuple)) and lab is None:
            lab = getattr(getattr(program, "attacher", None), "__self__", None)
        if not isinstance(lab, Lab) or lab.closed:
            raise StateError(
                "Frames are inspected at an interface of an open lab, or given as a list with a program of one.",
                tried=TRIED,
                remedy='use lk.widgets.FrameInspector(lab["server"]["eth0"]), or FrameInspector([frame], program)',
            )
        return lab, interface

    def _take_given(self, frames: Sequence[bytes]) -> None:
        check(0 < len(frames) <= self.most, len(frames), "a number of frames", f"give 1 to {self.most:,}, or most=")
        self.rows = [Row(checked(each, b"")[0], None, summary=summary_of(each)) for each in frames]
        self.chosen = 1

    def _new_capture(self) -> Capture:
        assert self.interface is not None
        self._taken = 0
        if self.at == "receiver":
            return Capture(self.interface, direction="in", most=self.most)
        return Capture(self.interface.peer, direction="out", most=self.most)

    # From Python

    @property
    def program(self) -> Program | None:
        """The program that frames are replayed through: the one given, or what is attached at the interface."""
        if self.given is not None:
            return self.given
        where = self.interface.where if self.interface is not None else ""
        return next((link.program for link in list(self.lab.attached) if link.interface.where == where), None)

    @property
    def trace(self) -> Trace | None:
        """The chosen frame's trace, None before there is one."""
        row = self._row(self.chosen) if 0 < self.chosen <= len(self.rows) else None
        return row.trace if row is not None else None

    def choose(self, number: int) -> None:
        """Show frame ``number``, counted from 1. Raises StateError."""
        with self._work:
            row = self._row(number)
            self.chosen = number
            if row.trace is None and self.ended is None:
                self._explain(row)
        self._tell()

    def edit(self, offset: int, data: bytes, number: int | None = None) -> None:
        """Replay frame ``number`` (the chosen one) with other bytes from ``offset`` on, as a new frame of the list.

        Raises StateError for bytes beyond its end.
        """
        with self._work:
            number = self.chosen if number is None else number
            frame = self._row(number).frame
            fits = (
                isinstance(offset, int) and isinstance(data, bytes) and 0 <= offset < offset + len(data) <= len(frame)
            )
            check(fits, data, f"bytes from {offset} on of this frame", f"it has {len(frame):,}, and its length stays")
            if len(self.rows) >= 2 * self.most:
                raise StateError(f"{2 * self.most:,} frames are the most.", tried=TRIED, remedy="clear the list first")
            changed = frame[:offset] + data + frame[offset + len(data) :]
            self.rows.append(Row(changed, None, of=number, summary=summary_of(changed)))
            self.choose(len(self.rows))

    def replay(self) -> None:
        """Replay all frames anew: with the program that is there now, and its maps as they are now."""
        with self._work:
            for row in self.rows:
                row.trace, row.failed = None, ""
        self._tell()

    def clear(self) -> None:
        """Forget all frames, and capture again. Raises StateError after the end."""
        if self.ended is not None:
            raise StateError(self.words[self.ended], tried=TRIED)
        with self._work:
            if self._capture is not None:
                old, self._capture = self._capture, None
                old.close()
                self._capture = self._new_capture()
            self.rows, self.chosen, self._sent = [], 0, ()
            self._began = time.time()
        self._tell()

    def _row(self, number: int) -> Row:
        fits = isinstance(number, int) and not isinstance(number, bool) and 0 < number <= len(self.rows)
        check(fits, number, "the number of a frame", f"there are {len(self.rows)}, counted from 1")
        return self.rows[number - 1]

    # The work

    def _read(self) -> None:
        if self.lab.closed:
            raise StateError("The lab is closed.", tried=TRIED)
        with self._work:
            self._take_captured()
            until = time.monotonic() + _A_TICK_S
            for row in self.rows:
                if row.trace is None and not row.failed and time.monotonic() < until and self.program is not None:
                    self._explain(row)

    def _take_captured(self) -> None:
        if self._capture is None:
            return
        found = self._capture.frames
        for each in found[self._taken :]:
            self.rows.append(Row(bytes(each), self._since(each), summary=summary_of(each)))
        self._taken = len(found)
        if self.rows and not self.chosen:
            self.chosen = 1

    def _since(self, frame: CapturedFrame) -> float:
        return max(0.0, frame.time_ns / 1e9 - self._began)

    def _explain(self, row: Row) -> None:
        """Replay a frame; what can't be is told in its row."""
        program = self.program
        if program is None:
            return
        try:
            if self._replay is None or self._replay.program is not program:
                self._replay = Replay(program, self.interface, silent_driver=self.silent_driver)
            row.trace = explained(self._replay, row.frame, self._replay.run(row.frame))
        except LabError as error:
            row.failed = f"{error.message} Remedy: {error.remedy}." if error.remedy else error.message
        except Exception as error:
            row.failed = f"{type(error).__name__}: {error}"
            self._remember(error)

    # What the page gets

    def _tick(self, seq: int) -> None:
        with self._work, self.hold_sync():  # two threads that hold at once could lose what one of them says
            super()._tick(seq)
            self._send_detail()

    def _tell(self) -> None:
        """At once, and not with the next tick."""
        with self._work, self.hold_sync():
            self.state = self._state(self._ticker.seq)
            self._send_detail()

    def _send_detail(self) -> None:
        row = self.rows[self.chosen - 1] if 0 < self.chosen <= len(self.rows) else None
        now = (self.chosen, id(row.trace) if row is not None else 0, row.failed if row is not None else "")
        if now != self._sent or not self.detail:
            self._sent = now
            shown = {"hex": row.frame.hex(), "sentence": row.failed or waiting(self.program)} if row is not None else {}
            self.detail = {"number": self.chosen, **(detail_of(row.trace) if row and row.trace else shown)}

    def _shown_now(self) -> dict[str, Any]:
        program = self.program
        return {
            "title": f"Frames to {self.interface.where}" if self.interface is not None else "Frames, replayed",
            "program": f"{program.name} #{program.id}" if program is not None else "no program is attached",
            "frames": [shown_row(number, row, program) for number, row in enumerate(self.rows, 1)],
            "chosen": self.chosen,
            "most": self.most,
            "captures": self._words_of_capture(),
            "full": self._capture is not None and self._taken >= self.most,
            "controls": [],
        }

    def _words_of_capture(self) -> str:
        if self._capture is None or self.interface is None:
            return "These frames were given; nothing is captured."
        if self.at == "receiver":
            return f"Captured at {self.interface.where}: what XDP drops or redirects there is never seen."
        return (
            f"Captured at {self.interface.peer.where}, where they are sent: a tap at {self.interface.where} never sees what "
            "native XDP drops. No tap sees frames of the generator, or redirected ones."
        )

    def _still_now(self) -> str:
        trace = self.trace
        rows = "".join(
            f"<li>{escape(row.summary)}, {len(row.frame):,} bytes: "
            f"{escape(row.trace.verdict_name if row.trace is not None else row.failed or 'not replayed')}</li>"
            for row in self.rows
        )
        return f"<ol>{rows}</ol>{trace._repr_html_() if trace is not None else ''}"

    # The browser's side

    def _obey(self, message: Mapping[str, Any]) -> None:
        kind = message.get("type")
        if kind in ("ack", "hello"):
            return super()._obey(message)
        self._problem = ""
        if kind == "choose":
            self.choose(message.get("number", 0))
        elif self.ended is None and kind == "edit":
            self.edit(message.get("offset", -1), bytes.fromhex(str(message.get("hex"))))
        elif self.ended is None and kind == "replay":
            self.replay()
        elif self.ended is None and kind == "clear":
            self.clear()
        return None

    def _let_go(self) -> None:
        if self._capture is not None:
            self._capture.close()

    def __repr__(self) -> str:
        where = self.interface.where if self.interface is not None else "given frames"
        return f"<frames at {where}: {len(self.rows)}, {self.ended or 'live'}>"
