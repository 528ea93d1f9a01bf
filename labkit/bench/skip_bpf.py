"""What the program on a packet's way to an AF_XDP socket costs, and what of it a skip could save."""

from __future__ import annotations

from labkit.bench.measure import Progress
from labkit.bench.result import BenchResult
from labkit.lesson.skip_bpf import PUBLISHED, dispatcher_slots, skip_cost, skip_modes
from labkit.lesson.skip_bpf.cost import ASKED, DROP, NOBODY, PARSING

__all__ = ["run"]

_TURNS_A_RUN = 8
_BASELINES = {"dropped_at_once": DROP, "asked_and_dropped": ASKED, "redirected_to_nobody": NOBODY, "parsing": PARSING}


def run(runs: int, progress: Progress, *, packets: int | None = None) -> BenchResult:
    """Nanoseconds of a whole packet to the socket through the smallest program, beside packets that go less far, or further.

    A run is eight turns of each lane. ``also`` has each step's cost and what a skip could save, with the middle half of the
    turns, the same in generic mode, and what the call of a program costs for which the dispatcher has no slot.
    """
    turns = runs * _TURNS_A_RUN
    cost = skip_cost(packets=packets, turns=turns)
    progress(f"  {turns} turns of each lane")
    modes = skip_modes(packets=packets, turns=turns)
    progress(f"  {turns} turns in each mode")
    slots = dispatcher_slots(packets=packets, turns=turns)
    progress(f"  {turns} turns with a slot and without")
    baseline = {name: cost.timed.ns(lane) for name, lane in _BASELINES.items()}
    differences = {
        "saved_at_least": cost.least,
        "saved_at_most": cost.most,
        "parsing_more": cost.more_by_parsing,
        "counting_more": cost.more_by_counting,
        "call_without_slot_more": slots.more,
    }
    return BenchResult(
        value=cost.whole_ns,
        unit="ns",
        runs=runs,
        baseline=baseline,
        ratio={name: theirs / cost.whole_ns for name, theirs in baseline.items()},
        also={
            **{key: ns for name, each in differences.items() for key, ns in each.named(name).items()},
            "asking_share_native": modes.share("native"),
            "asking_share_generic": modes.share("generic"),
            "slots": float(slots.had_slot),
            "saved_in_2019_copy_ns": PUBLISHED[2].saved_ns,
        },
        notes=(
            "a packet made, sent and put into the socket's memory on one CPU; the quickest of 5 volleys a turn, the quieter "
            "half of the turns",
            "…_low, …_high: half of the turns are between them; where 0 is, too, it could not be told from noise",
            *cost.notes,
        ),
    )
