"""Frames that native XDP sent on: how many went in, where each came out, and so what no single counter tells.

A generator, a redirect at an interface and one on a CPU (the slot's program of a CPU map) put a frame in. It comes out at
a driver, which sends it, finds the peer's ring full or refuses it; in a CPU's queue; or at a program in a devmap's slot
that drops it. In and out are counted by different parts of the kernel: what they differ by is a broadcast's copies, or
what a counter does not name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from labkit.observe.queues import CpuQueue
from labkit.observe.verdicts import Tally

if TYPE_CHECKING:
    from labkit.observe.interface_change import InterfaceChange
    from labkit.observe.sample import Ways

__all__ = ["Flow", "lost_in_slots"]

_PASSED_ON = {"devmap": ("XDP_PASS",), "cpumap": ("XDP_PASS", "XDP_REDIRECT")}


def lost_in_slots(slots: Iterable[tuple[Tally, Mapping[str, int]]], kind: str) -> int:
    """What programs in slots of a "devmap" or "cpumap" dropped, by their own counts: every other verdict drops."""
    return sum(
        count
        for tally, gain in slots
        if tally.mode == kind
        for verdict, count in gain.items()
        if verdict not in _PASSED_ON[kind]
    )


@dataclass
class Flow:
    """Frames between two samples. ``refused`` by interface; ``egress`` and ``queued`` are the native part of what met a
    devmap's program or a CPU's queue, ``received`` of what AF_XDP sockets got; ``copies`` were added by broadcasts,
    ``nowhere`` is what had no slot to go to; ``left`` went in and is in no counter.
    """

    into: int
    refused: dict[str, int] = field(default_factory=dict)
    egress: int = 0
    queued: int = 0
    received: int = 0
    copies: int = 0
    nowhere: int = 0
    left: int = 0

    @classmethod
    def between(
        cls,
        interfaces: Iterable[InterfaceChange],
        into: int,
        egress: int,
        queues: Iterable[CpuQueue],
        received: int,
        ways: Ways,
        *,
        generic: bool,
        bulks_watched: bool,
    ) -> Flow:
        """``into``: what went in; ``egress``: what programs in devmaps dropped, in either mode; ``received``: by
        AF_XDP sockets, likewise; ``generic``: whether
        generic programs sent packets on, so that queues and devmaps may have been theirs.
        """
        flow = cls(into)
        all_ways = list(interfaces)
        taken = sum(each.taken for each in all_ways)
        queued = sum(queue.queued + queue.full for queue in queues)
        native = max(0, into - taken - sum(each.bulks.refused for each in all_ways))
        flow.queued = min(queued, native) if generic else queued
        flow.egress = min(egress, native - flow.queued) if generic else egress
        flow.received = min(received, native - flow.queued - flow.egress) if generic else received
        flow.left = into - taken - flow.queued - flow.egress - flow.received
        for each in all_ways:
            flow._refuse(each, ways, bulks_watched)
        if ways.broadcasts:
            flow.copies, flow.nowhere, flow.left = max(0, -flow.left), max(0, flow.left), 0
        return flow

    def _refuse(self, each: InterfaceChange, ways: Ways, bulks_watched: bool) -> None:
        """Frames that a driver refused altogether (ENXIO: the peer is down, or has no ring).

        Counted bulk by bulk while the watch runs; else known by two counters that must agree: what has come out nowhere,
        as far as tx_dropped has it. After a broadcast nothing is missing, and every tx_dropped is a refused copy.
        """
        known = each.bulks.refused
        unnamed = max(0, each.unsent - known)
        if ways.broadcasts:
            at_broadcaster = any(host == each.host for host, mode in ways.broadcasts if mode == "native")
            more = unnamed if at_broadcaster and not bulks_watched else 0
        elif each.made or not ways.sockets:
            more = max(0, min(unnamed, self.left - known))
        else:
            more = 0
        self.refused[each.where] = known + more
        self.left -= known + more
