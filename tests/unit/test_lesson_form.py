"""The prediction form stores what is entered, and shows what it could not store."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from labkit import lesson
from labkit.widgets.prediction import prediction_form


@pytest.fixture(autouse=True)
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDP_LAB_PROGRESS", str(tmp_path / "progress.json"))


def parts(asked: lesson.Prediction) -> tuple[Any, Any]:
    _, field, status = prediction_form(asked).children
    return field, status


def test_a_number_is_stored_at_once() -> None:
    asked = lesson.predict("rate", "How fast?", unit="Mpps")
    field, status = parts(asked)
    assert "Nothing stored" in status.value
    field.value = " 1,250.5 "
    assert asked.answer == 1250.5
    assert "Stored: 1250.5 Mpps" in status.value


def test_a_stored_answer_is_shown_again() -> None:
    asked = lesson.predict("rate", "How fast?", unit="Mpps", answer=4)
    field, status = parts(asked)
    assert field.value == "4"
    assert "Stored: 4 Mpps" in status.value


def test_choices() -> None:
    asked = lesson.predict("way", "Which <way>?", choices=["up", "down"])
    field, status = parts(asked)
    assert field.value is None
    field.value = "down"
    assert asked.answer == "down"
    assert "Stored: down" in status.value
    assert "&lt;way&gt;" in prediction_form(asked).children[0].value


def test_nonsense_is_told_in_the_form_and_keeps_the_old_answer() -> None:
    asked = lesson.predict("rate", "How fast?", unit="Mpps", answer=4)
    field, status = parts(asked)
    field.value = "quite"
    assert 'role="alert"' in status.value
    assert "number of Mpps" in status.value
    assert asked.answer == 4


def test_any_failure_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = lesson.predict("rate", "How fast?")
    field, status = parts(asked)

    def broken(self: lesson.Prediction, answer: object) -> None:
        raise RuntimeError("disk on <fire>")

    monkeypatch.setattr(lesson.Prediction, "store", broken)
    field.value = "3"
    assert "disk on &lt;fire&gt;" in status.value
