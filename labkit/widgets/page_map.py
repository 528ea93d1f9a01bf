"""PageMap: where every page of a lab's page pools is, at home or away, as it moves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from labkit.lab import Lab
from labkit.lesson.buffers import CHOICES, PageMoment, PagesAtWork, PagesOf, page_picture
from labkit.widgets.assets import PAGE_MAP_CSS, PAGE_MAP_ESM
from labkit.widgets.live import LiveView, segmented

__all__ = ["PageMap"]

_POOLS = 5  # shown
_LABELS = {"source": "Frames come from", "program": "The server's program", "reads": "The socket is read"}


class PageMap(LiveView):
    """The pages of ``what``, a lab, some times a second; of a ``lesson.PagesAtWork`` also controls for what it does.

    Every place is of one reading, so the places add up to the pages in flight. Raises LabError for what is no open lab.
    """

    _esm = PAGE_MAP_ESM
    _css = PAGE_MAP_CSS
    words: Mapping[str, str] = {
        "closed": "Closed. Run the cell that shows it again to go on.",
        "gone": "The lab, or what was at work in it, is closed; this is its last moment. "
        "Run the cells that make it again to go on.",
        "replaced": "This was shown again: go on there.",
    }
    still_words = "Run this notebook's cells again to see the pages move."

    def __init__(self, what: Lab | PagesAtWork, *, interval_s: float = 0.15) -> None:
        self.at_work = what if isinstance(what, PagesAtWork) else None
        self._own = PagesOf(what) if not isinstance(what, PagesAtWork) else None
        self.pages: PagesAtWork | PagesOf = self._own or self.at_work
        self._moment: PageMoment
        self._begin(self.pages.lab, self.pages.lab.name, interval_s)

    def _read(self) -> None:
        self._moment = self.pages.moment()

    def _let_go(self) -> None:
        if self._own is not None:
            self._own.close()

    def _shown_now(self) -> dict[str, Any]:
        now = self._moment
        return {
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
        }

    def _order(self, message: Mapping[str, Any]) -> None:
        if message.get("type") == "read":
            self.at_work.read()
        elif message.get("type") == "choose":
            self.at_work.choose(**{str(message.get("id")): message.get("value", "")})

    def _still_now(self) -> str:
        return page_picture(self._moment)._repr_html_()

    def __repr__(self) -> str:
        return f"<map of pages in {self.pages.lab.name}: {self.ended or 'live'}>"


def _controls(work: PagesAtWork) -> list[dict[str, Any]]:
    return [segmented(name, _LABELS[name], tuple(options), work.chosen[name]) for name, options in CHOICES.items()]


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
