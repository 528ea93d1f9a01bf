"""PageMap: where every page of a lab's page pools is, at home or away, as it moves."""

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
from labkit.lesson.buffers import CHOICES, PageMoment, PagesAtWork, PagesOf, page_picture
from labkit.widgets.assets import PAGE_MAP_CSS, PAGE_MAP_ESM
from labkit.widgets.comms import answer_beside_cells
from labkit.widgets.still import Pictured, Still
from labkit.widgets.ticker import Ticker

__all__ = ["PageMap"]

_MOST_ERRORS = 50
_POOLS = 5  # shown
_LABELS = {"source": "Frames come from", "program": "The server's program", "reads": "The socket is read"}
_shown: dict[str, PageMap] = {}
_shown_lock = threading.RLock()


class PageMap(Pictured):
    """The pages of ``what``, a lab, some times a second; of a ``lesson.PagesAtWork`` also controls for what it does.

    Every place is of one reading, so the places add up to the pages in flight. One message a tick goes to the browser, which
    answers; while it is hidden none goes. What went wrong is shown in red and kept in ``errors``. One map a lab: showing another
    ends the first. It ends with what it shows. Raises LabError for what is no open lab.
    """

    _esm = PAGE_MAP_ESM
    _css = PAGE_MAP_CSS
    state = traitlets.Dict().tag(sync=True)
    ended: str | None = "closed"  # until it has begun

    def __init__(self, what: Lab | PagesAtWork, *, interval_s: float = 0.15) -> None:
        self.at_work = what if isinstance(what, PagesAtWork) else None
        self._own = PagesOf(what) if not isinstance(what, PagesAtWork) else None
        self.pages: PagesAtWork | PagesOf = self._own or self.at_work  # type: ignore[assignment]
        self.errors: deque[Exception] = deque(maxlen=_MOST_ERRORS)
        self._problem = ""
        self._moment: PageMoment = self.pages.moment()
        self._still = Still()
        self.ended = None
        self._ticker = Ticker(self._tick, self._failed, interval_s=interval_s, name="page-map")
        super().__init__()
        answer_beside_cells(self)
        self.on_msg(self._heard)
        _take_over(self)
        self._tick(0)
        self._ticker.start()

    def close(self) -> None:
        """Stop, and take it off the page; the pages stay at work. Safe to call again."""
        self._end("closed")
        with _shown_lock:
            for name in [name for name, each in _shown.items() if each is self]:
                del _shown[name]
        layout = self.layout  # a widget of its own, with a comm of its own
        super().close()
        if layout is not None:
            layout.close()

    # What is shown

    def _tick(self, seq: int) -> None:
        try:
            self._moment = self.pages.moment()
        except StateError:  # it was closed, or its lab
            self._end("work")
            return
        if self.at_work is not None and self.at_work.problem is not None:
            self._remember(self.at_work.problem)
        self.state = self._state(seq)

    def _state(self, seq: int) -> dict[str, Any]:
        now = self._moment
        return {
            "seq": seq,
            "title": now.title,
            "spots": [
                {"name": spot.name, "side": spot.side, "says": spot.says, "pages": spot.pages} for spot in now.spots
            ],
            "held": now.held,
            "released": now.released,
            "sum": now.sum_in_words,
            "adds": now.adds_up,
            "frames": f"{now.frames:,} generated frames" if now.frames else "",
            "pools": [_pool_row(pool) for pool in now.pools[:_POOLS]],
            "more": _more(now),
            "said": _said(now),
            "controls": [] if self.at_work is None else _controls(self.at_work),
            "sending": self.at_work is not None and self.at_work.sending,
            "ended": _ENDED.get(self.ended or "", ""),
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
            _order(self.at_work, message)

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
        if self._own is not None:
            self._own.close()
        self.state = self._state(self._ticker.seq)
        self._still.update(self._picture())

    def _picture(self) -> str:
        """What a page shows where no kernel answers."""
        note = "<p><b>A still picture.</b> Run this notebook's cells again to see the pages move.</p>"
        error = f"<p>{escape(self._problem)}</p>" if self._problem else ""
        return note + error + page_picture(self._moment)._repr_html_()

    def __repr__(self) -> str:
        return f"<map of pages in {self.pages.lab.name}: {self.ended or 'live'}>"


_ENDED = {
    "closed": "Closed. Run the cell that shows it again to go on.",
    "work": "The lab, or what was at work in it, is closed; this is its last moment. Run the cells that make it again to go on.",
    "replaced": "This was shown again: go on there.",
}


def _order(work: PagesAtWork, message: Mapping[str, Any]) -> None:
    kind = message.get("type")
    if kind == "send" and work.sending:
        work.stop()
    elif kind == "send":
        work.send()
    elif kind == "read":
        work.read()
    elif kind == "choose":
        work.choose(**{str(message.get("id")): message.get("value", "")})


def _controls(work: PagesAtWork) -> list[dict[str, Any]]:
    return [
        {"id": name, "label": _LABELS[name], "kind": "segmented", "options": list(options), "value": work.chosen[name]}
        for name, options in CHOICES.items()
    ]


def _pool_row(pool: Any) -> list[Any]:
    state = f"waits to end, tried {pool.tries}×" if pool.closing else "in use"
    return [pool.what, pool.held, pool.released, pool.home, pool.out, state]


def _more(now: PageMoment) -> str:
    rest = now.pools[_POOLS:]
    parts = [f"{len(rest)} more with {sum(pool.out for pool in rest):,} pages away"] if rest else []
    parts += [f"{now.ended:,} ended, all their pages given back"] if now.ended else []
    return "; ".join(parts)


def _said(now: PageMoment) -> str:
    return f"At home {now.side('at home')}, away {now.side('away')}. {now.sum_in_words}."


def _take_over(made: PageMap) -> None:
    """Make it the one of its lab; the one before says so. The lab's end is its end."""
    with _shown_lock:
        before = _shown.get(made.pages.lab.name)
        _shown[made.pages.lab.name] = made
    weak = weakref.ref(made)

    def ended() -> None:
        there = weak()
        if there is not None:
            there._end("work")

    made.pages.lab.on_close(ended)
    if before is not None:
        before._end("replaced")
