"""What metadata before a packet costs and saves: on a CPU's way to the stack, before a drop, and for a choice of CPU."""

from __future__ import annotations

import contextlib
from dataclasses import replace

from labkit.bench.measure import Measure, Progress, paired
from labkit.bench.result import BenchResult
from labkit.lesson.hints_cost import Burst, Composer, TimedWay
from labkit.lesson.hints_cost_crossover import crossover
from labkit.lesson.hints_cost_xdp import BY_HASH, BY_PARSING, COMPOSED, PLAIN, cost_of_composing, hash_or_parse

__all__ = ["run"]

_LARGE, _SMALL = 1024, 64  # bytes of the frame


def run(runs: int, progress: Progress, *, packets: int = 4_001) -> BenchResult:
    """Mpps of 1,024-byte frames on one CPU with metadata composed for each, against the same without.

    Each run of a measure is one burst of ``packets``; every one comes to the end of its way, and is accounted for.
    """
    with contextlib.ExitStack() as opened:
        way = opened.enter_context(TimedWay("bench-hints", largest_bytes=_LARGE))

        def mpps(size: int, composer: Composer, *, other_cpu: bool = False, gro: bool = False) -> Measure:
            burst = Burst(packets, size, composer, other_cpu, gro)
            return lambda: 1e3 / way.run(burst)

        also = {
            f"{name}_{'with' if composer.here else 'without'}": mpps(size, composer, other_cpu=other, gro=gro)
            for name, size, other, gro in (
                ("small", _SMALL, False, False),
                ("gro", _LARGE, False, True),
                ("other_cpu", _LARGE, True, False),
            )
            for composer in (Composer.NOBODY, Composer.GIVEN)
        }
        found = paired(
            mpps(_LARGE, Composer.GIVEN),
            {"without_metadata": mpps(_LARGE, Composer.NOBODY)},
            unit="Mpps",
            better="more",
            runs=runs,
            progress=progress,
            also=also,
        )
    progress("  the crossing, a drop, a choice …")
    figures, notes = _more(runs, packets)
    return replace(
        found,
        also={**found.also, **figures},
        notes=(
            f"{packets:,} packets a run, made, received and taken to a socket's filter on one CPU; pauses above 50 µs, in "
            "which others had it, are left out",
            f"…_with, …_without: Mpps; small: {_SMALL} bytes, all others {_LARGE}",
            *notes,
        ),
    )


def _more(runs: int, packets: int) -> tuple[dict[str, float], tuple[str, ...]]:
    """The crossing for a cheap composer and for a dear one, and what is measured within XDP, in ns a packet."""
    found = crossover(Composer.GIVEN, Composer.TIME, packets=packets, pairs=3 * runs)
    drop, choice = cost_of_composing(runs=8 * runs), hash_or_parse(runs=8 * runs)
    composed = COMPOSED[Composer.GIVEN]
    figures = {
        "threshold_given_bytes": float(found[Composer.GIVEN].threshold_bytes),
        "threshold_hash_and_time_bytes": float(found[Composer.TIME].threshold_bytes),
        "drop_mpps": drop[PLAIN].mpps,
        "drop_composed_mpps": drop[composed].mpps,
        "drop_composed_more_ns": drop.more_ns(composed),
        "choice_by_hash_ns": choice.more_ns(BY_HASH),
        "choice_by_parsing_ns": choice.more_ns(BY_PARSING),
    }
    notes = (
        f"metadata pays, where the composer {Composer.GIVEN.value}: {found[Composer.GIVEN]}",
        f"… {Composer.TIME.value}: {found[Composer.TIME]}",
        "threshold_…: 0 is every frame, 65,536 none",
    )
    return figures, notes
