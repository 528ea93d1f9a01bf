"""Runs side by side: in each round the lab and every baseline take their turn, so that noise hits them alike."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from statistics import median
from typing import Literal

from labkit.bench.result import BenchResult

__all__ = ["Measure", "Progress", "elapsed_ms", "paired"]

Measure = Callable[[], float]
Progress = Callable[[str], None]
_LAB = "lab"


def paired(
    measure: Measure,
    baselines: Mapping[str, Measure],
    *,
    unit: str,
    better: Literal["more", "less"],
    runs: int,
    progress: Progress,
    also: Mapping[str, Measure] | None = None,
    notes: tuple[str, ...] = (),
) -> BenchResult:
    """The result of ``runs`` rounds after one that warms up and isn't counted; every other round in reverse order."""
    contenders = {_LAB: measure, **baselines, **(also or {})}
    found: dict[str, list[float]] = {name: [] for name in contenders}
    for number in range(runs + 1):
        turns = list(contenders.items())
        for name, contender in turns if number % 2 else reversed(turns):
            value = contender()
            if number:
                found[name].append(value)
        progress(f"  run {number} of {runs}" if number else "  warmed up")
    value = median(found[_LAB])
    baseline = {name: median(found[name]) for name in baselines}
    return BenchResult(
        value=value,
        unit=unit,
        runs=runs,
        baseline=baseline,
        ratio={name: value / theirs if better == "more" else theirs / value for name, theirs in baseline.items()},
        also={name: median(found[name]) for name in also or {}},
        notes=notes,
    )


def elapsed_ms(function: Callable[[], object], times: int = 1) -> float:
    """Milliseconds a call of ``function`` takes, the mean over ``times`` calls."""
    began = time.perf_counter()
    for _ in range(times):
        function()
    return (time.perf_counter() - began) * 1e3 / times
