"""What an experiment with pages counted: a table, a picture where there is one, and the answers to predictions."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from html import escape

from labkit.buffers import BufferWatch, watch
from labkit.errors import FeatureError, LessonError
from labkit.lab import Lab
from labkit.lesson.page import Table, block
from labkit.lesson.pictures import Picture
from labkit.lesson.prediction import Comparison, compare
from labkit.lesson.tracing import Unseen

__all__ = ["Answer", "Counted", "Look", "looking"]

Answer = str | float | None


@dataclass(frozen=True, repr=False)
class Counted:
    """``answers`` are what predictions are compared with, by the prediction's id; None: it could not be seen here."""

    table: Table
    answers: Mapping[str, Answer] = field(default_factory=dict)
    picture: Picture | None = None
    notes: tuple[str, ...] = ()

    def compare(self, id: str) -> Comparison | Unseen:
        """The prediction ``id`` beside what was counted, or a line where it could not be. Raises LessonError."""
        if id not in self.answers:
            raise LessonError(
                f"{id!r} is not answered here.",
                tried="to compare a prediction",
                remedy="answered are: " + (", ".join(self.answers) or "none"),
            )
        answer = self.answers[id]
        return (
            Unseen(f"{' '.join(self.notes)} So there is nothing to compare with.")
            if answer is None
            else compare(id, answer)
        )

    def __str__(self) -> str:
        return "\n".join([str(self.table), *self.notes])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        notes = "".join(f'<p class="soft">{escape(note)}</p>' for note in self.notes)
        return block((self.picture.svg if self.picture else "") + self.table.html() + notes)


@dataclass(frozen=True)
class Look:
    """``pools`` counts pages; None where no tracing program may run, and ``notes`` says so."""

    pools: BufferWatch | None
    notes: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return self.pools is not None


@contextlib.contextmanager
def looking(lab: Lab) -> Iterator[Look]:
    """A watch on the pages of ``lab``, where that can be had."""
    try:
        pools = watch(lab)
    except FeatureError as error:
        yield Look(None, (f"{error.message} Pages of pools are not counted here (–).",))
        return
    with pools:
        yield Look(pools)
