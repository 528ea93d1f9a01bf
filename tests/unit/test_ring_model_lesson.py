"""Lesson 07's model: what the text says of it holds, and wrong answers to its exercises are named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import labkit as lk
from labkit import lesson
from labkit.errors import LessonError, ModelError
from labkit.lesson import ring_model
from labkit.lesson.python_answer import AnswerError
from labkit.lesson.ring_model.bounded import within
from labkit.models import Knobs, Scheme, run
from labkit.models.pages import Pages

SOLUTIONS = Path(__file__).resolve().parents[2] / "notebooks" / "solutions"
TUNING, HOME = "find-the-tuning", "write-a-return-scheme"


@pytest.fixture(autouse=True)
def progress(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDP_LAB_PROGRESS", str(tmp_path / "progress.json"))


def test_what_the_text_says_of_the_model() -> None:
    tuned = ring_model.tunings().answers
    assert tuned["ring-default"] == pytest.approx(7, abs=0.5)
    assert tuned["ring-long"] == "fewer"
    assert ring_model.five_schemes().answers["ring-best-scheme"] == Scheme.HALF_PAGES.value
    assert 20 < ring_model.memory_over_time().answers["ring-memory"] < 100
    assert ring_model.remedies().answers["ring-mark"] == ring_model.FATES[2]
    assert ring_model.against_the_thread().answers["ring-predicted"] < 5
    grown = [row for row in ring_model.five_schemes().table.rows if row[-1] == "yes"]
    assert [row[0] for row in grown] == [Scheme.NOBODY.value]


def test_what_the_model_rests_on() -> None:
    said = {row[0]: row[2] for row in ring_model.what_it_rests_on().rows}
    assert "received" in said["the predictions lean on one sum"]
    assert "sent" not in said["the predictions lean on one sum"]
    assert said["none of them tests recycling"].startswith("transmit ring of 1,024 alone")
    assert said["two times were published by nobody"].startswith("no figure moves")


def test_strict_half_pages_lose_none_and_recycle_less() -> None:
    knobs = Knobs()
    assert run(knobs, pages=ring_model.StrictHalfPages(knobs)).recycle_ratio < run(knobs).recycle_ratio == 1
    knobs = Knobs(tx_ring=2_048, memory_pages=1_024)
    assert run(knobs, pages=ring_model.StrictHalfPages(knobs)).most_pages <= 1_024


def test_pictures_have_tables_and_say_that_they_are_a_model() -> None:
    for found in (ring_model.model_rules(), ring_model.rings_over_time(), ring_model.memory_over_time().picture):
        assert found.table.rows
        assert found.svg.count("<title") == 1
    assert "nothing of this was measured" in str(ring_model.tunings().compare("ring-default"))
    assert ring_model.tunings({}).picture is None


def test_same_tuning_same_points() -> None:
    def tuning(work: Any) -> dict[str, float]:
        return {"rx_usecs": 25}

    assert ring_model.scores(tuning).total == ring_model.scores(tuning).total


def all_of(**settings: float) -> Any:
    return lambda work: settings


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"rx_usecs": 25},
        {"rx_ring": 64, "tx_ring": 64, "rx_usecs": 1},
        {"rx_ring": 32_768, "tx_ring": 32_768, "rx_usecs": 1_000},
        {"rx_ring": 4_096, "tx_ring": 4_096, "rx_usecs": 25},
        {"tx_ring": 1_024},
    ],
)
def test_no_tuning_is_best_for_everything(settings: dict[str, float]) -> None:
    result = lk.check(TUNING, all_of(**settings))
    assert not result.passed
    assert result.error is None
    assert "one tuning for all" in str(result.looks)


def test_the_solution_has_ninety_points() -> None:
    result = lk.check(TUNING, SOLUTIONS / "find_tuning.py", strict=True)
    assert float(result.rows[-1].seen) >= 90


def for_ever(*_: Any) -> None:
    while True:
        pass


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (lambda work: None, "no tuning"),
        (lambda work: [1, 2], "no tuning"),
        (all_of(speed=3), "has no 'speed'"),
        (all_of(rx_ring=-1), "rx_ring can't be -1"),
        (all_of(rx_ring="512"), "rx_ring can't be '512'"),
        (all_of(rx_usecs=float("nan")), "rx_usecs can't be nan"),
        (lambda work: 1 / 0, "ZeroDivisionError"),
        (lambda: {}, "TypeError"),
        (for_ever, "did not return"),
        (7, "no function"),
    ],
)
def test_no_tuning_at_all_is_told(answer: Any, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("labkit.lesson.ring_model.bounded.PATIENCE_S", 0.3 if answer is for_ever else 60.0)
    result = lk.check(TUNING, answer)
    assert isinstance(result.error, (LessonError, ModelError))
    assert said in result.error.message


HOMECOMING = (SOLUTIONS / "ReturnScheme.py").read_text()


def edited(*changes: tuple[str, str]) -> str:
    text = HOMECOMING
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return text


FREE_OF_CHARGE, HOME_AGAIN = "return self.stock", "self.stock += packets"


@pytest.mark.parametrize(
    ("changes", "row", "look"),
    [
        ([("self.away -= packets", "pass"), (HOME_AGAIN, "pass")], "most pages", "came_home"),
        ([(HOME_AGAIN, "self.freed += packets")], "used again", "used again"),
        ([(HOME_AGAIN, "pass")], "the books", "the books"),
        ([(HOME_AGAIN, "self.stock += 2 * packets")], "the books", "the books"),
        ([(FREE_OF_CHARGE, "return self.stock + self.away")], "under way", "what is free of charge"),
        (
            [
                (FREE_OF_CHARGE, "return wanted"),
                ("self.stock -= kept", "pass"),
                ("kept + fresh", "fresh"),
                ("self.away -= packets", "pass"),
                (HOME_AGAIN, "pass"),
            ],
            "under way",
            "what is free of charge",
        ),
        ([("self.stock -= kept", "pass")], "the books", "the books"),
    ],
)
def test_a_wrong_way_home_is_seen(changes: list[tuple[str, str]], row: str, look: str) -> None:
    result = lk.check(HOME, edited(*changes))
    assert result.error is None, str(result)
    assert any(row in each.what for each in result.rows if not each.good), str(result)
    assert any(each.startswith(look) for each in result.looks), str(result)


def test_what_a_class_says_of_itself_is_not_asked() -> None:
    cheat = edited((FREE_OF_CHARGE, "return wanted"), ("self.stock -= kept", "pass"))
    cheat += "\n    held = property(lambda self: 0)\n    balanced = property(lambda self: True)\n"
    assert not lk.check(HOME, cheat).passed
    lies = edited((HOME_AGAIN, "self.freed += packets; self.recycled += 10**9"))
    assert "used again" in str([row.what for row in lk.check(HOME, lies).rows if not row.good])


def test_a_pool_is_a_way_home_too() -> None:
    pool = edited((HOME_AGAIN, "self.stock += packets\n        over = max(0, self.stock - 2 * self.ring)\n"
                   "        self.stock -= over\n        self.freed += over"))  # fmt: skip
    assert lk.check(HOME, pool, strict=True).passed


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (7, "no function"),
        (lambda knobs: 7, "no class made from Pages"),
        (int, "no class made from Pages"),
        (Pages, "no class made from Pages"),
        (edited((FREE_OF_CHARGE, "return 'all'")), "TypeError"),
        (edited((FREE_OF_CHARGE, "return 0.5")), "whole|left|replace"),
        (edited((FREE_OF_CHARGE, "while True:\n            pass")), "did not return"),
        (edited(("def came_home(self, packets)", "def came_home(self)")), "TypeError"),
        (edited((HOME_AGAIN, "raise ValueError('lost')")), "ValueError: lost"),
        (edited((HOME_AGAIN, "self.stock = 'some'")), "TypeError"),
    ],
)
def test_no_way_home_at_all_is_told(answer: Any, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    endless = isinstance(answer, str) and "while True" in answer
    monkeypatch.setattr("labkit.lesson.ring_model.bounded.PATIENCE_S", 0.3 if endless else 60.0)
    result = lk.check(HOME, answer)
    assert not result.passed
    assert result.error is not None, str(result)
    assert any(each in result.error.message for each in said.split("|")), str(result)


def test_who_swallows_errors_is_stopped_nevertheless() -> None:
    def stubborn() -> None:
        for _ in range(2):
            try:
                for_ever()
            except BaseException:
                continue

    within(stubborn, seconds=0.2)  # it comes to an end, if by its own
    with pytest.raises(AnswerError, match=r"did not return within 0\.2"):
        within(for_ever, seconds=0.2)
    assert within(lambda: 7) == 7


@pytest.mark.parametrize("id", [TUNING, HOME, "who-counts-it"])
def test_hints_go_from_a_nudge_to_nearly_the_answer(id: str) -> None:
    assert len(set(lesson.exercise(id).hints)) >= 3
