"""The exercise "a way home": a class that gives buffers back between two drivers, tried in the model."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, cast

from labkit.errors import LessonError, ModelError
from labkit.lesson.practice import Exercise, Row, register
from labkit.lesson.python_answer import AnswerError
from labkit.lesson.ring_model.bounded import within
from labkit.models import Knobs, Outcome, Scheme, run
from labkit.models.pages import Pages

__all__ = ["A_WAY_HOME", "CASES"]

CASES = {
    "the thread's load, tuned": Knobs(rx_usecs=25, scheme=Scheme.NOBODY, memory_pages=32_768),
    "a slow line": Knobs(rx_usecs=25, tx_ring=1_024, line_pps=3e6, scheme=Scheme.NOBODY, memory_pages=32_768),
    "long between two clean-ups": Knobs(rx_usecs=200, tx_ring=2_048, offered_pps=6e6, scheme=Scheme.NOBODY),
}
"""Two drivers that know nothing of each other's buffers; what is asked of the class is to tell them."""

_MICROSECONDS = 8_000.0
_LEAST_RECYCLED = 0.9
_BUDGET = 64  # packets that leave before the next count

_GROWS = "came_home: what was sent is to come home there, so that it can be used again or freed; else memory grows without end"
_AWAY = (
    "what is free of charge: only buffers that are at rest may be handed out, those in stock. One that is still under way "
    "would be written over while the other card reads it"
)
_FREED = (
    "used again: each packet took a new page. That is bounded, and slow; keep in stock what came home, and hand it out before "
    "a new page is asked for"
)
_BOOKS = (
    "the books: allocated - freed == ring + stock + away, at every moment. What leaves the stock goes away, what comes home "
    "leaves away, and is in stock, or freed"
)


@dataclass
class _Looked:
    """What is counted beside the student's class: buffers that left, on new pages among them, while still under way."""

    left: int = 0
    fresh: int = 0
    still_away: int = 0
    pages: Pages | None = None

    @property
    def used_again(self) -> float:
        """The share of buffers that left on no new page."""
        return 1 - self.fresh / max(1, self.left)

    @property
    def books(self) -> str:
        """The pages' own numbers, as far as they are some."""
        if self.pages is None:
            return "no numbers"
        names = ("allocated", "freed", "ring", "stock", "away")
        return ", ".join(f"{name} {getattr(self.pages, name, None)!r:.20}" for name in names)


def _watched(answer: type[Pages], looked: _Looked, knobs: Knobs) -> Pages:
    """The student's class with the counting of the model's own: what the class says of itself is not asked."""

    class Watched(answer):  # type: ignore[misc,valid-type]
        held = Pages.held
        balanced = Pages.balanced

        def replace(self, wanted: int, under_way: int) -> tuple[int, int]:
            before = self.allocated
            left, fresh = _two_numbers(super().replace(wanted, under_way))
            if not (0 <= fresh <= left <= wanted and self.allocated - before == fresh):
                raise _no_replace(f"Of {wanted} buffers {left} left, {fresh} of them on new pages.")
            looked.left += left
            looked.fresh += fresh
            # One packet a buffer, one buffer a page: the ring's entries and all that is under way lie on pages held.
            looked.still_away = max(looked.still_away, knobs.rx_ring + under_way + left - self.held)
            return left, fresh

    looked.pages = Watched(knobs)
    return looked.pages


def _two_numbers(given: Any) -> tuple[int, int]:
    if not (isinstance(given, tuple) and len(given) == 2 and all(type(each) is int for each in given)):
        raise _no_replace(f"replace() returned {given!r:.80}.")
    return cast("tuple[int, int]", given)


def _no_replace(message: str) -> ModelError:
    remedy = (
        "keep replace() of Pages: your class says in whole numbers what is free of charge, and is told what has left"
    )
    return ModelError(message, tried="to replace buffers", remedy=remedy)


def _on_trial(answer: Callable[..., Any], _: str | None = None) -> AbstractContextManager[type[Pages]]:
    if not (isinstance(answer, type) and issubclass(answer, Pages)) or answer is Pages:
        raise LessonError(
            f"{answer!r} is no class made from Pages.",
            tried="to check an exercise",
            remedy="keep the stub's first line: class ReturnScheme(Pages)",
        )
    return nullcontext(answer)


def _run(answer: type[Pages]) -> list[Row]:
    rows: list[Row] = []
    for name, knobs in CASES.items():
        rows += _case(answer, name, knobs)
        if not all(row.good for row in rows):
            break  # a fault is told once
    return rows


def _case(answer: type[Pages], name: str, knobs: Knobs) -> list[Row]:
    looked = _Looked()

    def tried() -> Outcome:
        return run(knobs, microseconds=_MICROSECONDS, pages=_watched(answer, looked, knobs))

    try:
        return _rows(name, knobs, within(tried), looked)
    except AnswerError as error:
        if not (isinstance(error.__cause__, ModelError) and "lost a packet or a page" in error.message):
            error.detail = f"In the case “{name}”."
            raise
    if looked.still_away > 0:
        return [_away_row(name, looked)]
    return [Row(f"{name}: the books", "allocated - freed = ring + stock + away", looked.books, False, _BOOKS)]


def _away_row(name: str, looked: _Looked) -> Row:
    seen = max(0, looked.still_away)
    return Row(f"{name}: handed out while under way", "0", f"{seen:,}", seen == 0, _AWAY)


def _rows(name: str, knobs: Knobs, outcome: Outcome, looked: _Looked) -> list[Row]:
    bound = knobs.rx_ring + 2 * knobs.tx_ring + _BUDGET
    grown = max(outcome.most_pages, outcome.pages_held)
    again = looked.used_again
    least = f"{100 * _LEAST_RECYCLED:.0f} % or more"
    return [
        _away_row(name, looked),
        Row(f"{name}: most pages", f"{bound:,} or less", f"{grown:,}", grown <= bound, _GROWS),
        Row(
            f"{name}: used again",
            least,
            f"{100 * again:.1f} %",
            again >= _LEAST_RECYCLED,
            _GROWS if grown > bound else _FREED,
        ),
    ]


A_WAY_HOME = register(
    Exercise(
        "write-a-return-scheme",
        "Write a way home",
        "Two drivers that know nothing of each other's buffers: what the second card has sent never comes home, and memory "
        "grows. ReturnScheme is a kind of labkit.models' Pages, one buffer a page. The model calls came_home(packets) when so "
        "many were sent; before packets leave it asks _free_of_charge(wanted, under_way) how many buffers need no new page, "
        "and then tells _left(kept, fresh) how many of these and how many on new pages went. You keep three numbers: stock "
        "(buffers at rest), away (buffers that left), freed (pages given back, ever). Memory must not grow beyond the rings' "
        "need, nine of ten buffers must be used again, and none may be handed out while it is under way.",
        "ReturnScheme",
        (
            "Run the check as it is, and see which row differs. Which of the three methods is told that packets were sent?",
            "came_home: they are away no longer: self.away -= packets. Where are they then? self.stock += packets.",
            "_free_of_charge: what is in stock is free. _left: the kept ones leave the stock: self.stock -= kept, and all of "
            "them are away: self.away += kept + fresh.",
        ),
        _run,
        _on_trial,
        "Python",
    )
)
