"""Exercises: a statement, a stub that fails, hints, and a check that sends real packets."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any, Literal

from labkit.compile import compile_source
from labkit.errors import CompileError, LabError, LessonError
from labkit.lesson.page import Table, block
from labkit.lesson.progress import change
from labkit.lesson.python_answer import AnswerError, python_answer
from labkit.lesson.trial import Trial
from labkit.program.spec import ProgramSpec

__all__ = ["CheckResult", "Exercise", "Hint", "Row", "check", "exercise", "exercises", "hint", "register", "stub"]

Answer = str | os.PathLike[str] | ProgramSpec | Callable[..., Any] | None

_registry: dict[str, Exercise] = {}
_hints_given: dict[str, int] = {}
_STUBS = Path(__file__).resolve().parents[2] / "bpf" / "exercises"


@dataclass(frozen=True)
class Row:
    """One thing a check looked at. ``look`` says where to look if it isn't as expected."""

    what: str
    expected: str
    seen: str
    good: bool
    look: str = ""


@dataclass(frozen=True)
class Exercise:
    """``run`` shows packets to the program on trial and returns what it saw.

    ``function`` is the name of the function to write, in C or in Python (``language``); ``hints`` go from a nudge to
    nearly the answer; ``trial`` makes the trial of a compiled program, by default one between two hosts, or of a Python function.
    """

    id: str
    title: str
    statement: str
    function: str
    hints: tuple[str, ...]
    run: Callable[[Any], list[Row]]
    trial: Callable[[Any, str | None], AbstractContextManager[Any]] = Trial
    language: Literal["C", "Python"] = "C"

    @property
    def file_name(self) -> str:
        """The name of the stub and of the solution."""
        return f"{self.function}.{'c' if self.language == 'C' else 'py'}"

    @property
    def stub_file(self) -> Path:
        """The file to start from, in ``bpf/exercises``."""
        return _STUBS / self.file_name

    def _repr_html_(self) -> str:
        return block(
            f"<p><b>{escape(self.title)}</b> <span class='soft'>({self.id})</span></p><p>{escape(self.statement)}</p>"
        )

    def __str__(self) -> str:
        return f"{self.title} ({self.id})\n{self.statement}"

    __repr__ = __str__


@dataclass(frozen=True)
class CheckResult:
    """The outcome of a check: ``passed``, what was looked at (``rows``), or the ``error`` that stopped it."""

    exercise: str
    passed: bool
    rows: tuple[Row, ...] = ()
    error: LabError | None = None

    @property
    def sentence(self) -> str:
        """The outcome in a sentence."""
        if self.error is not None:
            stage = "does not compile yet" if isinstance(self.error, CompileError) else "could not be tried"
            stage = "stopped with an error" if isinstance(self.error, AnswerError) else stage
            stage = "is refused by the verifier" if type(self.error).__name__ == "VerifierError" else stage
            return f"Not yet: your program {stage}."
        wrong = sum(not row.good for row in self.rows)
        if self.passed:
            return f"Solved: all {len(self.rows)} checks are as they should be."
        return f"Not yet: {wrong} of {len(self.rows)} checks came out differently."

    @property
    def looks(self) -> tuple[str, ...]:
        """Where to look, each thing once."""
        return tuple(dict.fromkeys(row.look for row in self.rows if not row.good and row.look))

    def _table(self) -> Table:
        rows = tuple((r.what, r.expected, r.seen, "✓ as it should be" if r.good else "✗ different") for r in self.rows)
        marks = tuple((i, 3, "good" if row.good else "bad") for i, row in enumerate(self.rows))
        return Table(("looked at", "expected", "seen", "outcome"), rows, marks=marks)

    def __str__(self) -> str:
        parts = [f"{self.exercise}: {self.sentence}"]
        if self.error is not None:
            parts.append(str(self.error))
        if self.rows:
            parts.append(str(self._table()))
        parts += [f"Look at: {look}" for look in self.looks]
        if not self.passed:
            parts.append(f'For a hint: lk.hint("{self.exercise}")')
        return "\n".join(parts)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        kind = "good" if self.passed else "bad"
        parts = [f'<p role="status"><b class="{kind}">{escape(self.sentence)}</b></p>']
        if self.error is not None:
            parts.append(f'<pre class="words" tabindex="0">{escape(str(self.error))}</pre>')
        if self.rows:
            parts.append(self._table().html())
        if self.looks:
            parts.append(
                "<p>Where to look:</p><ul>" + "".join(f"<li>{escape(look)}</li>" for look in self.looks) + "</ul>"
            )
        if not self.passed:
            parts.append(f'<p class="soft">For a hint: <code>lk.hint("{escape(self.exercise)}")</code></p>')
        return block("".join(parts))


