"""How long it takes to put another program in place: replaced in one step, or taken off and attached anew."""

from __future__ import annotations

from labkit.bench.measure import Progress, elapsed_ms, paired
from labkit.bench.result import BenchResult
from labkit.compile import compile_source
from labkit.compile.source import lesson_directory
from labkit.lab import Lab
from labkit.topology import Topology

__all__ = ["run"]


def run(runs: int, progress: Progress, *, swaps: int = 20) -> BenchResult:
    """Milliseconds a swap between two programs on a veth, without traffic."""
    with Lab(Topology.pair(), name="bench-swap") as lab:
        interface = lab["server"]["eth0"]
        one = lab.load(compile_source(path=lesson_directory() / "touch_nothing.c"))
        other = lab.load(compile_source(path=lesson_directory() / "pass.c"))
        link = one.attach(interface)

        def replace() -> None:
            link.replace(other if link.program is one else one)

        def anew() -> None:
            nonlocal link
            program = other if link.program is one else one
            link.close()
            link = program.attach(interface)

        return paired(
            lambda: elapsed_ms(replace, swaps),
            {"close_and_attach": lambda: elapsed_ms(anew, swaps)},
            unit="ms",
            better="less",
            runs=runs,
            progress=progress,
            notes=(f"mean of {swaps} swaps a run; between close and attach packets run through no program",),
        )
