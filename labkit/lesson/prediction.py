"""Predict before measuring, compare afterwards: the question, the student's answer, what really happened."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from labkit.errors import LessonError
from labkit.lesson.page import Table, block, number
from labkit.lesson.progress import change, read

__all__ = ["Comparison", "Prediction", "compare", "predict"]

Answer = str | float | None


@dataclass(frozen=True)
class Prediction:
    """A question and, in ``.answer``, what the student said (None: nothing yet). Shown as a small form."""

    id: str
    question: str
    choices: tuple[str, ...] = ()
    unit: str = ""

    @property
    def answer(self) -> Answer:
        """The stored answer: one of the choices, a number in ``unit``, or None."""
        answer: Answer = read()["predictions"].get(self.id, {}).get("answer")
        return answer

    def store(self, answer: Answer) -> None:
        """Keep ``answer``. Raises LessonError where it is not one of the choices, or not a number."""
        kept = self._checked(answer)
        record = {
            "question": self.question,
            "answer": kept,
            "unit": self.unit,
            "choices": list(self.choices),
            "time": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        }

        def edit(stored: dict[str, Any]) -> None:
            stored["predictions"][self.id] = record

        change(edit)

    def _checked(self, answer: Answer) -> Answer:
        if answer is None:
            return None
        if self.choices:
            if answer in self.choices:
                return answer
            raise self._refused(answer, "give one of: " + "; ".join(self.choices))
        try:
            value = float(str(answer).replace(",", "").strip())
        except ValueError as error:
            raise self._refused(answer, f"give a number{' of ' + self.unit if self.unit else ''}") from error
        if not math.isfinite(value):
            raise self._refused(answer, "give a finite number")
        return value

    def _refused(self, answer: Answer, remedy: str) -> LessonError:
        return LessonError(
            f"{answer!r} is no answer to “{self.question}”", tried="to store a prediction", remedy=remedy
        )

    def _ipython_display_(self) -> None:
        from labkit.widgets.prediction import PredictionForm

        PredictionForm(self)._ipython_display_()

    def __str__(self) -> str:
        said = self.answer
        ways = " / ".join(self.choices) or f"a number of {self.unit}" if self.unit or self.choices else "a number"
        told = "no answer yet" if said is None else f"you said {_value(said, self.unit)}"
        return f"{self.question} ({ways}) – {told}"

    __repr__ = __str__


def predict(
    id: str,
    question: str,
    *,
    choices: Sequence[str] = (),
    unit: str = "",
    answer: Answer = None,
) -> Prediction:
    """Ask for a prediction before a measurement; show a form with the stored answer, if there is one.

    Give ``choices`` to choose from, or a ``unit`` for a number. ``answer`` stores one without the form.
    Raises LessonError for a question that can't be asked.
    """
    if not id or not question:
        raise LessonError("A prediction needs an id and a question.", tried="to ask for a prediction")
    if len(choices) == 1 or len(set(choices)) != len(choices):
        raise LessonError("Give at least two different choices, or none.", tried="to ask for a prediction", on=id)
    asked = Prediction(id, question, tuple(choices), unit)
    if answer is not None:
        asked.store(answer)
    elif id not in read()["predictions"]:
        asked.store(None)
    return asked


@dataclass(frozen=True)
class Comparison:
    """A prediction beside what was measured, in one sentence and a small table."""

    id: str
    predicted: Answer
    measured: str | float
    unit: str = ""
    note: str = ""

    @property
    def sentence(self) -> str:
        """The comparison in words."""
        happened = _value(self.measured, self.unit)
        if self.predicted is None:
            return f"Measured: {happened}. You had not made a prediction; the form above still takes one for next time."
        if isinstance(self.measured, str) or isinstance(self.predicted, str):
            if self.predicted == self.measured:
                return f"You predicted “{self.predicted}”, and so it is."
            return f"You predicted “{self.predicted}”; what happened is “{happened}”. Read on for the reason."
        return f"You predicted {_value(self.predicted, self.unit)} and measured {happened}: {self._how_far()}."

    def _how_far(self) -> str:
        assert isinstance(self.predicted, (int, float))
        assert isinstance(self.measured, (int, float))
        if self.predicted == self.measured:
            return "exactly right"
        if self.predicted <= 0 or self.measured <= 0:
            return f"{number(abs(self.measured - self.predicted))} apart"
        ratio = self.measured / self.predicted
        if 0.8 <= ratio <= 1.25:
            return "close, within a quarter"
        return f"{ratio:.2g} times as much" if ratio > 1 else f"{1 / ratio:.2g} times less"

    def _table(self) -> Table:
        unit = f" ({self.unit})" if self.unit else ""
        return Table((f"predicted{unit}", f"measured{unit}"), ((self.predicted, self.measured),))

    def __str__(self) -> str:
        return "\n".join(part for part in (self.sentence, str(self._table()), self.note) if part)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        note = f"<p>{escape(self.note)}</p>" if self.note else ""
        return block(f"<p>{escape(self.sentence)}</p>{self._table().html()}{note}")


def compare(id: str, measured: str | float, unit: str = "", *, note: str = "") -> Comparison:
    """The stored prediction ``id`` beside ``measured``, shown and stored. ``unit`` defaults to the prediction's."""
    stored = read()["predictions"].get(id, {})
    value = measured if isinstance(measured, str) else float(f"{float(measured):.6g}")
    made = Comparison(id, stored.get("answer"), value, unit or stored.get("unit", ""), note)

    def edit(record: dict[str, Any]) -> None:
        record["comparisons"][id] = {
            "predicted": made.predicted,
            "measured": made.measured,
            "unit": made.unit,
            "time": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        }

    change(edit)
    return made


def _value(value: str | float, unit: str) -> str:
    return value if isinstance(value, str) else f"{number(value)} {unit}".strip()