def register(made: Exercise) -> Exercise:
    """Add an exercise; the last one of an id counts."""
    _registry[made.id] = made
    return made


def exercises() -> tuple[Exercise, ...]:
    """All exercises."""
    return tuple(_registry.values())


def exercise(id: str) -> Exercise:
    """The exercise ``id``. Raises LessonError naming the choices."""
    try:
        return _registry[id]
    except KeyError:
        raise LessonError(
            f"There is no exercise {id!r}.",
            tried="to look an exercise up",
            remedy="exercises are " + ", ".join(_registry),
        ) from None


def stub(id: str) -> str:
    """The text to start from, as shipped, without the line of its licence; Python as a cell has it, without the last newline."""
    asked = exercise(id)
    text = asked.stub_file.read_text(encoding="utf-8").partition("\n")[2]
    return text if asked.language == "C" else text.strip("\n")


def check(id: str, answer: Answer = None, *, strict: bool = False) -> CheckResult:
    """Send real packets through the student's program and tell what was seen against what was expected.

    ``answer`` is the C text, a path to it, or a compiled ProgramSpec; where the exercise is in Python the function, its text,
    or a path to that. By default the file in ``bpf/exercises``.
    A program that doesn't compile, load or behave gives a result with ``passed`` False; with ``strict`` a LessonError.
    """
    asked = exercise(id)
    rows: list[Row] = []
    error: LabError | None = None
    try:
        with _on_trial(asked, answer) as trial:
            rows = asked.run(trial)
    except LabError as found:
        error = found
    result = CheckResult(id, error is None and all(row.good for row in rows), tuple(rows), error)
    _remember(result)
    if strict and not result.passed:
        raise LessonError(str(result), tried="to check an exercise", on=id) from error
    return result


def _on_trial(asked: Exercise, answer: Answer) -> AbstractContextManager[Any]:
    if asked.language == "Python":
        return asked.trial(python_answer(asked.id, asked.function, asked.stub_file if answer is None else answer), None)
    spec = _compiled(asked, answer)
    return asked.trial(spec, None if len(spec.functions) == 1 else asked.function)


def _compiled(asked: Exercise, answer: Answer) -> ProgramSpec:
    if isinstance(answer, ProgramSpec):
        return answer
    if answer is None:
        return compile_source(path=asked.stub_file)
    if isinstance(answer, str) and ("\n" in answer or "{" in answer):
        return compile_source(text=answer, name=asked.function)
    if not isinstance(answer, (str, os.PathLike)) or not str(answer).strip():
        raise LessonError(
            f"{answer!r} is no program.",
            tried="to check an exercise",
            on=asked.id,
            remedy="give the C text, the path of a C file, or what lk.compile returned",
        )
    return compile_source(path=answer)


def _remember(result: CheckResult) -> None:
    def edit(record: dict[str, Any]) -> None:
        old = record["checks"].get(result.exercise, {})
        record["checks"][result.exercise] = {
            "passed": bool(old.get("passed")) or result.passed,
            "last": result.passed,
            "attempts": int(old.get("attempts", 0)) + 1,
            "time": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        }

    change(edit)


@dataclass(frozen=True)
class Hint:
    """One rung of the ladder."""

    exercise: str
    number: int
    of: int
    text: str

    def __str__(self) -> str:
        rest = "" if self.number < self.of else " (the last one; notebooks/solutions has a solution)"
        return f"Hint {self.number} of {self.of}{rest}: {self.text}"

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return block(f"<p>{escape(str(self))}</p>")


def hint(id: str) -> Hint:
    """The next hint of an exercise: each call goes one rung further, and stays at the last."""
    asked = exercise(id)
    number = min(_hints_given.get(id, 0) + 1, len(asked.hints))
    _hints_given[id] = number
    return Hint(id, number, len(asked.hints), asked.hints[number - 1])
