"""From bytes of a buffer to pixels: one scale for all, and stretches without events folded away."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

__all__ = ["Axis", "Stretch", "make_axis"]

_FOLD_PX = 46  # the room of a break mark and its number
_LEAST_FOLDED = 8  # bytes: folding fewer saves little
_SCALE_PX = (4.0, 15.0)  # a byte's width: least, most


@dataclass(frozen=True)
class Stretch:
    """Bytes ``first`` to before ``last``, drawn from ``x`` on; folded ones take a break mark's width."""

    first: int
    last: int
    x: float
    width: float
    folded: bool


@dataclass(frozen=True)
class Axis:
    """Stretches that cover the buffer from its first byte to its last; ``scale`` is the width of a byte in pixels."""

    stretches: tuple[Stretch, ...]
    scale: float

    @property
    def left(self) -> float:
        """Where the buffer begins."""
        return self.stretches[0].x

    @property
    def right(self) -> float:
        """Where it ends."""
        last = self.stretches[-1]
        return last.x + last.width

    def x(self, position: int) -> float:
        """The pixel of the border before byte ``position``; in a folded stretch, in proportion."""
        for each in self.stretches:
            if position <= each.last:
                part = (position - each.first) / (each.last - each.first)
                return each.x + each.width * min(max(part, 0.0), 1.0)
        return self.right

    def shown(self, first: int, last: int) -> Iterable[tuple[int, int]]:
        """The parts of ``first`` … ``last`` that aren't folded."""
        for each in self.stretches:
            low, high = max(first, each.first), min(last, each.last)
            if not each.folded and low < high:
                yield low, high


def make_axis(length: int, points: Sequence[int], kept: tuple[int, int], left: float, width: float) -> Axis:
    """An axis for ``length`` bytes that shows the surroundings of ``points`` and all of ``kept``, ``width`` pixels wide.

    What is left of the room shows more of the bytes behind ``kept``.
    """
    around = [(max(0, point - 6), min(length, point + 4)) for point in points]
    ranges = _joined([*around, kept], length)
    spare = int((width - _FOLD_PX * _folds(ranges, length)) / _SCALE_PX[1]) - sum(b - a for a, b in ranges)
    if spare > 0:
        ranges = _joined([(a, b + spare if a <= kept[0] < b else b) for a, b in ranges], length)
    shown = sum(b - a for a, b in ranges)
    scale = (width - _FOLD_PX * _folds(ranges, length)) / max(shown, 1)
    scale = min(max(scale, _SCALE_PX[0]), _SCALE_PX[1])
    return Axis(tuple(_stretches(ranges, length, left, scale)), scale)


def _joined(ranges: Iterable[tuple[int, int]], length: int) -> list[tuple[int, int]]:
    """Sorted, merged where they meet or nearly do, and out to the ends of the buffer where those are near."""
    found: list[tuple[int, int]] = []
    for first, last in sorted((a, min(b, length)) for a, b in ranges):
        if found and first - found[-1][1] < _LEAST_FOLDED:
            found[-1] = (found[-1][0], max(found[-1][1], last))
        else:
            found.append((first, last))
    first, last = found[0][0], found[-1][1]
    found[0] = (0 if first < _LEAST_FOLDED else first, found[0][1])
    found[-1] = (found[-1][0], length if length - last < _LEAST_FOLDED else last)
    return found


def _folds(ranges: Sequence[tuple[int, int]], length: int) -> int:
    return len(ranges) - 1 + (ranges[0][0] > 0) + (ranges[-1][1] < length)


def _stretches(ranges: Sequence[tuple[int, int]], length: int, left: float, scale: float) -> Iterable[Stretch]:
    at, x = 0, left
    for first, last in [*ranges, (length, length)]:
        if first > at:
            yield Stretch(at, first, x, _FOLD_PX, True)
            x += _FOLD_PX
        if last > first:
            yield Stretch(first, last, x, (last - first) * scale, False)
            x += (last - first) * scale
        at = last
