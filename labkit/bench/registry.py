"""Which benchmarks there are. Light to import: a benchmark's module is imported when it runs."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from labkit.errors import LessonError

if TYPE_CHECKING:
    from labkit.bench.result import BenchResult

__all__ = ["BENCHMARKS", "DEFAULT_RUNS", "Benchmark", "run_benchmarks"]

DEFAULT_RUNS = 5


@dataclass(frozen=True)
class Benchmark:
    """A benchmark: ``module`` has a function ``run(runs, progress) -> BenchResult``."""

    name: str
    summary: str
    module: str


BENCHMARKS = {
    bench.name: bench
    for bench in (
        Benchmark("generator", "packets sent: in-kernel generator, AF_PACKET socket, scapy", "labkit.bench.generator"),
        Benchmark("drop", "packets dropped: native XDP, generic XDP, without a look", "labkit.bench.drop"),
        Benchmark(
            "compile", "C text to a loaded program: cold, cached, and clang as a command", "labkit.bench.compilation"
        ),
        Benchmark("swap", "another program: replaced, or closed and attached", "labkit.bench.swap"),
        Benchmark("editor", "from the key in the editor to the edited program in the driver", "labkit.bench.editor"),
        Benchmark("panel", "traffic with the live panel on the page, and without", "labkit.bench.panel"),
        Benchmark("topology", "a chain of 20 hosts: the lab, and the `ip` command", "labkit.bench.topology"),
        Benchmark("ledger", "all counters of a lab read: the lab, and `ip -s link`", "labkit.bench.ledger"),
        Benchmark("redirect", "a router: device map, index, generic XDP, the kernel's own", "labkit.bench.redirect"),
        Benchmark("redirect-cost", "a redirect, step by step: what each one costs", "labkit.bench.redirect_cost"),
        Benchmark("cpumap", "work on another CPU, on the same, without a CPU map", "labkit.bench.cpumap"),
        Benchmark("hints", "metadata: what it saves the stack, and what it costs", "labkit.bench.hints"),
        Benchmark("observe", "a redirect: unwatched, and with three observers", "labkit.bench.observe"),
        Benchmark("xsk", "packets to a program and from it: AF_XDP, AF_PACKET", "labkit.bench.xsk"),
        Benchmark("skip-bpf", "the program before an AF_XDP socket: what it costs", "labkit.bench.skip_bpf"),
        Benchmark("ring-model", "a model of rings and pages beside figures of 2017", "labkit.bench.ring_model"),
        Benchmark("sandbox", "packets sent: in a sandbox, as root; and the time to open one", "labkit.bench.sandbox"),
    )
}


def run_benchmarks(
    names: Sequence[str] = (), *, runs: int = DEFAULT_RUNS, progress: Callable[[str], None] = lambda _: None
) -> dict[str, BenchResult]:
    """Run the benchmarks named (all where none is), each in labs of its own; ``progress`` is told what goes on.

    Raises LessonError for an unknown name or a number of runs below 1.
    """
    unknown = [name for name in names if name not in BENCHMARKS]
    if unknown:
        raise LessonError(
            f"There is no benchmark {unknown[0]!r}.",
            tried="to run a benchmark",
            remedy="the benchmarks are: " + ", ".join(BENCHMARKS),
        )
    if isinstance(runs, bool) or not isinstance(runs, int) or runs < 1:
        raise LessonError(
            f"{runs!r} runs can't be made.", tried="to run a benchmark", remedy="give a whole number from 1"
        )
    results: dict[str, BenchResult] = {}
    for name in dict.fromkeys(names or BENCHMARKS):
        progress(f"{name}: {BENCHMARKS[name].summary} …")
        results[name] = importlib.import_module(BENCHMARKS[name].module).run(runs, progress)
    return results
