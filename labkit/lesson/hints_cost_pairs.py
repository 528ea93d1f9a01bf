"""Pairs of runs, without metadata and with it, and the frame size from which the second is the faster one."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from statistics import median, quantiles

from labkit.lesson.hints_cost import NEVER

__all__ = ["Crossing", "Pairs", "crossing"]

_RESAMPLES = 400
_SEED = 2022  # the same pairs always give the same interval
_LOW, _HIGH = 0.05, 0.95


@dataclass(frozen=True)
class Pairs:
    """The same packets without metadata and with it, one run right after the other, several times: ns a packet."""

    without_ns: tuple[float, ...]
    with_ns: tuple[float, ...]

    @classmethod
    def of(cls, pairs: Sequence[tuple[float, float]]) -> Pairs:
        """From pairs (without, with)."""
        return cls(tuple(a for a, _ in pairs), tuple(b for _, b in pairs))

    @cached_property
    def gains_ns(self) -> tuple[float, ...]:
        """What metadata saved in each pair, in ns a packet; below 0, what it cost more."""
        return tuple(a - b for a, b in zip(self.without_ns, self.with_ns, strict=True))

    @property
    def gain_ns(self) -> float:
        """The median of ``gains_ns``."""
        return median(self.gains_ns)

    @property
    def gain_spread_ns(self) -> tuple[float, float]:
        """Half of the pairs gained between these."""
        return _middle(self.gains_ns)

    @property
    def ratios(self) -> tuple[float, ...]:
        """The rate with metadata as a part of the rate without, pair by pair."""
        return tuple(a / b for a, b in zip(self.without_ns, self.with_ns, strict=True))

    @property
    def ratio(self) -> float:
        """The median of ``ratios``."""
        return median(self.ratios)

    @property
    def ratio_spread(self) -> tuple[float, float]:
        """Half of the pairs have ratios between these."""
        return _middle(self.ratios)

    def mpps(self, metadata: bool) -> float:
        """The median rate, in million packets a second."""
        return 1e3 / median(self.with_ns if metadata else self.without_ns)


def _middle(values: Sequence[float]) -> tuple[float, float]:
    """The quartiles; of few values the smallest and the largest."""
    if len(values) < 4:
        return min(values), max(values)
    low, _, high = quantiles(values, n=4)
    return low, high


@dataclass(frozen=True)
class Crossing:
    """The size in bytes from which metadata pays: 0 where it does at the smallest size tried already, infinite if at none.

    Had the pairs been others, it would be somewhere else: in 90 of 100 random selections of them it is between ``low``
    and ``high``.
    """

    smallest: int
    largest: int
    at: float
    low: float
    high: float

    @property
    def found(self) -> bool:
        """Whether it is between two of the sizes that were tried."""
        return 0 < self.at < math.inf

    @property
    def threshold_bytes(self) -> int:
        """What to write to the map ``meta_threshold``: the crossing in whole bytes, 0 for always, 65,536 for never."""
        return NEVER if math.isinf(self.at) else math.ceil(self.at)

    @property
    def certain(self) -> bool:
        """Whether nearly all of the selections, too, say that there is one, or that there is none."""
        return (self.low > 0 and self.high < math.inf) if self.found else self.low == self.high

    def __str__(self) -> str:
        if self.found:
            return f"from about {self.at:.0f} bytes on ({self._bound(self.low)} to {self._bound(self.high)})"
        where = "at each size tried" if self.at == 0 else "at none of the sizes tried"
        if self.low == self.high:
            return where
        return f"{where} (but it might be from {self._bound(self.low)} to {self._bound(self.high)})"

    def _bound(self, size: float) -> str:
        if size == 0:
            return f"below {self.smallest}"
        return f"above {self.largest}" if math.isinf(size) else f"{size:.0f}"


def crossing(sizes: Sequence[int], measured: Sequence[Pairs]) -> Crossing:
    """Where the gain goes from below 0 to above it, by the medians of the pairs; ``sizes`` rise."""
    rng = random.Random(_SEED)
    drawn = sorted(
        _crosses(sizes, [median(rng.choices(pairs.gains_ns, k=len(pairs.gains_ns))) for pairs in measured])
        for _ in range(_RESAMPLES)
    )
    low, high = drawn[int(_LOW * _RESAMPLES)], drawn[int(_HIGH * _RESAMPLES)]
    return Crossing(sizes[0], sizes[-1], _crosses(sizes, [pairs.gain_ns for pairs in measured]), low, high)


def _crosses(sizes: Sequence[int], gains: Sequence[float]) -> float:
    """The size at which the rising line through ``gains`` is 0; 0 or infinity where it is above or below everywhere."""
    line = rising(gains)
    if line[0] >= 0:
        return 0.0
    for (a, left), (b, right) in pairwise(zip(sizes, line, strict=True)):
        if left < 0 <= right:
            return a + (b - a) * -left / (right - left)
    return math.inf


def rising(values: Sequence[float]) -> list[float]:
    """The values that never fall and are nearest to ``values``: neighbours that do are replaced by their mean.

    A longer frame can't save less than a shorter one: what is left out is the adding up of its bytes. (Least squares
    under that condition, by pooling adjacent violators.)
    """
    groups: list[list[float]] = []  # (mean, how many)
    for value in values:
        groups.append([value, 1])
        while len(groups) > 1 and groups[-2][0] > groups[-1][0]:
            (a, n), (b, m) = groups[-2:]
            groups[-2:] = [[(a * n + b * m) / (n + m), n + m]]
    return [mean for mean, count in groups for _ in range(int(count))]
