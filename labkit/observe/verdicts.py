"""What XDP programs returned, counted by the programs themselves, kept over replacement and close."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from labkit.program.link import Link
from labkit.program.program import Program

__all__ = ["Tally", "VerdictBook"]


@dataclass(frozen=True)
class Tally:
    """One counting map: ``places`` are the interfaces (``server eth0``) whose programs count in it.

    ``mode`` is "native", "generic", or "tc" for a program that isn't XDP's; ``counts`` by the name of the verdict.
    """

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

    def prepare(self, program: Program, mode: str) -> None:
        """Note that ``program`` is about to run in ``mode``: what its map holds now was counted before."""
        counts, now = program.maps.get("verdicts"), program.verdicts()
        if counts is None or now is None:
            return
        last = self._latest(counts.id)
        if last is None or last.mode != mode:
            if last is not None:
                last.end = now
            self._stretches.append(_Stretch(counts.id, program, mode, now))

    def attached(self, link: Link) -> None:
        """Note that a prepared program runs at the link's interface."""
        counts = link.program.maps.get("verdicts")
        last = self._latest(counts.id) if counts is not None else None
        if last is not None:
            last.program = link.program
            if link.interface.where not in last.places:
                last.places.append(link.interface.where)

    def _latest(self, ident: int) -> _Stretch | None:
        return next((stretch for stretch in reversed(self._stretches) if stretch.ident == ident), None)

    def read(self) -> dict[int, Tally]:
        """What was counted in each stretch, by its number."""
        return {number: stretch.tally() for number, stretch in enumerate(self._stretches)}
