"""What live views have in common: a moment read again and again, a program at work behind it, an end that is told."""

from __future__ import annotations

import threading
import weakref
from collections import deque
from collections.abc import Mapping
from html import escape
from typing import Any

import traitlets

from labkit.errors import LabError, StateError
from labkit.lab import Lab
from labkit.widgets.comms import answer_beside_cells
from labkit.widgets.still import Pictured, Still
from labkit.widgets.ticker import Ticker

__all__ = ["LiveView", "segmented"]

_MOST_ERRORS = 50
_shown: dict[tuple[str, str], LiveView] = {}
_shown_lock = threading.RLock()


class LiveView(Pictured):
    """Reads a moment on a thread of its own, and tells the browser, one message a tick; while it is hidden none goes.

    What went wrong is shown in red and kept in ``errors``. One view a ``place`` (of its kind): showing another ends the
    first. It ends with what it shows, or with the lab. A kind of view says how to read (``_read``), what the browser gets
    (``_shown_now``), what stays (``_still_now``), and, where there is something at work, what can be ordered (``_order``).
    """

    state = traitlets.Dict().tag(sync=True)
    ended: str | None = "closed"  # until it has begun
    at_work: Any = None
    words: Mapping[str, str] = {}
    """How it is said that it is "closed", "gone" (what it shows is), "replaced"."""
    still_words = ""

    def _begin(self, lab: Lab, place: str, interval_s: float) -> None:
        """What a view's own ``__init__`` ends with. Raises what the first reading raises."""
        kind = type(self).__name__
        self.errors: deque[Exception] = deque(maxlen=_MOST_ERRORS)
        self._problem = ""
        self._read()
        self._still = Still()
        self.ended = None
        self._ticker = Ticker(self._tick, self._failed, interval_s=interval_s, name=kind.lower())
        super().__init__()
        answer_beside_cells(self)
        self.on_msg(self._heard)
        self._take_over(lab, (kind, place))
        self._tick(0)
        self._ticker.start()

    def _take_over(self, lab: Lab, key: tuple[str, str]) -> None:
        """Be the one of this place; the one before says so. The lab's end is the end."""
        with _shown_lock:
            before = _shown.get(key)
            _shown[key] = self
        weak = weakref.ref(self)

        def ended() -> None:
            if (there := weak()) is not None:
                there._end("gone")

        lab.on_close(ended)
        if before is not None:
            before._end("replaced")

    def close(self) -> None:
        """Stop, and take it off the page; what is at work stays. Safe to call again."""
        self._end("closed")
        with _shown_lock:
            for key in [key for key, each in _shown.items() if each is self]:
                del _shown[key]
        layout = self.layout  # a widget of its own, with a comm of its own
        super().close()
        if layout is not None:
            layout.close()

    # What a kind of view says

    def _read(self) -> None:
        """Read a moment. Raises StateError where what is shown has been closed."""
        raise NotImplementedError

    def _shown_now(self) -> dict[str, Any]:
        raise NotImplementedError

    def _still_now(self) -> str:
        raise NotImplementedError

    def _order(self, message: Mapping[str, Any]) -> None:
        raise NotImplementedError

    def _let_go(self) -> None:
        """Close what the view itself has opened."""

    # The ticks

    def _tick(self, seq: int) -> None:
        try:
            self._read()
        except StateError:
            self._end("gone")
            return
        if self.at_work is not None and self.at_work.problem is not None:
            self._remember(self.at_work.problem)
        self.state = self._state(seq)

    def _state(self, seq: int) -> dict[str, Any]:
        return {
            "seq": seq,
            **self._shown_now(),
            "sending": self.at_work is not None and self.at_work.sending,
            "ended": self.words.get(self.ended or "", ""),
            "error": self._problem,
        }

    # The browser's side

    def _heard(self, _widget: object, message: Any, _buffers: object) -> None:
        """Nothing escapes: a callback's exception would go unseen."""
        try:
            if isinstance(message, Mapping):
                self._obey(message)
        except Exception as error:
            self._failed(error)

    def _obey(self, message: Mapping[str, Any]) -> None:
        kind = message.get("type")
        if kind == "ack":
            self._ticker.acknowledge(int(message.get("seq", 0)))
        elif kind == "hello":
            self._ticker.hello()
        elif self.at_work is not None and self.ended is None:
            self._problem = ""
            if kind != "send":
                self._order(message)
            elif self.at_work.sending:
                self.at_work.stop()
            else:
                self.at_work.send()

    def _failed(self, error: Exception) -> None:
        self._remember(error)
        self.state = self._state(self._ticker.seq)

    def _remember(self, error: Exception) -> None:
        if not self.errors or self.errors[-1] is not error:
            self.errors.append(error)
        known = f"{error.message} {error.remedy}" if isinstance(error, LabError) else ""
        self._problem = known or f"{type(error).__name__}: {error}"

    # The end, and what stays

    def _end(self, why: str) -> None:
        if self.ended is not None:
            return
        self.ended = why
        self._ticker.stop()
        self._let_go()
        self.state = self._state(self._ticker.seq)
        self._still.update(self._picture())

    def _picture(self) -> str:
        """What a page shows where no kernel answers."""
        error = f"<p>{escape(self._problem)}</p>" if self._problem else ""
        return f"<p><b>A still picture.</b> {escape(self.still_words)}</p>{error}{self._still_now()}"


def segmented(id: str, label: str, options: tuple[str, ...], value: str) -> dict[str, Any]:
    """A choice for the browser to draw, one button an option."""
    return {"id": id, "label": label, "kind": "segmented", "options": list(options), "value": value}
