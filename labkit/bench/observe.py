"""What observing costs: a redirect that nobody watches, and with observers at the kernel's tracepoints."""

from __future__ import annotations

from labkit.bench.measure import Progress
from labkit.bench.result import BenchResult
from labkit.lesson.redirect_costs import BULK, LINE, PACKET, UNWATCHED, observing_costs

__all__ = ["run"]

_NAMES = {BULK: "program_per_bulk", PACKET: "program_per_packet", LINE: "line_per_packet"}


def run(runs: int, progress: Progress, *, packets: int = 500_009) -> BenchResult:
    """Mpps through a router, in turn with each observer; where tracing programs don't run, without observers."""
    race = observing_costs(packets=packets, runs=runs)
    progress(f"  {runs} run{'s' if runs > 1 else ''} of each")
    value = race[UNWATCHED].mpps
    baseline = {_NAMES[lane.name]: lane.mpps for lane in race.lanes if lane.name in _NAMES}
    return BenchResult(
        value=value,
        unit="Mpps",
        runs=runs,
        baseline=baseline,
        ratio={name: value / theirs for name, theirs in baseline.items()},
        notes=(f"{packets:,} packets a run, each one accounted for", *race.notes),
    )
