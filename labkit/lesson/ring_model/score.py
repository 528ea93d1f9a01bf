"""A tuning's score: points for what is not lost, for short waits, for little memory, for few interrupts."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any

from labkit.errors import LessonError
from labkit.lesson.page import Table, block
from labkit.models import Knobs, Scheme, run

__all__ = ["PARTS", "WORKLOADS", "Score", "Scores", "Workload", "score_of", "scores"]

PARTS = {"losses": 40, "waits": 25, "memory": 15, "interrupts": 20}
"""What a score is made of, and the most points for it."""

SETTINGS = ("rx_ring", "tx_ring", "rx_usecs")
"""What a tuning sets."""

_TRIED = "to score a tuning"
_LOST = (0.0, 0.10)  # share of the packets that could have been sent: full points, and none
_WAIT_US, _MIB, _PER_SECOND = (30.0, 600.0), (2.0, 64.0), (12e3, 400e3)  # full points at or below, none at or above
_PAGES_OF_MIB = 256
_ENDS = 12  # of a run: what waits at so many moments
_FIRST_US, _STEP_US = 2_000.0, 29.3


@dataclass(frozen=True)
class Workload:
    """What comes, what the second card's line takes, and how its driver gives buffers back."""

    name: str
    offered_pps: float
    line_pps: float
    scheme: Scheme

    def knobs(self, **settings: Any) -> Knobs:
        """These, and the settings. Raises ModelError."""
        return Knobs(offered_pps=self.offered_pps, line_pps=self.line_pps, scheme=self.scheme, **settings)


WORKLOADS = (
    Workload("all that a line carries", 14.88e6, 14.88e6, Scheme.HALF_PAGES),
    Workload("a slow line", 6e6, 3e6, Scheme.RETURN),
    Workload("little to do", 4e5, 14.88e6, Scheme.HALF_PAGES),
    Workload("two thirds of a line", 9e6, 14.88e6, Scheme.HALF_PAGES),
)


@dataclass(frozen=True)
class Score:
    """Of one workload: points of each of PARTS, and what was measured for it in the model."""

    workload: Workload
    settings: Mapping[str, float]
    points: Mapping[str, float]
    lost: float
    wait_us: float
    memory_mib: float
    interrupts: float

    @property
    def total(self) -> float:
        """0 to 100."""
        return sum(self.points.values())

    @property
    def words(self) -> str:
        """``87: 8 lost by waits (39 µs), 5 by interrupts (40,000 a second)``."""
        values = (
            f"{100 * self.lost:.1f} % of what could go",
            f"{self.wait_us:.0f} µs",
            f"{self.memory_mib:.1f} MiB",
            f"{self.interrupts:,.0f} a second",
        )
        gone = [
            f"{PARTS[part] - self.points[part]:.0f} by {part} ({value})"
            for part, value in zip(PARTS, values, strict=True)
            if PARTS[part] - self.points[part] >= 0.5
        ]
        return f"{self.total:.0f}" + (f": {', '.join(gone)}" if gone else "")

    @property
    def worst(self) -> str:
        """The part that lost most points."""
        return max(PARTS, key=lambda part: PARTS[part] - self.points[part])


@dataclass(frozen=True)
class Scores:
    """Of all workloads."""

    of: tuple[Score, ...]

    @property
    def total(self) -> float:
        """The mean, 0 to 100."""
        return sum(each.total for each in self.of) / max(1, len(self.of))

    @property
    def table(self) -> Table:
        """A row a workload: settings, points for each part, and what they were given for."""
        most = tuple(f"{part} (of {points})" for part, points in PARTS.items())
        rows = tuple(
            (
                each.workload.name,
                *(f"{each.settings[name]:g}" for name in SETTINGS),
                *(f"{each.points[part]:.1f}" for part in PARTS),
                f"{each.total:.1f}",
                f"{100 * each.lost:.1f} %, {each.wait_us:.0f} µs, {each.memory_mib:.1f} MiB, {each.interrupts:,.0f}/s",
            )
            for each in self.of
        )
        return Table(("workload", *SETTINGS, *most, "points", "lost, wait, memory, interrupts"), rows, self._caption)

    @property
    def _caption(self) -> str:
        return f"{self.total:.1f} of 100, the mean of {len(self.of)} workloads"

    def __str__(self) -> str:
        return str(self.table)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return block(self.table.html())


def score_of(work: Workload, settings: object) -> Score:
    """The score of a workload with ``settings``: a dict with SETTINGS, or Knobs. Raises LessonError, ModelError."""
    chosen = _settings(settings)
    knobs = work.knobs(**chosen)
    lost, wait_us, pages = _measured(knobs)
    mib, interrupts = pages / _PAGES_OF_MIB, 1e6 / knobs.interval_us
    shares = (
        1 - (lost - _LOST[0]) / (_LOST[1] - _LOST[0]),
        _log_share(wait_us, *_WAIT_US),
        _log_share(mib, *_MIB),
        _log_share(interrupts, *_PER_SECOND),
    )
    points = {part: most * min(1.0, max(0.0, share)) for (part, most), share in zip(PARTS.items(), shares, strict=True)}
    return Score(work, chosen, points, lost, wait_us, mib, interrupts)


def scores(tuning: Callable[[Workload], object]) -> Scores:
    """What ``tuning(work)`` gives for each workload, scored. Raises LessonError, ModelError, and what ``tuning`` raises."""
    if not callable(tuning):
        raise LessonError(f"{tuning!r} is no function.", tried=_TRIED, remedy="give the function itself: tuning")
    return Scores(tuple(score_of(work, tuning(work)) for work in WORKLOADS))


def _settings(given: object) -> dict[str, float]:
    """The three settings. What a dict leaves out stays as the driver has it."""
    if isinstance(given, Knobs):
        return {name: getattr(given, name) for name in SETTINGS}
    if not isinstance(given, Mapping):
        raise LessonError(
            f"{given!r} is no tuning.", tried=_TRIED, remedy=f"return a dict with {', '.join(SETTINGS)}; or Knobs"
        )
    if unknown := [name for name in given if name not in SETTINGS]:
        raise LessonError(
            f"A tuning has no {unknown[0]!r}.",
            tried=_TRIED,
            remedy=f"set {', '.join(SETTINGS)}; the load and the rest are given",
        )
    default = {each.name: each.default for each in fields(Knobs) if each.name in SETTINGS}
    return {**default, **given}


def _measured(knobs: Knobs) -> tuple[float, float, int]:
    """Share lost of what could have been sent, µs that a packet waits in the rings on average, the most pages.

    Waits by Little's law: what waits at some moments, apart by no part of an interval, over what is sent in a time.
    """
    runs = [run(knobs, microseconds=_FIRST_US + _STEP_US * i) for i in range(_ENDS)]
    sent_pps = sum(each.out_pps for each in runs) / len(runs)
    waiting = sum(each.waiting + each.in_flight for each in runs) / len(runs)
    possible = min(knobs.offered_pps, knobs.line_pps, 1e9 / (knobs.costs.receive_ns + knobs.costs.send_ns))
    lost = max(0.0, 1 - sent_pps / possible)
    return lost, 1e6 * waiting / max(1.0, sent_pps), max(each.most_pages for each in runs)


def _log_share(value: float, good: float, bad: float) -> float:
    return 1.0 if value <= good else 1 - math.log(value / good) / math.log(bad / good)
