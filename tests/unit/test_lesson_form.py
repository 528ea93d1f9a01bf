"""The prediction form stores what is entered, and shows what it could not store."""

from __future__ import annotations

from pathlib import Path

import pytest

from labkit import lesson
from labkit.widgets.prediction import PredictionForm


@pytest.fixture(autouse=True)
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDP_LAB_PROGRESS", str(tmp_path / "progress.json"))


def test_a_number_is_stored_at_once() -> None:
    asked = lesson.predict("rate", "How fast?", unit="Mpps")
    form = PredictionForm(asked)
    assert "Nothing stored" in form.status
    form.value = " 1,250.5 "
    assert asked.answer == 1250.5
    assert "Stored: 1250.5 Mpps" in form.status
    form.value = ""
    assert asked.answer is None
    assert "Nothing stored" in form.status


def test_a_stored_answer_is_shown_again() -> None:
    form = PredictionForm(lesson.predict("rate", "How fast?", unit="Mpps", answer=4))
    assert form.value == "4"
    assert "Stored: 4 Mpps" in form.status


def test_choices() -> None:
    asked = lesson.predict("way", "Which <way>?", choices=["up", "down"])
    form = PredictionForm(asked)
    assert (form.value, form.choices, form.question) == ("", ["up", "down"], "Which <way>?")
    form.value = "down"
    assert asked.answer == "down"
    assert "Stored: down" in form.status


def test_a_choice_of_an_older_page_is_told() -> None:
    asked = lesson.predict("way", "Which way?", choices=["up", "down"])
    form = PredictionForm(asked)
    form.value = "sideways"
    assert form.alert
    assert "give one of: up; down" in form.status
    assert asked.answer is None


def test_nonsense_is_told_in_the_form_and_keeps_the_old_answer() -> None:
    asked = lesson.predict("rate", "How fast?", unit="Mpps", answer=4)
    form = PredictionForm(asked)
    form.value = "quite"
    assert form.alert
    assert "number of Mpps" in form.status
    assert asked.answer == 4
    form.value = "5"
    assert (form.alert, asked.answer) == (False, 5)


def test_any_failure_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    form = PredictionForm(lesson.predict("rate", "How fast?"))

    def broken(self: lesson.Prediction, answer: object) -> None:
        raise RuntimeError("disk on <fire>")

    monkeypatch.setattr(lesson.Prediction, "store", broken)
    form.value = "3"
    assert form.alert
    assert "disk on <fire>" in form.status


def test_asking_again_closes_the_first_form() -> None:
    asked = lesson.predict("rate", "How fast?")
    first = PredictionForm(asked)
    second = PredictionForm(asked)
    assert first.comm is None
    assert first.layout.comm is None
    assert second.comm is not None
    second.close()
    second.close()
