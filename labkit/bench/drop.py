"""How fast packets are dropped: in the driver, in the stack before the firewall, and in the driver without a look."""

from __future__ import annotations

from collections.abc import Callable

from labkit.bench.measure import Progress, paired
from labkit.bench.result import BenchResult
from labkit.compile import compile_source
from labkit.compile.source import lesson_directory
from labkit.errors import TrafficError
from labkit.lab import Lab
from labkit.program.link import Mode
from labkit.program.program import Program
from labkit.topology import Topology
from labkit.traffic.frames import udp
from labkit.traffic.generator import generate

__all__ = ["run"]


def run(runs: int, progress: Progress, *, packets: int = 1_000_003) -> BenchResult:
    """Mpps from the generator to the drop, of one sender on one queue; every packet must be counted as dropped."""
    with Lab(Topology.pair(), name="bench-drop") as lab:
        client, server = lab["client"], lab["server"]
        frame = udp(client, server, size=64)
        counting = lab.load(compile_source(path=lesson_directory() / "drop_by_protocol.c"))
        blind = lab.load(compile_source(path=lesson_directory() / "touch_nothing.c"))

        def dropping(program: Program, mode: Mode) -> Callable[[], float]:
            def measure() -> float:
                before = _dropped(program)
                with program.attach(server["eth0"], mode=mode):
                    report = generate(client["eth0"], frame, packets)
                    lab.ledger()  # waits until the last packet has arrived
                if _dropped(program) - before != packets:
                    raise TrafficError(
                        f"{program.name} dropped {_dropped(program) - before:,} of {packets:,} packets.",
                        tried="to measure",
                        on=server["eth0"].where,
                        remedy="a measure of something else would mislead: run it again, and report it if it repeats",
                    )
                return report.pps / 1e6

            return measure

        return paired(
            dropping(counting, "native"),
            {"generic": dropping(counting, "generic"), "native_without_reading": dropping(blind, "native")},
            unit="Mpps",
            better="more",
            runs=runs,
            progress=progress,
            notes=(
                f"{packets:,} packets a run, generator and drop on the same machine: the rate is of both together",
                "drop_by_protocol, but native_without_reading: touch_nothing",
            ),
        )


def _dropped(program: Program) -> int:
    return (program.verdicts() or {}).get("XDP_DROP", 0)
