"""MapBrowser: the maps of a lab's programs, entry by entry, live; found, sorted, written to, and put back."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from labkit.errors import LabError, StateError
from labkit.lab import Lab
from labkit.program.map import Map
from labkit.program.program import Program
from labkit.widgets.assets import MAP_BROWSER_CSS, MAP_BROWSER_ESM
from labkit.widgets.live import LiveView, segmented
from labkit.widgets.map_browser_edit import Done, texts_of
from labkit.widgets.map_browser_form import Form
from labkit.widgets.map_browser_maps import Known, is_open, known_maps, lab_of
from labkit.widgets.map_browser_picture import map_picture
from labkit.widgets.map_browser_search import IN, MOST_CHARACTERS
from labkit.widgets.map_browser_text import NUMBERS
from labkit.widgets.map_browser_view import CPUS, Viewed

__all__ = ["MapBrowser"]

_SHOW = ("all", "not 0")
_TRIED = "to show a map"


class MapBrowser(LiveView):
    """The maps of ``what``: a Lab (all maps of its programs), a Program (and what an editor puts in its place), or one Map.

    ``name`` is the map to begin with. A tick, every ``interval_s``, reads a bounded number of entries, however many there
    are. Values can be written where the ledger doesn't count from them. What could not be done is shown and kept in
    ``errors``. One view for the same maps: showing another ends the first. Raises StateError for what is none of these or
    is closed, and for a name that no map has.
    """

    _esm = MAP_BROWSER_ESM
    _css = MAP_BROWSER_CSS
    words: Mapping[str, str] = {
        "closed": "Closed. Run the cell that shows it again to go on.",
        "gone": "The lab, or the program whose maps these are, is closed; this is the last moment. "
        "Run the cells that make them again to go on.",
        "replaced": "This was shown again: go on there.",
    }
    still_words = "Run this notebook's cells again to see the map live."

    def __init__(self, what: Lab | Program | Map, *, name: str | None = None, interval_s: float = 0.2) -> None:
        self.lab = lab_of(what)
        self.what = what
        self._lock = threading.RLock()  # the ticks read while an answer to the page may write
        self._known: dict[int, Known] = {}
        self._viewed: dict[int, Viewed] = {}
        self._at: int | None = None
        self._over = False
        self._maps_now()
        self._begin_with(name)
        whose = "" if isinstance(what, Lab) else f" {what.name}"
        self._begin(self.lab, f"{self.lab.name}{whose} {name or ''}", interval_s)

    @property
    def map(self) -> Map | None:
        """The map that is shown; None where there is none."""
        known = self._known.get(self._at or 0)
        return known.map if known is not None else None

    def show(self, name: str) -> None:
        """Show the map of this name. Raises StateError where there is none."""
        with self._lock:
            self._begin_with(name)
        self._tick(self._ticker.seq)

    # Which maps there are

    def _maps_now(self) -> None:
        """Raises StateError where what is shown has been closed."""
        if self._over or self.lab.closed:
            raise self.lab.closed_error(_TRIED, "is closed")
        self._known = known_maps(self.lab, self.what)
        for ident in set(self._viewed) - set(self._known):
            self._viewed.pop(ident).close()
        if not self._known and (
            (isinstance(self.what, Program) and self.what.closed)
            or (isinstance(self.what, Map) and not is_open(self.what))
        ):
            raise StateError(f"{self.what.name} is closed.", tried=_TRIED, remedy="run the cell that loads it again")
        if self._at not in self._known:
            mine = [ident for ident, known in self._known.items() if known.map.name != "verdicts"]
            self._at = next(iter(mine or self._known), None)

    def _begin_with(self, name: str | None) -> None:
        if name is None:
            return
        found = [ident for ident, known in self._known.items() if known.map.name == name]
        if not found:
            there = ", ".join(dict.fromkeys(known.map.name for known in self._known.values())) or "none yet"
            raise StateError(f"There is no map {name!r} here.", tried=_TRIED, remedy=f"there are: {there}")
        self._at = found[-1]

    @property
    def _now(self) -> Viewed | None:
        known = self._known.get(self._at or 0)
        if known is None:
            return None
        if known.map.id not in self._viewed:
            self._viewed[known.map.id] = Viewed(known, self.lab)
        return self._viewed[known.map.id]

    # The ticks

    def _read(self) -> None:
        with self._lock:
            self._maps_now()
            if (viewed := self._now) is not None:
                viewed.tick(self._known[viewed.reading.id])

    def _let_go(self) -> None:
        with self._lock:
            self._over = True  # a late answer to the page must open nothing again
            for viewed in self._viewed.values():
                viewed.close()

    def _state(self, seq: int) -> dict[str, Any]:
        with self._lock:
            if self.ended is None:
                return super()._state(seq)
            kept = {
                **self.state,
                "form": None,
                "undo": "",
                "can_add": False,
            }  # the last moment, for the descriptors are gone
            return {**kept, "seq": seq, "ended": self.words.get(self.ended, ""), "error": self._problem}

    def _shown_now(self) -> dict[str, Any]:
        viewed = self._now
        shown = viewed.shown() if viewed is not None else {"map": None}
        return {
            "title": f"The maps of {self._whose}",
            "maps": [[ident, known.label] for ident, known in self._known.items()],
            "controls": _controls(viewed),
            **shown,
        }

    @property
    def _whose(self) -> str:
        if isinstance(self.what, Lab):
            return f"the lab {self.lab.name}"
        return self.what.name if isinstance(self.what, Program) else f"the program with {self.what.name}"

    def _still_now(self) -> str:
        return map_picture(self.state)

    # The page's side

    def _obey(self, message: Mapping[str, Any]) -> None:
        kind = message.get("type")
        if kind in ("ack", "hello"):
            super()._obey(message)
            return
        obey: dict[object, Callable[[Viewed, Mapping[str, Any]], None]] = {
            "choose": self._choose,
            "search": self._search,
            "sort": self._sort,
            "page": self._page,
            "mark": lambda viewed, _: viewed.entries.mark(),
            "open": self._open,
            "shut": self._shut,
            "write": self._write,
            "delete": self._delete,
            "undo": self._undo,
        }
        work = obey.get(kind) if isinstance(kind, str) else None
        if work is None or self.ended is not None:
            return
        with self._lock:
            self._problem = ""
            if (viewed := self._now) is not None:
                work(viewed, message)
        self._tick(self._ticker.seq)

    def _choose(self, viewed: Viewed, told: Mapping[str, Any]) -> None:
        value = told.get("value")
        match told.get("id"):
            case "map" if value in self._known:
                viewed.form = None
                self._at = value
            case "cpus" if value in CPUS:
                viewed.cpus = value
            case "numbers" if value in NUMBERS:
                viewed.how = value
            case "show" if value in _SHOW:
                self._ask(viewed, only_set=value == _SHOW[1])

    def _ask(self, viewed: Viewed, **wish: Any) -> None:
        viewed.entries.ask(replace(viewed.entries.wish, page=0, **wish))

    def _search(self, viewed: Viewed, told: Mapping[str, Any]) -> None:
        where = told.get("where") if told.get("where") in IN else viewed.entries.wish.where
        self._ask(viewed, search=str(told.get("text", ""))[:MOST_CHARACTERS], where=where)

    def _sort(self, viewed: Viewed, told: Mapping[str, Any]) -> None:
        """The same column again turns the order; amounts begin with the largest."""
        by, wish = str(told.get("by", ""))[:20], viewed.entries.wish
        self._ask(viewed, sort=by, descending=not wish.descending if by == wish.sort else not by.startswith("key"))

    def _page(self, viewed: Viewed, told: Mapping[str, Any]) -> None:
        page = min(max(0, int(told.get("to", 0))), viewed.entries.pages - 1)
        viewed.entries.ask(replace(viewed.entries.wish, page=page))

    def _open(self, viewed: Viewed, told: Mapping[str, Any]) -> None:
        """The form for a row, or for a new entry."""
        viewed.check_open_to_writing()
        row = bytes.fromhex(str(told["row"])) if told.get("row") else None
        if row is not None:
            viewed.writing.check_key(row)
        viewed.said = ""
        viewed.form = Form(viewed.writing, row)

    def _shut(self, viewed: Viewed, _told: Mapping[str, Any]) -> None:
        viewed.form = None

    def _write(self, viewed: Viewed, told: Mapping[str, Any]) -> None:
        form = viewed.form
        if form is None:
            return
        texts, cpus = texts_of(told.get("fields")), str(told.get("cpus", ""))[:20]

        def work() -> Done:
            writing = viewed.writing
            if form.key is None:
                return writing.add(texts_of(told.get("keys")), texts, cpus)
            return writing.write(form.key, texts, cpus)

        self._edit(viewed, form, work)

    def _delete(self, viewed: Viewed, _told: Mapping[str, Any]) -> None:
        form = viewed.form
        if form is not None and form.key is not None:
            key = form.key
            self._edit(viewed, form, lambda: viewed.writing.delete(key))

    def _edit(self, viewed: Viewed, form: Form, work: Callable[[], Done]) -> None:
        """Do it, or say in the form why not."""
        try:
            viewed.check_open_to_writing()
            done = work()
        except LabError as error:
            self.errors.append(error)
            form.refused = f"{error.message} {error.remedy[:1].upper()}{error.remedy[1:]}."
            return
        viewed.form, viewed.said = None, done.words
        if done.way_back:
            viewed.undone.append(done)

    def _undo(self, viewed: Viewed, _told: Mapping[str, Any]) -> None:
        if viewed.undone:
            viewed.check_open_to_writing()
            viewed.said = viewed.writing.undo(viewed.undone.pop())

    def __repr__(self) -> str:
        return f"<browser of the maps of {self._whose}: {self.ended or 'live'}>"


def _controls(viewed: Viewed | None) -> list[dict[str, Any]]:
    if viewed is None or not viewed.readable:
        return []
    only_set = viewed.entries.wish.only_set
    found = [segmented("cpus", "CPUs", CPUS, viewed.cpus)] if viewed.reading.cpus > 1 else []
    found.append(segmented("numbers", "Numbers", NUMBERS, viewed.how))
    return [*found, segmented("show", "Values", _SHOW, _SHOW[1] if only_set else _SHOW[0])]
