"""One map as a browser shows it: what it is, its columns, a page of its rows, a form for one entry."""

from __future__ import annotations

import time
from collections import deque
from typing import Any

from labkit.errors import LabError, MapError
from labkit.lab import Lab
from labkit.uapi import MapType
from labkit.widgets.map_browser_edit import Done, Writing
from labkit.widgets.map_browser_entries import PAGE_ROWS, Entries
from labkit.widgets.map_browser_fields import Leaf
from labkit.widgets.map_browser_form import Form
from labkit.widgets.map_browser_maps import Known, fields_of, refreshed
from labkit.widgets.map_browser_reading import READABLE, Fill, fill_of, reading_of, told_of
from labkit.widgets.map_browser_text import NUMBERS, cell, difference, summed
from labkit.widgets.map_browser_words import TYPES, facts, locked, uses, where_it_runs

__all__ = ["CPUS", "Viewed"]

CPUS = ("summed", "one by one")
_MOST_COLUMNS = 6  # of a value's fields side by side; more of them stand one below the other
_MOST_UNDONE = 20
_TOLD_S = 1.0  # how often the kernel is asked for the map's memory
_MOST_NAMED = 3


class Viewed:
    """A map, its entries, and what somebody does with them. Owns a descriptor: ``close`` lets go of it."""

    def __init__(self, known: Known, lab: Lab) -> None:
        self.lab, self.known = lab, known
        self.reading = reading_of(known.map)
        keys, values = fields_of(known, lab)
        self.entries = Entries(self.reading, keys, values)
        self.readable = known.map.spec.type in READABLE
        self.how, self.cpus = NUMBERS[0], CPUS[0]
        self.fill: Fill | None = None
        self.form: Form | None = None
        self.said = ""
        self.refused: LabError | None = None
        self.undone: deque[Done] = deque(maxlen=_MOST_UNDONE)
        self._told = told_of(self.reading)
        self._told_at = time.monotonic()

    def close(self) -> None:
        """Let go of the descriptor. Safe to call again."""
        self.reading.close()

    @property
    def writing(self) -> Writing:
        """The way to write to it."""
        return Writing(self.lab, self.known, self.reading, self.entries.keys, self.entries.values)

    @property
    def locked(self) -> str:
        """Why it is not to be written to from here; "" where it may be."""
        spec = self.known.map.spec
        return locked(spec.name, spec.type, self._told, self.known.programs)

    def check_open_to_writing(self) -> None:
        """Raises MapError where it is read-only here."""
        if why := self.locked or ("" if self.refused is None else self.refused.message):
            raise MapError(
                f"{self.known.map.name} is read-only here.", tried="to write a map", on=self.known.map.name, remedy=why
            )

    def tick(self, known: Known) -> None:
        """Read. What the kernel refuses is kept in ``refused``."""
        self.known = known
        now = time.monotonic()
        if now - self._told_at > _TOLD_S:
            self._told, self._told_at = told_of(self.reading), now
        self.entries.values = refreshed(self.entries.values, known, self.lab)
        try:
            if self.readable:
                self.entries.tick()
            elif known.map.spec.type is MapType.RINGBUF:
                self.fill = fill_of(self.reading)
        except MapError as error:
            self.refused = error
            return
        self.refused = None

    # What the page gets

    def shown(self) -> dict[str, Any]:
        """The whole of it."""
        spec, entries = self.known.map.spec, self.entries
        return {
            "map": self.reading.id,
            "facts": facts(spec.type, spec.key_size, spec.value_size, spec.max_entries, self.reading.id, self._told),
            "about": TYPES.get(spec.type, "A type of map that this view doesn't know: its entries are not shown."),
            "users": self._users(),
            "locked": self.locked if self.readable else "",
            "readable": self.readable and self.refused is None,
            "refused": f"{self.refused.message} {self.refused.remedy}" if self.refused is not None else "",
            "fill": _fill_row(self.fill),
            "columns": self._columns(),
            "rows": [self._row(key, raw) for key, raw in entries.rows],
            "page": [entries.page, entries.pages],
            "span": self._span(),
            "gone": self._gone(),
            "since_s": int(time.monotonic() - entries.marked_at),
            "wish": [entries.wish.search, entries.wish.where, entries.wish.sort, entries.wish.descending],
            "form": self._form_shown(),
            "can_add": self.readable and not self.locked and self.writing.can_add,
            "said": self.said,
            "undo": self.undone[-1].way_back if self.undone else "",
        }

    def _form_shown(self) -> dict[str, Any] | None:
        try:
            return None if self.form is None else self.form.shown()
        except MapError as error:  # the map is not to be read any more: the form goes, the view stays
            self.form, self.refused = None, error
            return None

    def _users(self) -> list[list[str]]:
        links = [(link.program, link.interface.where, str(link.mode)) for link in list(self.lab.attached)]
        name = self.known.map.name
        return [[each.name, str(each.id), uses(each, name), where_it_runs(each, links)] for each in self.known.programs]

    @property
    def stacked(self) -> bool:
        """Whether a value's fields stand one below the other."""
        return len(self.entries.values) > (1 if self._each else _MOST_COLUMNS)

    @property
    def _each(self) -> bool:
        return self.reading.cpus > 1 and self.cpus == CPUS[1]

    def _columns(self) -> list[dict[str, Any]]:
        keys, values = self.entries.keys, self.entries.values
        sortable = self.entries.small
        found = [_column(leaf, leaf.name or "key", f"key {i}", "key") for i, leaf in enumerate(keys)]
        if self.stacked:
            found.append({"name": "field", "note": "", "sort": "", "kind": "field"})
        if self._each:
            whole = values[0] if len(values) == 1 else Leaf("", 0, 0, "number")
            sort = "value 0" if len(values) == 1 else ""
            found.append({**_column(whole, "all CPUs", sort, "value"), "name": "all CPUs"})
            found += [{"name": f"CPU {i}", "note": "", "sort": "", "kind": "value"} for i in range(self.reading.cpus)]
        elif self.stacked:
            found.append({"name": "value", "note": "", "sort": "", "kind": "value"})
        else:
            found += [_column(leaf, leaf.name or "value", f"value {i}", "value") for i, leaf in enumerate(values)]
        change = {"name": "change", "note": "", "sort": "change" if sortable else "", "kind": "change"}
        return [*found, change]

    def _row(self, key: bytes, raw: bytes) -> dict[str, Any]:
        parts, values, how = self.reading.parts(raw), self.entries.values, self.how
        cells: list[list[Any]] = [
            [cell(leaf, key, how) if how != "decimal" else _plain(leaf, key)] for leaf in self.entries.keys
        ]
        if self.stacked:
            cells.append([[leaf.name or "value", ""] for leaf in values])
        totals = [summed(leaf, parts, how) if len(parts) > 1 else cell(leaf, parts[0], how) for leaf in values]
        if self._each:
            cells.append(totals)
            cells += [[cell(leaf, part, how) for leaf in values] for part in parts]
        else:
            cells += [totals] if self.stacked else [[total] for total in totals]
        return {
            "id": key.hex(),
            "cells": cells,
            "change": self._change(key, parts),
            "moves": self.entries.moves(key),
            "new": self.entries.is_new(key),
        }

    def _change(self, key: bytes, parts: list[bytes]) -> list[str]:
        before = self.entries.marked.get(key)
        if before is None:
            return []
        old = self.reading.parts(before)
        found = ((leaf.name, difference(leaf, old, parts)) for leaf in self.entries.values)
        return [f"{name} {words}".strip() for name, words in found if words]

    def _span(self) -> str:
        """Which rows these are, of how many."""
        entries, first = self.entries, self.entries.page * PAGE_ROWS
        most = "" if entries.paged >= entries.found else f" the first {entries.paged:,} of"
        looking = bool(entries.wish.search or entries.wish.only_set)
        all_of = "" if entries.counted is None else f" of {entries.counted:,} entries"
        if not entries.through:
            all_of = f"; looked at {entries.looked:,} entries so far" + (f"{all_of}" if entries.counted else "")
        if not entries.rows:
            return f"{'Nothing found' if looking else 'No entries'}{all_of if looking or not entries.through else ''}"
        rows = f"Rows {first + 1:,} to {first + len(entries.rows):,} of{most} {entries.found:,}"
        return rows + (f" found{all_of}" if looking else (" entries" if entries.through else all_of))

    def _gone(self) -> str:
        gone = self.entries.gone
        if not gone:
            return ""
        name = ", ".join(" ".join(_plain(leaf, key)[0] for leaf in self.entries.keys) for key in gone[:_MOST_NAMED])
        return f"{len(gone):,} deleted since: key {name}{' …' if len(gone) > _MOST_NAMED else ''}"


def _column(leaf: Leaf, name: str, sort: str, kind: str) -> dict[str, Any]:
    return {"name": name, "note": leaf.described(), "sort": sort, "kind": kind}


def _plain(leaf: Leaf, key: bytes) -> tuple[str, str]:
    """A key's number is a name, not an amount: without separators."""
    text, beside = cell(leaf, key)
    number = leaf.number(key)
    return (str(number), beside) if number is not None and text == f"{number:,}" else (text, beside)


def _fill_row(fill: Fill | None) -> list[int] | None:
    return None if fill is None else [fill.waiting_bytes, fill.size_bytes, fill.written_bytes]
