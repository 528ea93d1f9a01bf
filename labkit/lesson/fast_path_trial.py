"""What the exercises on the fast path have in common: the student's bytecode is analysed, and then shown real packets."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from labkit.analysis import Report, Site, analyse
from labkit.lesson.port_trial import Passage, PortTrial
from labkit.lesson.practice import Row
from labkit.lesson.redirect_case import COPIES
from labkit.lesson.star import star
from labkit.program.spec import ProgramSpec
from labkit.uapi import MapType

__all__ = ["SLOTS", "FastTrial", "Shown", "analysis_rows", "counted", "fast_switch", "map_rows"]

SLOTS = 8
"""Of each map of these exercises, at least."""

_LAST = (
    "the call is the last thing that a program may do: whatever stands behind it must come before it, or happen only where "
    "the answer was XDP_PASS, for then nothing was sent"
)
_ANSWER = (
    "the answer: return what redirect_map() returned, as it is. A helper that acts at once has XDP_DROP for “there was no "
    "room”, and then the packet is gone: nothing can turn that into XDP_PASS, or into XDP_REDIRECT"
)
_AGAIN = (
    "one try: after the first answer a second redirect may come only if that was XDP_PASS; XDP_DROP means the packet is gone "
    "already. Choose the slot first, then call once"
)
_FRAME = (
    "the frame: behind the redirect it would be somebody else's, in the queue or gone. Whatever you want to read or write of "
    "it, do before; or after XDP_PASS, for then it is still yours"
)
_WHERE = {"returns": _ANSWER, "calls bpf_redirect_map": _AGAIN, "calls": _LAST, "reads": _FRAME}


class FastTrial(PortTrial):
    """A trial at a switch that has also a ``report``: what both detectors say of the program's bytecode."""

    def __init__(self, spec: ProgramSpec, function: str | None, ends: int) -> None:
        self.report: Report = analyse(spec, function)[0]
        names = [f"h{number}" for number in range(1, ends + 1)]
        super().__init__(spec, function, star("switch", *names), "switch")


def fast_switch(ends: int) -> Callable[[ProgramSpec, str | None], FastTrial]:
    """Makes the trial of a program, at a switch with so many hosts: h1, h2 …"""

    def made(spec: ProgramSpec, function: str | None) -> FastTrial:
        return FastTrial(spec, function, ends)

    return made


def analysis_rows(report: Report, after_writing: str = _FRAME) -> list[Row]:
    """A row for each redirect by a map, and one for the other helper. ``after_writing``: where to look if memory is written."""
    rows = [_site_row(report, site, after_writing) for site in report.sites]
    if not rows:
        look = "redirect_map(): it isn't called any more. Keep it; it is what comes around it that has to change"
        rows = [Row("calls of redirect_map", "1 or more", "none", False, look)]
    other = "bpf_redirect(): the two helpers don't mix. Its packets would never be sent, as nobody does the second step"
    calls = str(len(report.redirects) or "none")
    rows.append(Row("calls of bpf_redirect", "none", calls, not report.redirects, other))
    if report.leaves:
        look = "bpf_tail_call(): what the next program does isn't known here; do it in this one"
        rows.append(Row("goes on in another program", "no", "yes", False, look))
    return rows


def _site_row(report: Report, site: Site, after_writing: str) -> Row:
    where = f"line {site.line.number}" if site.line else f"instruction {site.slot}"
    reason = site.broken.reason if site.broken else ""
    first = next((look for start, look in _WHERE.items() if reason.startswith(start)), after_writing)
    return Row(f"redirect_map in {where}", "tail call", report.why(site) or "tail call", site.dataflow, first)


# What the checks fill or read: how it is declared, which maps will do, the size of a value (0: any), where to look.
_MAPS = {
    "ports": (
        "LAB_DEVMAP(ports, 8)",
        (MapType.DEVMAP,),
        0,
        "the map ports: nothing is sent by it. Keep its name, and end in ports.redirect_map(slot, XDP_PASS)",
    ),
    "asked": (
        "LAB_PERCPU_ARRAY(asked, u64, 8)",
        (MapType.PERCPU_ARRAY, MapType.ARRAY),
        8,
        "the map asked: nothing is counted. Keep its name, and add 1 to asked[slot] for each packet",
    ),
    "next_hop": (
        "LAB_HASH(next_hop, u32, struct mac, 8)",
        (MapType.HASH,),
        6,
        "the map next_hop: it says which address a slot's packets get. Keep its name, and ask it before the redirect",
    ),
}


def map_rows(trial: FastTrial, *names: str) -> list[Row]:
    """A row for each map that the check wants to fill or to read, and the program doesn't use, or has another one for."""
    rows = []
    for name in names:
        declared, types, size, look = _MAPS[name]
        if name not in trial.program.maps:
            rows.append(Row(f"the map {name}", declared, "not used by the program", False, look))
            continue
        spec = trial.program.maps[name].spec
        if spec.type not in types or spec.max_entries < SLOTS or spec.value_size != (size or spec.value_size):
            seen = f"{spec.type.name.lower()}, {spec.max_entries} entries of {spec.value_size} bytes"
            rows.append(
                Row(f"the map {name}", declared, seen, False, f"the map {name}: leave it as it was, {declared}")
            )
    return rows


@dataclass(frozen=True)
class Shown:
    """A frame to be shown: from host ``sender``; its copies should come out at ``to`` (STACK, or a host), with the
    destination MAC ``mac`` (None: as it was). ``empty``: the slot that it goes to is.
    """

    what: str
    sender: int
    frame: bytes
    to: str
    look: str
    mac: bytes | None = None
    empty: bool = False

    def row(self, trial: FastTrial) -> Row:
        """Show it ``COPIES`` times, and tell what was seen."""
        seen = trial.send(f"h{self.sender}", self.frame, COPIES)
        there = dict(seen.came) == {self.to: COPIES}
        wanted = (self.mac or seen.shown[:6]) + seen.shown[6:]
        wrong = sum(each != wanted for frames in seen.frames.values() for each in frames)
        words = _words(seen, wrong)
        look = self.look if there else self._diagnosis(seen) or self.look
        return Row(f"{COPIES} × {self.what}", f"{COPIES} to {self.to}", words, there and not wrong, look)

    def _diagnosis(self, seen: Passage) -> str:
        if seen.refused:
            return "the target: XDP_REDIRECT alone names none; return what ports.redirect_map(slot, XDP_PASS) returns"
        if self.empty and not seen.came:
            return "the empty slot: the lower two bits of redirect_map's flags are the answer for it; XDP_PASS, not 0"
        return ""


def _words(seen: Passage, wrong: int) -> str:
    said = [f"{copies} to {place}" for place, copies in seen.came.items()]
    if seen.refused:
        said.append(f"{seen.refused} refused by the kernel")
    if wrong:
        said.append(f"{wrong} not as they should be")
    return ", ".join(said) or "none came anywhere"


def counted(trial: FastTrial, name: str) -> Mapping[int, int]:
    """Slot → packets, over all CPUs, in an array of counters."""
    return {slot: sum(trial.program.maps[name].per_cpu(slot)) for slot in range(SLOTS)}
