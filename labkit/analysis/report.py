"""The answer for a program: each call site, both verdicts, and what breaks it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from labkit.analysis.code import Code, Line
from labkit.analysis.dataflow import Break, dataflow
from labkit.analysis.explore import entries, walk
from labkit.analysis.peephole import peephole

__all__ = ["Report", "Reports", "Site", "examine"]


@dataclass(frozen=True)
class Site:
    """One call of bpf_redirect_map. ``line`` is None without line information.

    ``peephole`` and ``dataflow`` say whether each detector takes it for a tail call; ``broken`` is why the second
    doesn't; ``reached`` whether any way through the program leads here.
    """

    slot: int
    function: str
    line: Line | None
    peephole: bool
    broken: Break | None
    reached: bool

    @property
    def dataflow(self) -> bool:
        return self.broken is None


@dataclass(frozen=True, repr=False)
class Report:
    """All call sites of a program. ``redirects`` are the slots of calls of bpf_redirect that can be reached, ``leaves``
    those of bpf_tail_call.
    """

    code: Code
    sites: tuple[Site, ...]
    redirects: tuple[int, ...]
    leaves: tuple[int, ...]

    @property
    def peephole(self) -> bool:
        """Whether the detector of 2020 lets the program have the fast path: it has such calls, all tail calls."""
        return bool(self.sites) and all(site.peephole for site in self.sites)

    @property
    def dataflow(self) -> bool:
        """The same by dataflow."""
        return bool(self.sites) and all(site.dataflow for site in self.sites)

    @property
    def mixes(self) -> bool:
        """Whether it calls bpf_redirect as well: who leaves out the second step would lose those packets."""
        return bool(self.sites and self.redirects)

    @property
    def qualifies(self) -> bool:
        """Whether a driver could leave out the second step: all tail calls, none of bpf_redirect, and it doesn't go on in
        another program.
        """
        return self.dataflow and not self.mixes and not self.leaves

    def rows(self) -> list[tuple[str, str, str, str, str]]:
        """For a table: where, source, verdict of each detector, why not."""
        return [
            (
                f"{site.function}, instruction {site.slot}",
                str(site.line) if site.line else "(no line information)",
                _word(site.peephole),
                _word(site.dataflow),
                self.why(site),
            )
            for site in self.sites
        ]

    def why(self, site: Site) -> str:
        """What breaks a site, with its line; "" where nothing does."""
        if site.broken is None:
            return "" if site.reached else "never reached"
        line = self.code.line_at(site.broken.slot)
        if line is None:
            return f"instruction {site.broken.slot}: {site.broken.reason}"
        same = site.line is not None and site.line.file == line.file
        where = f"line {line.number}" if same else f"{line.file.rpartition('/')[2]}:{line.number}"
        return f"{where}: {site.broken.reason}"

    def path_lines(self, site: Site) -> tuple[Line, ...]:
        """The C lines on the way that breaks ``site``, one after another, without repeats."""
        lines: list[Line] = []
        for slot in site.broken.path if site.broken else ():
            line = self.code.line_at(slot)
            if line is not None and (not lines or lines[-1] != line):
                lines.append(line)
        return tuple(lines)

    def __str__(self) -> str:
        name, slots = self.code.functions[0].name, self.code.slots
        head = f"{name} ({self.code.origin.value}, {slots} instructions): {self.conclusion()}"
        lines = [head]
        for site, (where, source, narrow, wide, why) in zip(self.sites, self.rows(), strict=True):
            lines += [f"  {where}: {source}", f"    peephole: {narrow:<10} dataflow: {wide}"]
            if why:
                lines.append(f"    {why}")
            lines += [f"      way: {line}" for line in self.path_lines(site)]
        for slot in sorted(self.redirects + self.leaves):
            lines.append(f"  {self.code.function_at(slot).name}, instruction {slot}: {self.code.callees[slot].name}")
        return "\n".join(lines)

    __repr__ = __str__

    def conclusion(self) -> str:
        """One sentence."""
        if not self.sites:
            return "It doesn't call bpf_redirect_map: there is no second step to leave out."
        if self.leaves and self.dataflow:
            return "Every bpf_redirect_map is a tail call, but it goes on in other programs: what they do isn't known here."
        if self.mixes and self.dataflow:
            return "Every bpf_redirect_map is a tail call, but it calls bpf_redirect too: the second step must stay."
        if self.qualifies:
            return "Every bpf_redirect_map is a tail call: a driver could leave out the second step."
        bad = sum(not site.dataflow for site in self.sites)
        mixed = " It calls bpf_redirect too." if self.mixes else ""
        return (
            f"{bad} of {len(self.sites)} calls of bpf_redirect_map: not a tail call. The second step must stay.{mixed}"
        )

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "function": self.code.functions[0].name,
            "origin": self.code.origin.value,
            "section": self.code.section,
            "instructions": self.code.slots,
            "peephole": self.peephole,
            "dataflow": self.dataflow,
            "mixes_bpf_redirect": self.mixes,
            "calls_other_programs": bool(self.leaves),
            "qualifies": self.qualifies,
            "conclusion": self.conclusion(),
            "sites": [self._site(site) for site in self.sites],
        }

    def _site(self, site: Site) -> dict[str, Any]:
        return {
            "instruction": site.slot,
            "function": site.function,
            "line": _line(site.line),
            "peephole": site.peephole,
            "dataflow": site.dataflow,
            "reached": site.reached,
            "broken": None
            if site.broken is None
            else {
                "reason": site.broken.reason,
                "instruction": site.broken.slot,
                "line": _line(self.code.line_at(site.broken.slot)),
                "result": f"XDP_{site.broken.result.name}",
                "path": list(site.broken.path),
                "path_lines": [_line(line) for line in self.path_lines(site)],
            },
        }


class Reports(tuple[Report, ...]):
    """Several reports, shown one below the other."""

    __slots__ = ()

    def __str__(self) -> str:
        return "\n\n".join(map(str, self))

    __repr__ = __str__


def examine(code: Code) -> Report:
    """Both detectors on every call of bpf_redirect_map in ``code``. Raises AnalysisError where it is too large."""
    known = walk(code, entries(code))
    reached = {place.slot for place in known.states}
    sites = tuple(
        Site(
            slot,
            code.function_at(slot).name,
            code.line_at(slot),
            peephole(code, slot),
            dataflow(code, slot, known),
            slot in reached,
        )
        for slot in code.redirect_maps
    )
    redirects, leaves = (tuple(s for s in slots if s in reached) for slots in (code.redirects, code.tail_calls))
    return Report(code, sites, redirects, leaves)


def _word(yes: bool) -> str:
    return "tail call" if yes else "no"


def _line(line: Line | None) -> dict[str, Any] | None:
    return {"file": line.file, "number": line.number, "text": line.text.strip()} if line else None
