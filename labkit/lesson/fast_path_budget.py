"""The budget of a redirected packet as a picture: its parts one after another on one bar."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from labkit.lesson.fast_path_rig import Difference, Timed
from labkit.lesson.page import Table, block
from labkit.lesson.pictures import Picture, label_at, svg_of

__all__ = ["Bracket", "Budget", "Part", "budget_picture"]

_LEFT, _WIDTH, _ROW, _TOP = 196, 560, 34, 30
_COLOURS = ("--lab-soft", "--lab-accent", "--lab-accent", "--lab-good", "--lab-good")


@dataclass(frozen=True)
class Part:
    """A part of the budget: its name, what it costs in ns a packet, what that contains."""

    name: str
    cost: Difference
    contains: str


@dataclass(frozen=True)
class Bracket:
    """A time to be seen beside the parts, in ns a packet; it begins where the second part does."""

    name: str
    ns: float
    words: str


class Budget(ABC):
    """A measured budget as it is shown: the picture with its table, the runs behind it, and what has to be said."""

    timed: Timed

    @property
    @abstractmethod
    def parts(self) -> tuple[Part, ...]:
        """What every packet costs, then each step, in order."""

    @property
    @abstractmethod
    def notes(self) -> tuple[str, ...]:
        """What the figures don't say by themselves."""

    @abstractmethod
    def budget(self) -> Picture:
        """The parts one after another on one bar, with their table."""

    @abstractmethod
    def lanes(self) -> Table:
        """One row a lane."""

    def _left(self, whole_ns: float) -> str:
        rest = whole_ns - sum(part.cost.ns for part in self.parts)
        return f"Parts are medians, and medians don't add up exactly: {rest:+.1f} ns are left of {whole_ns:.1f}."

    def _unsure(self) -> tuple[str, ...]:
        names = [part.name for part in self.parts if part.cost.low_ns <= 0 <= part.cost.high_ns]
        if not names:
            return ()
        return (f"Not to be told from noise this time: {', '.join(names)}. On a quiet machine run it again.",)

    def __str__(self) -> str:
        return "\n".join([str(self.budget()), "", str(self.lanes()), *self.notes])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        picture, lanes = self.budget(), self.lanes()
        notes = "".join(f'<p class="soft">{escape(note)}</p>' for note in self.notes)
        more = f"<details><summary>The runs that these are the differences of</summary>{lanes.html()}</details>"
        return block(f"{picture.svg}{picture.table.html()}{more}{notes}")


def budget_picture(title: str, parts: Sequence[Part], brackets: Sequence[Bracket]) -> Picture:
    """Each part in a row of its own, beginning where the one before ends, with the spread of its turns as a line.

    Below them the brackets: what could be saved at most, say, and what a thread saved.
    """
    total = max(sum(max(part.cost.ns, 0.0) for part in parts), 1e-9)
    scale, at = _WIDTH / total, 0.0
    drawn = []
    for i, part in enumerate(parts):
        drawn.append(_row(i, part.name, part.cost, at, scale, _COLOURS[min(i, len(_COLOURS) - 1)]))
        at += max(part.cost.ns, 0.0)
    start, rows = max(parts[0].cost.ns, 0.0), len(parts)
    line = _TOP + rows * _ROW + 2
    drawn.append(f'<path d="M{_LEFT} {line}h{_WIDTH}" stroke="var(--lab-line)" stroke-width="1.5"/>')
    drawn += [_bracket(rows + i, each, start, scale) for i, each in enumerate(brackets)]
    said = "; ".join(f"{part.name} {part.cost} ns" for part in parts)
    svg = svg_of(
        title,
        said,
        _LEFT + _WIDTH + 170,
        _TOP + (rows + len(brackets)) * _ROW + 8,
        label_at(2, 18, title, "strong") + "".join(drawn),
    )
    return Picture(title, said, svg, _table(parts, total))


def _table(parts: Sequence[Part], total: float) -> Table:
    rows = []
    for i, part in enumerate(parts):
        spread = f"{part.cost.low_ns:.1f} to {part.cost.high_ns:.1f}" if i else None
        rows.append(
            (part.name, round(part.cost.ns, 1), spread, f"{part.cost.ns / total:.0%}".replace("%", " %"), part.contains)
        )
    return Table(("part", "ns a packet", "half of the turns", "of all", "contains"), tuple(rows))


def _row(i: int, name: str, cost: Difference, at: float, scale: float, colour: str) -> str:
    y, x, width = _TOP + i * _ROW, _LEFT + at * scale, max(cost.ns, 0.0) * scale
    parts = [
        label_at(_LEFT - 10, y + 15, name, "", "end"),
        f'<rect x="{x:.1f}" y="{y}" width="{max(width, 1.5):.1f}" height="20" rx="3" fill="var({colour})"/>',
    ]
    low, high = (min(x + max(edge, -at) * scale, _LEFT + _WIDTH + 150) for edge in (cost.low_ns, cost.high_ns))
    if high - low > 1:
        parts.append(
            f'<path d="M{low:.1f} {y + 24}h{high - low:.1f}M{low:.1f} {y + 21}v6M{high:.1f} {y + 21}v6" fill="none" '
            'stroke="currentColor" stroke-width="1.2"/>'
        )
    parts.append(label_at(x + width + 8, y + 15, f"{cost.ns:.1f} ns", "strong"))
    return "".join(parts)


def _bracket(i: int, each: Bracket, start: float, scale: float) -> str:
    y, x, width = _TOP + i * _ROW + 10, _LEFT + start * scale, max(each.ns, 0.0) * scale
    return (
        label_at(_LEFT - 10, y + 9, each.name, "soft", "end")
        + f'<path d="M{x:.1f} {y}v9h{max(width, 1):.1f}v-9" fill="none" stroke="var(--lab-bad)" stroke-width="2"/>'
        + label_at(x + width + 8, y + 9, each.words, "soft")
    )
