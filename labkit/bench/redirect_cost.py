"""What a redirect costs, step by step, from the differences of real runs; and what one step less could save at most."""

from __future__ import annotations

from labkit.bench.measure import Progress
from labkit.bench.result import BenchResult
from labkit.lesson.fast_path_cost import DROP, INDEX_SENT, TAKEN, RedirectCost, redirect_cost, saved_in_2020_ns

__all__ = ["run"]

_TURNS_A_RUN = 8
_BASELINES = {"dropped_at_once": DROP, "taken_at_the_way_out": TAKEN, "by_ifindex": INDEX_SENT}
_PARTS = ("step_one", "step_two", "queue", "other_end")


def run(runs: int, progress: Progress, *, packets: int = 4_001) -> BenchResult:
    """Nanoseconds of a whole packet that is redirected by a device map, beside packets that go less far.

    A run is eight turns of each lane. ``also`` has what each step costs, with the middle half of the turns, and what the
    proposal of 2020 could save here at the most.
    """
    cost = redirect_cost(packets=packets, turns=runs * _TURNS_A_RUN)
    progress(f"  {runs * _TURNS_A_RUN} turns of each lane")
    value = cost.redirect_ns
    baseline = {name: cost.timed.ns(lane) for name, lane in _BASELINES.items()}
    return BenchResult(
        value=value,
        unit="ns",
        runs=runs,
        baseline=baseline,
        ratio={name: theirs / value for name, theirs in baseline.items()},
        also=_steps(cost),
        notes=(
            f"a packet made, redirected and dropped on one CPU; {packets:,} a volley, the quickest of 5 volleys a turn, the "
            "quieter half of the turns",
            "…_low, …_high: half of the turns are between them; where 0 is, too, the step could not be told from noise",
            *cost.notes,
        ),
    )


def _steps(cost: RedirectCost) -> dict[str, float]:
    steps = dict(zip(_PARTS, (part.cost for part in cost.parts[1:]), strict=True)) | {"most_saved": cost.most_saved}
    found = {key: ns for name, step in steps.items() for key, ns in step.named(name).items()}
    return {**found, "saved_in_2020_ns": saved_in_2020_ns()}
