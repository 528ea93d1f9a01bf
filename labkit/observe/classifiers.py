"""What programs at TC ingress dropped, by their own count: for where no probe may watch the stack.

Such a program counts in a map ``tc_verdicts`` what it returns, by the number of the action, as bpf/tc_drop.c does.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

from labkit.errors import StateError
from labkit.kernel.btf import Btf
from labkit.observe.verdicts import Tally
from labkit.program.map import Map
from labkit.program.program import Program
from labkit.uapi import ProgType

__all__ = ["ClassifierBook"]

_TC_ACT_SHOT = 2  # include/uapi/linux/pkt_cls.h


class ClassifierBook:
    """The counting maps of a lab's classifiers, held open so that a count stays when its program is closed."""

    def __init__(self) -> None:
        self._counts: dict[int, tuple[str, Map]] = {}

    def read(self, programs: Iterable[Program]) -> dict[int, Tally]:
        """One tally for each counting map of these programs and of those seen before, by the map's id."""
        for program in programs:
            counts = program.maps.get("tc_verdicts")
            if program.type is ProgType.SCHED_CLS and counts is not None and counts.id not in self._counts:
                self._keep(program, counts)
        return {
            ident: Tally(name, ("TC ingress",), "tc", {"TC_ACT_SHOT": counts[_TC_ACT_SHOT]})
            for ident, (name, counts) in self._counts.items()
        }

    def _keep(self, program: Program, counts: Map) -> None:
        try:
            fd = os.dup(counts.fd)
        except StateError:  # closed before anybody looked: what it counted is gone
            return
        btf = Btf(program.spec.btf) if program.spec.btf else None
        self._counts[counts.id] = (program.name, Map(counts.spec, fd, btf))

    def close(self) -> None:
        """Let go of the maps. Safe to call again."""
        for _, counts in self._counts.values():
            counts.close()
        self._counts.clear()
