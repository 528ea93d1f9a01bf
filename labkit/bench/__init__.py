"""The lab measured against the usual tools, side by side in one process run."""

from labkit.bench.registry import BENCHMARKS, Benchmark, run_benchmarks
from labkit.bench.result import BenchResult

__all__ = ["BENCHMARKS", "BenchResult", "Benchmark", "run_benchmarks"]
