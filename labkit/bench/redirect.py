"""How fast a router forwards: by a device map, by the interface's index, by generic XDP, by the kernel's own stack."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from contextlib import AbstractContextManager

from labkit.bench.measure import Measure, Progress, paired
from labkit.bench.result import BenchResult
from labkit.compile import compile_source
from labkit.compile.source import lesson_directory
from labkit.errors import TrafficError
from labkit.lab import Lab
from labkit.program.program import Program
from labkit.topology import Topology
from labkit.traffic.frames import udp
from labkit.traffic.generator import generate

__all__ = ["run"]


def run(runs: int, progress: Progress, *, packets: int = 500_009) -> BenchResult:
    """Mpps that arrive behind the router, of one sender on one queue; every packet must be accounted for."""
    with Lab(Topology.router(), name="bench-redirect") as lab:
        middle = lab["router"]
        by_map, by_index = _load(lab, "redirect_devmap.c"), _load(lab, "redirect_ifindex.c")
        by_map.maps["ports"][0] = middle["eth1"]
        by_index.maps["out"][0] = middle["eth1"].ifindex
        counter = _load(lab, "drop_all.c")
        counter.attach(lab["server"]["eth0"])

        def forwarded(arrange: Callable[[], AbstractContextManager[object]]) -> Measure:
            def measure() -> float:
                with arrange():
                    return _mpps(lab, counter, packets)

            return measure

        return paired(
            forwarded(lambda: by_map.attach(middle["eth0"])),
            {
                "by_ifindex": forwarded(lambda: by_index.attach(middle["eth0"])),
                "generic_by_devmap": forwarded(lambda: by_map.attach(middle["eth0"], mode="generic")),
                "kernel_ip_forward": forwarded(contextlib.nullcontext),
            },
            unit="Mpps",
            better="more",
            runs=runs,
            progress=progress,
            notes=(
                f"{packets:,} packets a run; sender, router and receiver on one machine: the rate is of all three together",
                "the receiver drops in its driver; a veth pair has no card: ratios, not rates, carry over",
            ),
        )


def _load(lab: Lab, file: str) -> Program:
    return lab.load(compile_source(path=lesson_directory() / file))


def _mpps(lab: Lab, counter: Program, packets: int) -> float:
    """The rate of what ``counter`` has dropped at the end of the way; the ledger must balance."""
    lab.reset()
    before = _dropped(counter)
    with lab.observer.without_drop_reasons():
        report = generate(lab["client"]["eth0"], udp(lab["client"], lab["server"]), packets)
        ledger = lab.ledger()
    arrived = _dropped(counter) - before
    if ledger.unaccounted or arrived + ledger.losses.get("ring full", 0) != packets:
        raise TrafficError(
            f"Of {packets:,} packets {arrived:,} arrived, and the rest is not accounted for.",
            tried="to measure",
            on=lab["server"]["eth0"].where,
            detail=str(ledger),
            remedy="a measure of something else would mislead: run it again, and report it if it repeats",
        )
    return arrived / report.seconds / 1e6


def _dropped(program: Program) -> int:
    return (program.verdicts() or {}).get("XDP_DROP", 0)
