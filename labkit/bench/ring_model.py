"""The ring model beside what was measured in 2017: each published figure, the model's, and the ratio of the two."""

from __future__ import annotations

from labkit.bench.measure import Progress, elapsed_ms
from labkit.bench.result import BenchResult
from labkit.models import FITTED_ON, PUBLISHED
from labkit.models import run as simulate

__all__ = ["run"]


def run(runs: int, progress: Progress) -> BenchResult:
    """The model's figure that is furthest from the thread's, in Mpps, beside the thread's; ``also`` has all of them.

    There is no chance in the model, so ``runs`` changes nothing but the time of a simulation, which is the shortest of them.
    """
    model = {each.name: each.of(simulate(each.knobs)) for each in PUBLISHED}
    progress(f"  {len(model)} figures")
    worst = max(PUBLISHED, key=lambda each: abs(model[each.name] / each.mpps - 1))
    also: dict[str, float] = {}
    for each in PUBLISHED:
        also |= {
            f"{each.name}_published": each.mpps,
            f"{each.name}_model": model[each.name],
            f"{each.name}_ratio": model[each.name] / each.mpps,
        }
    also["simulation_ms"] = min(elapsed_ms(lambda: simulate(PUBLISHED[0].knobs)) for _ in range(runs))
    return BenchResult(
        value=model[worst.name],
        unit="Mpps",
        runs=runs,
        baseline={worst.name: worst.mpps},
        ratio={worst.name: model[worst.name] / worst.mpps},
        also=also,
        notes=(
            "a model: none of this is measured here. …_published: the thread of 2017; …_ratio: model to thread",
            "fitted: " + "; ".join(f"{time} on {figure}" for time, figure in FITTED_ON.items()),
            "predicted: " + "; ".join(each.what for each in PUBLISHED if not each.fitted),
            "the predictions lean on the same sum of times, and none of them tests recycling: its one figure was fitted",
        ),
    )
