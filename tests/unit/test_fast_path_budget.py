"""Lesson 10 without a kernel: the thread's arithmetic, differences of turns, the budget's picture."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from labkit.analysis import examine
from labkit.analysis.from_spec import code_of_spec
from labkit.compile import compile_source
from labkit.errors import LessonError
from labkit.lesson.fast_path_budget import Bracket, Part, budget_picture
from labkit.lesson.fast_path_cost import (
    CALL,
    DROP,
    INDEX,
    INDEX_SENT,
    MISS,
    NOBODY,
    SENT,
    TAKEN,
    RedirectCost,
    saved_in_2020_ns,
)
from labkit.lesson.fast_path_rig import Difference, Timed
from labkit.lesson.fast_path_steps import two_steps
from labkit.lesson.fast_path_trial import analysis_rows

LANES = {DROP: 80.0, MISS: 82.0, CALL: 84.0, INDEX: 85.0, NOBODY: 99.0, TAKEN: 110.0, SENT: 140.0, INDEX_SENT: 141.0}


def timed(**changes: tuple[float, ...]) -> Timed:
    return Timed(4_001, {name: changes.get(name, (ns, ns + 6, ns + 1, ns, ns + 2)) for name, ns in LANES.items()}, {})


def test_what_the_thread_saved() -> None:
    """1,000 / 21.5 − 1,000 / 23.2, in nanoseconds."""
    assert saved_in_2020_ns() == pytest.approx(46.5116 - 43.1034, abs=1e-3)


def test_differences_are_of_the_same_turn() -> None:
    """Noise that hits both lanes of a turn alike is in no difference."""
    found = Timed(1, {"a": (10.0, 90.0, 12.0, 14.0, 50.0), "b": (13.0, 93.0, 15.0, 17.0, 53.0)}, {}).more("b", "a")
    assert found == Difference(3.0, 3.0, 3.0)
    few = Timed(1, {"a": (1.0, 1.0, 1.0), "b": (2.0, 4.0, 9.0)}, {}).more("b", "a")
    assert (few.ns, few.low_ns, few.high_ns) == (2.0, 1.0, 3.0)


def test_rounds_in_which_somebody_else_had_the_cpu_count_in_no_lane() -> None:
    found = Timed(1, {"a": (10.0, 90.0, 11.0, 95.0, 12.0), "b": (20.0, 100.0, 21.0, 106.0, 22.0)}, {})
    assert found.turns == 5
    assert (found.ns("a"), found.ns("b")) == (11.0, 21.0), "of turns 1, 3 and 5"
    assert found.more("b", "a") == Difference(10.0, 10.0, 10.0)


def test_an_unknown_lane_is_refused_and_the_known_ones_are_named() -> None:
    with pytest.raises(LessonError, match="no lane 'fast'") as caught:
        timed().ns("fast")
    assert TAKEN in (caught.value.remedy or "")


def test_the_parts_add_up_to_a_redirected_packet() -> None:
    cost = RedirectCost(timed(), "clock")
    assert [round(part.cost.ns) for part in cost.parts] == [80, 4, 15, 11, 30]
    assert sum(part.cost.ns for part in cost.parts) == pytest.approx(cost.redirect_ns)
    assert cost.most_saved.ns == 19
    assert "+0.0 ns are left of 140.0" in cost.notes[0]
    assert "46.5 − 43.1 = 3.4 ns" in cost.notes[2]


def test_a_step_within_the_noise_is_called_so() -> None:
    clear = timed()
    assert not any("noise" in note for note in RedirectCost(clear, "clock").notes)
    noisy = Timed(clear.packets, {**clear.turns_ns, CALL: (70.0, 99.0, 90.0, 80.0, 84.0)}, {})
    assert "noise this time: step one" in RedirectCost(noisy, "clock").notes[-1]


def test_every_part_says_what_it_contains() -> None:
    picture = RedirectCost(timed(), "clock").budget()
    assert all(len(str(row[-1])) > 20 for row in picture.table.rows)
    assert [row[3] for row in picture.table.rows] == ["57 %", "3 %", "11 %", "8 %", "21 %"]
    assert "3.4 ns, another machine" in picture.svg


@pytest.mark.parametrize("noise", [(-5.0, -30.0, 400.0), (0.0, 0.0, 0.0), (3.0, -9.0, 4_000.0)])
def test_the_picture_holds_noise_within_its_bounds(noise: tuple[float, float, float]) -> None:
    """A step may come out below 0, and its spread beyond the page: neither is drawn outside."""
    parts = [Part("first", Difference(80, 80, 80), "x" * 30), Part("second", Difference(*noise), "y" * 30)]
    picture = budget_picture("noise", parts, [Bracket("at most", noise[0], "noise")])
    width = float(re.search(r'viewBox="0 0 (\d+)', picture.svg)[1])  # type: ignore[index]
    assert all(float(w) > 0 for w in re.findall(r'<rect [^>]*width="([\d.-]+)"', picture.svg))
    assert all(0 <= float(x) <= width for x in re.findall(r'<path d="M([\d.-]+) ', picture.svg))
    assert f"{noise[0]:.1f} ns" in picture.svg


def test_the_two_steps_are_told_in_words_too() -> None:
    picture = two_steps()
    for name in ("bpf_redirect_map()", "bpf_redirect_info", "XDP_REDIRECT", "xdp_do_redirect()"):
        assert name in picture.svg
        assert name in picture.description
        assert name in str(picture.table)


TWICE = r"""
#include "common/verdict.h"
LAB_DEVMAP(ports, 8);

int twice(struct xdp_md *ctx)
{
	if (ctx->rx_queue_index)
		return bpf_redirect(3, 0);
	if (ctx->ingress_ifindex == 7)
		return ports.redirect_map(1, 0);
	return verdict(ctx, ports.redirect_map(0, 0));
}
"""


def test_each_call_gets_a_row_and_a_place_to_look() -> None:
    report = examine(code_of_spec(compile_source(text=TWICE), "twice"))
    rows = analysis_rows(report)
    assert [(row.what, row.good) for row in rows] == [
        ("redirect_map in line 10", True),
        ("redirect_map in line 11", False),
        ("calls of bpf_redirect", False),
    ]
    assert "the call is the last thing" in rows[1].look
    assert "don't mix" in rows[2].look


def test_lessons_load_without_what_only_these_pictures_need() -> None:
    look = "import sys, labkit.lesson as l; print('networkx' in sys.modules, l.flow_picture.__name__, 'networkx' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "flow_picture", "True"]
