"""The progress file: written whole, never lost, and usable where it can't be written."""

from __future__ import annotations

import json
import multiprocessing
from pathlib import Path

import pytest

import labkit as lk
from labkit import lesson
from labkit.errors import LessonError


@pytest.fixture(autouse=True)
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "state" / "progress.json"
    monkeypatch.setenv("XDP_LAB_PROGRESS", str(path))
    return path


def test_a_prediction_is_kept(file: Path) -> None:
    asked = lesson.predict("rate", "How fast?", unit="Mpps")
    assert asked.answer is None
    asked.store("12.5")
    assert lesson.predict("rate", "How fast?", unit="Mpps").answer == 12.5
    assert json.loads(file.read_text())["predictions"]["rate"]["answer"] == 12.5


def test_asking_again_does_not_forget(file: Path) -> None:
    lesson.predict("rate", "How fast?", unit="Mpps", answer=3)
    lesson.predict("rate", "How fast?", unit="Mpps")
    assert lesson.progress().predictions["rate"]["answer"] == 3


@pytest.mark.parametrize("answer", ["fast", "nan", "inf", "", "1 2"])
def test_what_is_no_number_is_refused(answer: str) -> None:
    with pytest.raises(LessonError, match="is no answer"):
        lesson.predict("rate", "How fast?", unit="Mpps").store(answer)


def test_what_is_no_choice_is_refused() -> None:
    with pytest.raises(LessonError, match="give one of: up; down"):
        lesson.predict("way", "Which way?", choices=["up", "down"], answer="left")


@pytest.mark.parametrize(("choices", "id"), [(["one"], "x"), (["a", "a"], "x"), (["a", "b"], "")])
def test_a_question_that_is_none(choices: list[str], id: str) -> None:
    with pytest.raises(LessonError):
        lesson.predict(id, "Which?", choices=choices)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ('{"predictions": {"a"', "not JSON"),
        ("[]", "another form"),
        ('{"checks": {"a": 3}}', "another form"),
        ("\xff", "UTF-8"),
    ],
)
def test_a_corrupt_file_is_put_aside_and_told(file: Path, content: str, why: str) -> None:
    file.parent.mkdir()
    file.write_bytes(content.encode("latin-1"))
    with pytest.warns(lesson.ProgressWarning, match=why):
        lesson.predict("rate", "How fast?", answer=1)
    (kept,) = file.parent.glob("progress.json.unreadable-*")
    assert kept.read_bytes() == content.encode("latin-1")
    assert lesson.progress().predictions["rate"]["answer"] == 1


def test_two_corrupt_files_are_both_kept(file: Path) -> None:
    file.parent.mkdir()
    for content in ("{", "}"):
        file.write_text(content)
        with pytest.warns(lesson.ProgressWarning):
            lesson.progress()
    assert len(list(file.parent.glob("progress.json.unreadable-*"))) == 2


def test_where_nothing_can_be_written_the_session_remembers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "afile").write_text("")
    monkeypatch.setenv("XDP_LAB_PROGRESS", str(tmp_path / "afile" / "progress.json"))
    with pytest.warns(lesson.ProgressWarning, match="until this kernel ends"):
        asked = lesson.predict("rate", "How fast?", answer=7)
    assert asked.answer == 7


def _add(number: int) -> None:
    lesson.predict(f"p{number}", "How fast?", answer=number)


def test_several_notebooks_at_once_lose_nothing(file: Path) -> None:
    with multiprocessing.get_context("spawn").Pool(3) as pool:
        pool.map(_add, range(12))
    assert len(lesson.progress().predictions) == 12
    assert not list(file.parent.glob("*.tmp"))


def test_export(file: Path, tmp_path: Path) -> None:
    lesson.predict("rate", "How fast?", unit="Mpps", answer=7)
    lk.compare("rate", 8)
    written = json.loads(lesson.progress().export(tmp_path / "out.json").read_text())
    assert written["comparisons"]["rate"]["measured"] == 8
    assert "7 Mpps" in str(lesson.progress())


def test_forget() -> None:
    lesson.predict("drop-a", "?", answer=1)
    lesson.predict("tour-a", "?", answer=1)
    assert lesson.forget("drop-") == 1
    assert list(lesson.progress().predictions) == ["tour-a"]


@pytest.mark.parametrize(
    ("predicted", "measured", "sentence"),
    [
        (10, 10, "exactly right"),
        (10, 11, "close, within a quarter"),
        (10, 40, "4 times as much"),
        (40, 10, "4 times less"),
        (10, 0, "10 apart"),
        (None, 3, "You had not made a prediction"),
    ],
)
def test_comparison_in_words(predicted: float | None, measured: float, sentence: str) -> None:
    lesson.predict("n", "How many?", unit="packets", answer=predicted)
    made = lk.compare("n", measured)
    assert sentence in made.sentence
    assert "measured (packets)" in str(made)
    assert lesson.progress().comparisons["n"]["measured"] == measured


def test_comparison_of_a_choice() -> None:
    lesson.predict("way", "Which way?", choices=["up", "down"], answer="up")
    assert lk.compare("way", "up").sentence == "You predicted “up”, and so it is."
    assert "what happened is “down”" in lk.compare("way", "down").sentence


def test_comparison_of_an_unknown_prediction() -> None:
    assert "no prediction" not in lk.compare("never-asked", 3.25).sentence
    assert "3.25" in str(lk.compare("never-asked", 3.25))
