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
class _Stretch:
    """A counting map while its programs ran in one mode: what it held at the beginning, and at the end once that came."""

    ident: int
    program: Program
    mode: str
    begin: Mapping[str, int]
    places: list[str] = field(default_factory=list)
    running: set[str] = field(default_factory=set)
    end: Mapping[str, int] | None = None

    def tally(self) -> Tally:
        now = self.end if self.end is not None else self.program.verdicts() or self.begin
        counts = {verdict: count - self.begin[verdict] for verdict, count in now.items()}
        return Tally(self.program.name, tuple(self.places), self.mode, counts)


class VerdictBook:
    """Every counting map that ran at an interface of the lab, stretch by stretch.

    Programs that share a map (one replaced the other and kept its counters) share a stretch; a change between native and
    generic mode begins another, as the same verdict then shows in other counters of the kernel.
    """

    def __init__(self) -> None:
        self._stretches: list[_Stretch] = []

    def note(self, program: Program, where: str, mode: str) -> None:
        """Note that ``program`` runs at ``where`` from now on."""
        counts, now = program.maps.get("verdicts"), program.verdicts()
        if counts is None or now is None:
            return
        last = next((s for s in reversed(self._stretches) if s.ident == counts.id), None)
        if last is None or last.mode != mode:
            # Packets may have been counted since the program was attached: a new map began at 0, another where it stopped.
            begin = dict.fromkeys(now, 0) if last is None else (last.end or now)
            if last is not None:
                last.end = begin
            last = _Stretch(counts.id, program, mode, begin)
            self._stretches.append(last)
        last.program, last.end = program, None
        last.running.add(where)
        if where not in last.places:
            last.places.append(where)

    def attached(self, link: Link) -> None:
        """Note a link."""
        self.note(link.program, link.interface.where, link.mode)

    def detached(self, link: Link) -> None:
        """Note that a link is closed: a stretch that runs nowhere else is over."""
        counts = link.program.maps.get("verdicts")
        for stretch in self._stretches:
            if counts is not None and stretch.ident == counts.id and stretch.end is None:
                stretch.running.discard(link.interface.where)
                if not stretch.running:
                    stretch.end = link.program.verdicts()

    def read(self) -> dict[int, Tally]:
        """What was counted in each stretch, by its number."""
        return {number: stretch.tally() for number, stretch in enumerate(self._stretches)}
