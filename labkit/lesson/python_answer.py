"""A student's answer in Python: a function, the text of one, or a file with it; and what it does wrong by itself."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from labkit.errors import LabError, LessonError

__all__ = ["AnswerError", "called", "python_answer"]


class AnswerError(LessonError):
    """A student's function raised an error of its own."""


def python_answer(exercise: str, function: str, answer: Any) -> Callable[..., Any]:
    """The function that is on trial. Raises LessonError where there is none, AnswerError where its text isn't Python."""
    if callable(answer):
        return answer  # type: ignore[no-any-return]
    if isinstance(answer, str) and "\n" in answer:
        return _defined(exercise, function, answer)
    if not isinstance(answer, (str, os.PathLike)) or not str(answer).strip():
        raise _no_function(exercise, function, answer)
    try:
        return _defined(exercise, function, Path(answer).read_text(encoding="utf-8"))
    except OSError as error:
        raise _no_function(exercise, function, answer) from error


def _no_function(exercise: str, function: str, answer: object) -> LessonError:
    return LessonError(
        f"{answer!r} is no function.",
        tried="to check an exercise",
        on=exercise,
        remedy=f"give the function itself, {function}; or its text, or the path of a file with it",
    )


def _defined(exercise: str, function: str, text: str) -> Callable[..., Any]:
    names: dict[str, Any] = {"__name__": function}
    called(exercise, exec, text, names)
    if not callable(names.get(function)):
        raise LessonError(
            f"There is no function {function} in it.",
            tried="to check an exercise",
            on=exercise,
            remedy=f"keep the stub's first line: def {function}(…)",
        )
    return names[function]  # type: ignore[no-any-return]


def called(exercise: str, function: Callable[..., Any], *arguments: object) -> Any:
    """What ``function`` returns. Raises AnswerError where it raises anything but an interrupt, with the line of it."""
    try:
        return function(*arguments)
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        said = error.message if isinstance(error, LabError) else str(error)
        raise AnswerError(
            f"{type(error).__name__}: {said}",
            tried=f"to call your function, of which line {last.lineno} of {last.name} raised this",
            on=exercise,
            remedy=error.remedy if isinstance(error, LabError) and error.remedy else "mend it, and check again",
        ) from error
