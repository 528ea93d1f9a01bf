"""What XDP programs returned, counted by the programs themselves, kept over replacement and close."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from labkit.program.link import Link
from labkit.program.program import Program

__all__ = ["Tally", "VerdictBook"]


@dataclass(frozen=True)
class Tally:
    """One counting map: ``places`` are the interfaces (``server eth0``) whose programs count in it."""

    program: str
    places: tuple[str, ...]
    mode: str
    counts: Mapping[str, int]


@dataclass
class _Entry:
    program: Program
    mode: str
    places: list[str] = field(default_factory=list)


class VerdictBook:
    """Every counting map that ran at an interface of the lab, under the id of the map.

    Programs that share a map (one replaced the other and kept its counters) share an entry.
    """

    def __init__(self) -> None:
        self._entries: dict[int, _Entry] = {}

    def note(self, program: Program, where: str, mode: str) -> None:
        """Note that ``program`` runs at ``where`` from now on."""
        counts = program.maps.get("verdicts")
        if counts is None:
            return
        entry = self._entries.setdefault(counts.id, _Entry(program, mode))
        entry.program, entry.mode = program, mode
        if where not in entry.places:
            entry.places.append(where)

    def attached(self, link: Link) -> None:
        """Note a link."""
        self.note(link.program, link.interface.where, link.mode)

    def read(self) -> dict[int, Tally]:
        """Map id → what was counted since the map was made."""
        found = {}
        for ident, entry in self._entries.items():
            counts = entry.program.verdicts()
            if counts is not None:
                found[ident] = Tally(entry.program.name, tuple(entry.places), entry.mode, counts)
        return found
