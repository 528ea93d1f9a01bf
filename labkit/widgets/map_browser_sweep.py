"""A large map, gone through piece by piece, over and over: what is found, or comes first, is kept."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from labkit.widgets.map_browser_reading import Entry, Reading
from labkit.widgets.map_browser_search import Match

__all__ = ["MOST_KEPT", "Rank", "Sweep"]

MOST_KEPT = 2_048  # keys
STEP_COUNTED, STEP_LOOKED_AT = 4_096, 512  # entries a step: only counted; searched or compared
STEP_BYTES = 256 << 10
REST_S = 1.0  # between two times through, where nothing is looked for

Rank = Callable[[bytes, bytes], Any]
"""What an entry is sorted by, of its key and its value on every CPU."""


class Sweep:
    """One step a tick. ``keys`` are those to show, in order; the first time through they grow, later a whole time replaces them.

    ``found`` counts what matched, ``looked`` the entries seen, this time through until it was ``through`` once. ``counted``
    is the number of entries at the end of a time through, None before.
    """

    def __init__(self, reading: Reading, match: Match | None, rank: Rank | None, descending: bool) -> None:
        self.keys: list[bytes] = []
        self.found = self.looked = 0
        self.counted: int | None = None
        self.through = False
        self._reading, self._match, self._rank, self._descending = reading, match, rank, descending
        most = STEP_COUNTED if match is None and rank is None else STEP_LOOKED_AT
        self._most = max(16, min(most, STEP_BYTES // max(1, reading.bytes)))
        self._rest_until = 0.0
        self._begin()

    def _begin(self) -> None:
        self._reading.rewind()
        self._best: dict[bytes, Any] = {}
        self._found = self._looked = self._steps = 0

    def step(self) -> None:
        """Go on, by a bounded number of entries. Raises MapError."""
        if time.monotonic() < self._rest_until:
            return
        entries, ended = self._reading.step(self._most)
        self._steps += 1
        self._looked += len(entries)
        self._keep(self._matching(entries))
        # Programs that add and delete all the time could keep a reader for ever.
        ended = ended or self._steps * self._most > 2 * self._reading.spec.max_entries + self._most
        if ended or not self.through:
            self._publish()
        if ended:
            self.counted, self.through = self._looked, True
            if self._match is None and self._rank is None:
                self._rest_until = time.monotonic() + REST_S
            self._begin()

    def _matching(self, entries: list[Entry]) -> list[Entry]:
        match, parts = self._match, self._reading.parts
        return entries if match is None else [entry for entry in entries if match(entry[0], parts(entry[1]))]

    def _keep(self, entries: list[Entry]) -> None:
        self._found += len(entries)
        rank = self._rank
        if rank is None:
            for key, _ in entries[: max(0, MOST_KEPT - len(self._best))]:
                self._best[key] = None
            return
        for key, raw in entries:
            self._best[key] = rank(key, raw)
        if len(self._best) > 2 * MOST_KEPT:
            self._best = dict(self._ordered())

    def _ordered(self) -> list[tuple[bytes, Any]]:
        if self._rank is None:
            return list(self._best.items())
        return sorted(self._best.items(), key=lambda item: item[1], reverse=self._descending)[:MOST_KEPT]

    def _publish(self) -> None:
        self.keys = [key for key, _ in self._ordered()]
        self.found, self.looked = self._found, self._looked
