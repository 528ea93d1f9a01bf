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

    ``mode`` is "native", "generic", "both" at once, "devmap" or "cpumap" for a program in a map's slot, or "tc" for one
    that isn't XDP's; ``counts`` by the name of the verdict; ``generic`` the places of mode "both" where it ran in
    generic mode, ``native`` those where it ran in native mode. ``cpus`` are the same counts for each CPU by
    verdict, where the program's map keeps them apart and is still open: their sums are ``counts``.
    """

    program: str
    places: tuple[str, ...]
    mode: str
    counts: Mapping[str, int]
    generic: tuple[str, ...] = ()
    native: tuple[str, ...] = ()
    cpus: Mapping[str, tuple[int, ...]] = field(default_factory=dict)

    @property
    def generic_places(self) -> tuple[str, ...]:
        """Where it ran in generic mode."""
        return self.places if self.mode == "generic" else self.generic

    @property
    def native_places(self) -> tuple[str, ...]:
        """Where it ran in native mode."""
        return self.places if self.mode == "native" else self.native


@dataclass
class _Stretch:
    """A counting map while its programs ran: what it held at the beginning, and at the end once that came."""

    ident: int
    program: Program
    mode: str
    begin: Mapping[str, int]
    cpus_begin: Mapping[str, list[int]]
    places: dict[str, set[str]] = field(default_factory=dict)  # and in which modes
    links: list[Link] = field(default_factory=list)
    end: Mapping[str, int] | None = None

    def runs_in_another_mode(self, mode: str) -> bool:
        """Whether a program counts in the map somewhere, in another mode than ``mode``, right now."""
        return any(link.mode != mode and not link.closed and self._counts_here(link) for link in self.links)

    def _counts_here(self, link: Link) -> bool:
        counts = link.program.maps.get("verdicts")
        return counts is not None and counts.id == self.ident

    def note(self, link: Link) -> None:
        """The link's program counts here from now on."""
        self.program = link.program
        self.places.setdefault(link.interface.where, set()).add(link.mode)
        if link not in self.links:
            self.links.append(link)

    def tally(self) -> Tally:
        cpus = self._cpus()
        if cpus:
            counts = {verdict: sum(each) for verdict, each in cpus.items()}
        else:
            now = self.end if self.end is not None else self.program.verdicts() or self.begin
            counts = {verdict: count - self.begin[verdict] for verdict, count in now.items()}
        generic, native = (
            tuple(where for where, modes in self.places.items() if mode in modes) for mode in ("generic", "native")
        )
        if generic and native:
            return Tally(self.program.name, tuple(self.places), "both", counts, generic, native, cpus)
        return Tally(self.program.name, tuple(self.places), self.mode, counts, cpus=cpus)

    def _cpus(self) -> dict[str, tuple[int, ...]]:
        """What each CPU counted in a stretch that goes on; empty where that isn't known."""
        if self.end is not None or not self.cpus_begin:
            return {}
        found = self.program.verdicts_by_cpu()
        return {
            verdict: tuple(now - then for now, then in zip(each, self.cpus_begin[verdict], strict=True))
            for verdict, each in found.items()
        }


class VerdictBook:
    """Every counting map that ran at an interface of the lab, stretch by stretch.

    Programs that share a map (one replaced the other and kept its counters) share a stretch; a change between native and
    generic mode begins another, as the same verdict then shows in other counters of the kernel. Where one runs in both
    modes at once, at two interfaces, the stretch is of both.
    """

    def __init__(self) -> None:
        self._stretches: list[_Stretch] = []

    def prepare(self, program: Program, mode: str) -> None:
        """Note that ``program`` is about to run in ``mode``: what its map holds now was counted before."""
        counts, cpus = program.maps.get("verdicts"), program.verdicts_by_cpu()
        now = {verdict: sum(each) for verdict, each in cpus.items()} or program.verdicts()
        if counts is None or now is None:
            return
        last = self._latest(counts.id)
        if last is None or (last.mode != mode and not last.runs_in_another_mode(mode)):
            if last is not None:
                last.end = now
            self._stretches.append(_Stretch(counts.id, program, mode, now, cpus))

    def attached(self, link: Link) -> None:
        """Note that a prepared program runs at the link's interface."""
        counts = link.program.maps.get("verdicts")
        last = self._latest(counts.id) if counts is not None else None
        if last is not None:
            last.note(link)

    def _latest(self, ident: int) -> _Stretch | None:
        return next((stretch for stretch in reversed(self._stretches) if stretch.ident == ident), None)

    def read(self) -> dict[int, Tally]:
        """What was counted in each stretch, by its number."""
        return {number: stretch.tally() for number, stretch in enumerate(self._stretches)}
