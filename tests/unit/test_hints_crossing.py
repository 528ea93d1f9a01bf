"""Where a line crosses, and how it is drawn: no kernel involved."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from labkit.lesson.hints_cost import NEVER, SIZES, Burst, Composer
from labkit.lesson.hints_cost_chart import Series, chart
from labkit.lesson.hints_cost_pairs import Pairs, crossing, rising
from labkit.lesson.hints_cost_table import thread_ratio


def pairs_of(gain: float, runs: int = 9) -> Pairs:
    """Pairs whose gains scatter by 4 ns around ``gain``."""
    scatter = [gain + (i - runs // 2) for i in range(runs)]
    return Pairs(tuple(1000 + each for each in scatter), (1000.0,) * runs)


def test_a_line_that_crosses() -> None:
    found = crossing((64, 128, 256), [pairs_of(-20), pairs_of(-10), pairs_of(30)])
    assert found.found
    assert found.certain
    assert found.at == pytest.approx(160)
    assert 128 < found.low <= found.at <= found.high < 256
    assert found.threshold_bytes == 160
    assert str(found).startswith("from about 160 bytes on (1")


def test_it_pays_always_or_never() -> None:
    always, never = (crossing((64, 128), [pairs_of(gain), pairs_of(gain)]) for gain in (50, -50))
    assert (always.threshold_bytes, never.threshold_bytes) == (0, NEVER)
    assert always.certain
    assert never.certain
    assert (str(always), str(never)) == ("at each size tried", "at none of the sizes tried")
    unsure = crossing((64, 128), [pairs_of(1), pairs_of(9)])
    assert unsure.threshold_bytes == 0
    assert not unsure.certain
    assert "below 64" in str(unsure)


def test_the_line_never_falls() -> None:
    assert rising([3, 1, 2]) == [2, 2, 2]
    assert rising([-5, 10, 4, 8]) == [-5, 7, 7, 8]
    values = [0.0, 5, 4, 3, 9, 2, 2, 11]
    line = rising(values)
    assert sum(line) == pytest.approx(sum(values))
    assert all(a <= b for a, b in pairwise(line))
    assert rising(line) == line


def test_a_chart_has_every_name_and_keeps_to_its_frame() -> None:
    lines = [
        Series("one", (1.0, None, 3.0), ((0.0, 2.0), None, (-900.0, 900.0))),
        Series("two", (2.0, 2.0, 3.0), quoted=True),
    ]
    svg = chart("title", "said", (64, 128, 256), lines, level=1, level_name="a level", unit="ns")
    for words in ("title", "said", "one", "two", "a level", "64", "256", "stroke-dasharray"):
        assert words in svg
    assert "900" not in svg


def test_the_threads_ratios() -> None:
    assert [f"{thread_ratio(size, False):.2f}" for size in SIZES] == ["1.10", "0.91", "0.98", "1.00", "1.00", "1.00"]
    assert f"{thread_ratio(64, True, between=True):.2f}" == "0.76"
    assert thread_ratio(100, False) is None


def test_a_burst_says_what_it_is() -> None:
    burst = Burst(101, 64, Composer.CARD, other_cpu=True)
    assert str(burst) == "64 bytes, came with the frame, another CPU"
    assert burst.with_metadata == 101
    assert replace(burst, composer=Composer.NOBODY).with_metadata == 0
