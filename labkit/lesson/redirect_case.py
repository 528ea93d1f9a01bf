"""What the exercises on redirects have in common: frames with a place to come out at, and what is wrong in the same way."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from labkit.lesson.port_trial import Passage, PortTrial
from labkit.lesson.practice import Row
from labkit.lesson.star import star
from labkit.program.spec import ProgramSpec

__all__ = ["COPIES", "Case", "Diagnosis", "attempt", "fill", "missing_maps", "switch"]

COPIES = 7
"""Of each frame."""


@dataclass(frozen=True)
class Case:
    """A frame from ``sender``, and where its copies should come out. ``look``: where to look if they don't."""

    what: str
    sender: int
    frame: bytes
    to: tuple[str, ...]
    look: str

    def row(self, seen: Passage, look: str) -> Row:
        """What was seen, beside what should have been."""
        expected = dict.fromkeys(self.to, seen.sent)
        words = ", ".join(f"{copies} to {place}" for place, copies in expected.items()) or "none to anybody"
        return Row(f"{seen.sent} × {self.what}", words, seen.words, seen.only(expected), look)


Diagnosis = Callable[[Case, Passage], str]
"""An exercise's own look at what was seen; "" where it knows nothing better than the case."""


def attempt(trial: PortTrial, case: Case, diagnosis: Diagnosis) -> Row:
    """The row of a case: send its frames, see where they come out, and say where to look."""
    seen = trial.send(f"h{case.sender}", case.frame, COPIES)
    return case.row(seen, diagnosis(case, seen) or _common(seen) or case.look)


_TARGET = (
    "the target: XDP_REDIRECT alone names none, and bpf_redirect() wants an interface's index, not a slot; return what "
    "ports.redirect_map(slot, flags) returns"
)


def _common(seen: Passage) -> str:
    """What is wrong in the same way in each of the exercises."""
    said = seen.verdicts
    if seen.refused:
        return _TARGET
    if said.get("XDP_TX"):
        return "XDP_TX: it sends a frame back out of the port it came in by; for another port there is XDP_REDIRECT"
    if said.get("unknown"):
        return "the return code: redirect_map's return value is the verdict, return that"
    if seen.altered:
        return "the frame itself: what is sent on or passed must stay as it is"
    return ""


_UNUSED = {
    "ports": (
        "the map ports: nothing is sent by it. Keep its name, and return what ports.redirect_map(slot, flags) returns: "
        "XDP_REDIRECT alone names no target, bpf_redirect() wants an interface's index and no slot, and XDP_TX goes back"
    ),
    "port_of": "the map port_of: it says which slot an address has. Keep its name, and ask it: port_of.lookup(&destination)",
}


def missing_maps(trial: PortTrial, *names: str) -> list[Row]:
    """A row for each map that the check wants to fill and the program doesn't use."""
    return [
        Row(f"the map {name}", "there", "not used by the program", False, _UNUSED[name])
        for name in names
        if name not in trial.program.maps
    ]


def switch(ends: int) -> Callable[[ProgramSpec, str | None], PortTrial]:
    """A trial at a switch with so many hosts: h1, h2 …"""
    names = [f"h{number}" for number in range(1, ends + 1)]
    return partial(PortTrial, topology=star("switch", *names), middle="switch")


def fill(trial: PortTrial, slots: Mapping[int, int]) -> None:
    """End's number → its slot in the map ``ports``."""
    for number, slot in slots.items():
        trial.program.maps["ports"][slot] = trial.ends[f"h{number}"].peer
