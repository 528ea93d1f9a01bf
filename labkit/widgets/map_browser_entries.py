"""Which entries are shown: found, sorted, a page of them, live; however large the map is, a tick costs about the same.

A small map is read whole each time. A large one is gone through piece by piece (``Sweep``), and the page that is shown is
looked up anew each time. A large array needs no search for its keys.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from labkit.uapi import MapType
from labkit.widgets.map_browser_fields import Leaf
from labkit.widgets.map_browser_reading import Entry, Reading, SocketsReading
from labkit.widgets.map_browser_search import IN, Match, any_set, matcher
from labkit.widgets.map_browser_sweep import Rank, Sweep

__all__ = ["PAGE_ROWS", "Entries", "Wish"]

PAGE_ROWS = 25
_SMALL_ENTRIES, _SMALL_BYTES = 1_024, 256 << 10  # read whole each time
_MOST_MARKED = 4_096  # first values that are remembered of a large map
_MOVED_S = 1.0  # how long a change stays marked as just now
_ARRAYS = (MapType.ARRAY, MapType.PERCPU_ARRAY)
_ORDER: Any = sys.byteorder


@dataclass(frozen=True)
class Wish:
    """What somebody wants to see. ``sort`` is "" (as it comes), "key 0", "value 2", "change"; pages count from 0."""

    search: str = ""
    where: str = IN[0]
    only_set: bool = False
    sort: str = ""
    descending: bool = False
    page: int = 0


class Entries:
    """The entries of one map for one view; ``keys`` and ``values`` are its fields. ``rows`` is the page.

    ``found`` counts what can be paged through or was found, ``counted`` the entries of the map (None: nobody has come to the
    end yet), ``looked`` those seen on the way there; ``through`` says whether all were looked at.
    """

    def __init__(self, reading: Reading, keys: Sequence[Leaf], values: Sequence[Leaf]) -> None:
        self.reading, self.keys, self.values = reading, keys, values
        spec = reading.spec
        few = spec.max_entries <= _SMALL_ENTRIES and spec.max_entries * reading.bytes <= _SMALL_BYTES
        self.small = few or isinstance(reading, SocketsReading)
        self.array = spec.type in _ARRAYS
        self.wish = Wish()
        self.rows: list[Entry] = []
        self.found = self.paged = self.looked = 0
        self.counted: int | None = None
        self.through = False
        self.marked: dict[bytes, bytes] = {}
        self.marked_at = time.monotonic()
        self.gone: list[bytes] = []
        self._marking = True
        self._sweep: Sweep | None = None
        self._last: dict[bytes, bytes] = {}
        self._moved: dict[bytes, float] = {}

    def ask(self, wish: Wish) -> None:
        """Show something else from now on."""
        if replace(wish, page=0) != replace(self.wish, page=0):
            self._sweep = None
        self.wish = wish

    def mark(self) -> None:
        """Changes are told from now on."""
        self.marked, self.gone, self._marking = {}, [], True
        self.marked_at = time.monotonic()

    def is_new(self, key: bytes) -> bool:
        """Whether it came after the mark; known of small maps only."""
        return self.small and key not in self.marked

    def moves(self, key: bytes) -> bool:
        """Whether the entry has just changed."""
        return time.monotonic() - self._moved.get(key, -_MOVED_S) < _MOVED_S

    @property
    def pages(self) -> int:
        """How many there are to turn."""
        return max(1, -(-self.paged // PAGE_ROWS))

    @property
    def page(self) -> int:
        """The one that is shown, from 0."""
        return min(max(0, self.wish.page), self.pages - 1)

    def tick(self) -> None:
        """Read what is shown, and a bounded piece of the rest. Raises MapError."""
        match = self._match()
        if self.small:
            self._whole(match)
        elif self.array and match is None and self.wish.sort in ("", "key 0"):
            self._of_array()
        else:
            self._of_sweep(match)
        self._note()

    def _match(self) -> Match | None:
        asked = matcher(self.wish.search, self.wish.where, self.keys, self.values)
        if not self.wish.only_set:
            return asked
        return any_set if asked is None else lambda key, parts: any_set(key, parts) and asked(key, parts)

    def _whole(self, match: Match | None) -> None:
        now, parts = self.reading.whole(), self.reading.parts
        if self._marking:
            self.marked, self._marking = now, False
        self.gone = [key for key in self.marked if key not in now]
        found = [entry for entry in now.items() if match is None or match(entry[0], parts(entry[1]))]
        rank = self._rank(self.wish.sort or ("" if self.array else "key 0"))
        if rank is not None:
            found.sort(key=lambda entry: rank(*entry), reverse=self.wish.descending)
        self.counted = self.looked = len(now)
        self.found = self.paged = len(found)
        self.through = True
        self.rows = found[self.page * PAGE_ROWS :][:PAGE_ROWS]

    def _of_array(self) -> None:
        number = self.reading.spec.max_entries
        self.found = self.paged = self.counted = self.looked = number
        self.through = True
        order = range(number)[:: -1 if self.wish.descending else 1]
        self._look_up([index.to_bytes(4, _ORDER) for index in order[self.page * PAGE_ROWS :][:PAGE_ROWS]])

    def _of_sweep(self, match: Match | None) -> None:
        if self._sweep is None:
            self._sweep = Sweep(self.reading, match, self._rank(self.wish.sort), self.wish.descending)
        sweep = self._sweep
        sweep.step()
        self.found, self.paged, self.looked, self.through = sweep.found, len(sweep.keys), sweep.looked, sweep.through
        self.counted = self.reading.spec.max_entries if self.array else sweep.counted
        self._look_up(sweep.keys[self.page * PAGE_ROWS :][:PAGE_ROWS])

    def _look_up(self, keys: Sequence[bytes]) -> None:
        found = ((key, self.reading.lookup(key)) for key in keys)
        self.rows = [(key, raw) for key, raw in found if raw is not None]

    def _note(self) -> None:
        """What has changed since the last tick, and what a row of a large map was when it was first seen."""
        now = time.monotonic()
        for key, raw in self.rows:
            if self._last.get(key, raw) != raw:
                self._moved[key] = now
            if not self.small:
                self.marked.setdefault(key, raw)
        self._last = dict(self.rows)
        self._moved = {key: at for key, at in self._moved.items() if now - at < _MOVED_S}
        while len(self.marked) > max(_MOST_MARKED, _SMALL_ENTRIES) and not self.small:
            del self.marked[next(iter(self.marked))]

    def _rank(self, sort: str) -> Rank | None:
        kind, _, number = sort.partition(" ")
        fields = {"key": self.keys, "value": self.values}.get(kind, ())
        if kind == "change" and self.small:
            return self._by_change
        if not number.isdecimal() or int(number) >= len(fields):
            return None
        leaf, parts = fields[int(number)], self.reading.parts
        if kind == "key":
            return lambda key, _raw: _worth(leaf, (key,))
        return lambda _key, raw: _worth(leaf, parts(raw))

    def _by_change(self, key: bytes, raw: bytes) -> int:
        before, parts = self.marked.get(key), self.reading.parts
        old = parts(before) if before is not None else [bytes(self.reading.value_size)] * self.reading.cpus
        change = 0
        for leaf in self.values:
            pairs = [(_worth(leaf, old), _worth(leaf, parts(raw)))]
            change += sum(abs(new - was) if isinstance(new, int) else int(new != was) for was, new in pairs)
        return change


def _worth(leaf: Leaf, parts: Sequence[bytes]) -> Any:
    """What a field is sorted by: a number, all CPUs together, or its bytes."""
    if leaf.shape == "numbers":
        return [sum(column) for column in zip(*map(leaf.numbers, parts), strict=True)]
    if leaf.shape in ("network", "port", "ipv4"):
        return leaf.cut(parts[0])  # in network order the bytes compare as the numbers do
    numbers = [leaf.number(part) for part in parts]
    return sum(number or 0 for number in numbers) if numbers[0] is not None else leaf.cut(parts[0])
