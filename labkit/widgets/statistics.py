"""Statistics of the interfaces for a frame: only what changed, since the reset and in a second."""

from __future__ import annotations

from typing import Any

from labkit.observe.sample import Sample
from labkit.observe.statistics import counters_of

__all__ = ["moved"]


def moved(now: Sample, past: Sample | None, baseline: Sample) -> list[dict[str, Any]]:
    """A row for each counter that moved since ``baseline``; the rate is from ``past`` to ``now``, 0 without a past."""
    zero, before = counters_of(baseline), counters_of(past) if past is not None else {}
    seconds = now.time_s - past.time_s if past is not None else 0.0
    rows = []
    for (where, of, name), count in counters_of(now).items():
        by = count - zero.get((where, of, name), 0)
        if by:
            gain = count - before.get((where, of, name), count)
            rows.append(
                {"where": where, "of": of, "name": name, "by": by, "ps": round(gain / seconds) if seconds > 0 else 0}
            )
    return rows
