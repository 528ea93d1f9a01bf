"""A chart of values by frame size: a line a series, each with a mark of its own and its name at its end."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from labkit.lesson.page import number
from labkit.lesson.pictures import label_at, svg_of

__all__ = ["Mark", "Series", "chart"]

_LEFT, _STEP, _TOP, _HEIGHT, _RIGHT = 74, 92, 26, 210, 250
_MARKS = ("circle", "square", "triangle", "diamond", "cross")
_LEAST_APART = 15  # between two names, in pixels


@dataclass(frozen=True)
class Series:
    """``values`` by size, None where there is none; ``spread`` draws a whisker; ``quoted``: another's, drawn dashed."""

    name: str
    values: tuple[float | None, ...]
    spread: tuple[tuple[float, float] | None, ...] = ()
    quoted: bool = False


@dataclass(frozen=True)
class Mark:
    """On the level line: where the series of this number crosses it, a size between ``low`` and ``high``."""

    order: int
    at: float
    low: float
    high: float


def chart(
    title: str,
    said: str,
    sizes: Sequence[int],
    series: Sequence[Series],
    *,
    level: float,
    level_name: str,
    unit: str,
    marks: Sequence[Mark] = (),
) -> str:
    """An SVG. ``level`` is drawn across, with ``level_name``: what it means to be above or below it."""
    low, high = _range(series, level)
    width = _LEFT + _STEP * (len(sizes) - 1) + _RIGHT

    def x(index: float) -> float:
        return _LEFT + _STEP * index

    def y(value: float) -> float:
        return _TOP + _HEIGHT * (high - min(max(value, low), high)) / (high - low)

    parts = [_axis(tick, y(tick), unit, x(len(sizes) - 1)) for tick in _ticks(low, high)]
    parts.append(_level(y(level), x(len(sizes) - 1), level_name))
    for index, size in enumerate(sizes):
        parts.append(label_at(x(index), _TOP + _HEIGHT + 20, f"{size:,}", "soft", "middle"))
    parts.append(label_at(x((len(sizes) - 1) / 2), _TOP + _HEIGHT + 40, "bytes of the frame", "soft", "middle"))
    for each in marks:
        parts.append(_crossing(each, [x(_place(sizes, size)) for size in (each.low, each.at, each.high)], y(level)))
    ends = _apart([y(_last(each)) for each in series])
    for order, (line, end) in enumerate(zip(series, ends, strict=True)):
        parts += _line(line, order, x, y)
        colour, last = _colour(order, line.quoted), x(len(sizes) - 1)
        parts.append(
            f'<path d="M{last + 9:g} {y(_last(line)):.1f}L{last + 22:g} {end:.1f}" stroke="{colour}" fill="none" '
            f'stroke-dasharray="1 3"/>'
        )
        parts.append(_mark(order, last + 29, end, colour, line.quoted))
        parts.append(label_at(last + 39, end + 4, line.name, "soft" if line.quoted else ""))
    return svg_of(title, said, int(width), _TOP + _HEIGHT + 48, "".join(parts))


def _range(series: Sequence[Series], level: float) -> tuple[float, float]:
    """What has to be shown: all values, the level, and whiskers as far as they don't dwarf the values."""
    values = [value for each in series for value in each.values if value is not None] + [level]
    low, high = min(values), max(values)
    reach = max(high - low, 1e-9)
    ends = [end for each in series for pair in each.spread if pair for end in pair]
    low = max(min([low, *ends]), low - reach / 2) - reach * 0.06
    high = min(max([high, *ends]), high + reach / 2) + reach * 0.06
    return low, high


def _ticks(low: float, high: float) -> list[float]:
    """Four to eight round numbers."""
    rough = (high - low) / 7
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * each for each in (1, 2, 2.5, 5, 10) if power * each >= rough)
    first = -(-low // step)
    return [step * (first + i) for i in range(int((high - step * first) // step) + 1)]


def _axis(tick: float, y: float, unit: str, right: float) -> str:
    return f'<path d="M{_LEFT - 10} {y:.1f}H{right + 8:g}" stroke="var(--lab-line)" fill="none"/>' + label_at(
        _LEFT - 16, y + 4, f"{number(round(tick, 3))} {unit}".strip().replace("-", "−"), "soft", "end"
    )


def _level(y: float, right: float, name: str) -> str:
    return (
        f'<path d="M{_LEFT - 10} {y:.1f}H{right + 8:g}" stroke="currentColor" stroke-width="1.5" fill="none"/>'
        + label_at(_LEFT - 4, _TOP - 12, name, "soft")
    )


def _place(sizes: Sequence[int], size: float) -> float:
    """Where a size is on the axis, whose steps are those of ``sizes``; at its end what is beyond it."""
    if size <= sizes[0]:
        return 0.0
    for index, (a, b) in enumerate(pairwise(sizes)):
        if size <= b:
            return index + (size - a) / (b - a)
    return float(len(sizes) - 1)


def _crossing(mark: Mark, places: Sequence[float], level: float) -> str:
    """A band below the level line, from the least to the most, and a tick where the crossing is."""
    low, at, high = places
    top, colour = level + 7 + 9 * mark.order, _colour(mark.order, False)
    return (
        f'<rect x="{low:.1f}" y="{top:.1f}" width="{max(high - low, 2):.1f}" height="5" rx="2.5" fill="{colour}" '
        f'opacity=".4"/><path d="M{at:.1f} {level:.1f}V{top + 7:.1f}" stroke="{colour}" stroke-width="2.5"/>'
    )


def _last(each: Series) -> float:
    return next(value for value in reversed(each.values) if value is not None)


def _colour(order: int, quoted: bool) -> str:
    if quoted:
        return "var(--lab-soft)"
    return ("var(--lab-accent)", "var(--lab-good)", "var(--lab-bad)", "currentColor")[order % 4]


def _line(each: Series, order: int, x: Callable[[float], float], y: Callable[[float], float]) -> list[str]:
    colour = _colour(order, each.quoted)
    points = [(x(i), y(value), i) for i, value in enumerate(each.values) if value is not None]
    path = "L".join(f"{px:g} {py:.1f}" for px, py, _ in points)
    dashes = ' stroke-dasharray="5 4"' if each.quoted else ""
    parts = [f'<path d="M{path}" fill="none" stroke="{colour}" stroke-width="2"{dashes}/>']
    for px, py, index in points:
        spread = each.spread[index] if each.spread else None
        if spread:
            at = px + 5 * order - 5  # beside one another, not on top
            parts.append(
                f'<path d="M{at:g} {y(spread[0]):.1f}V{y(spread[1]):.1f}" stroke="{colour}" fill="none" opacity=".55"/>'
            )
        parts.append(_mark(order, px, py, colour, each.quoted))
    return parts


def _mark(order: int, x: float, y: float, colour: str, hollow: bool) -> str:
    paint = f'fill="{"var(--lab-card)" if hollow else colour}" stroke="{colour}"'
    shape = _MARKS[order % len(_MARKS)]
    if shape == "circle":
        return f'<circle cx="{x:g}" cy="{y:.1f}" r="4" {paint}/>'
    path = {
        "square": "m-4 -4h8v8h-8z",
        "triangle": "m0 -5l5 9h-10z",
        "diamond": "m0 -5.5l5.5 5.5l-5.5 5.5l-5.5 -5.5z",
        "cross": "m-4 -4l8 8m0 -8l-8 8",
    }[shape]
    return f'<path d="M{x:g} {y:.1f}{path}" {paint}/>'


def _apart(places: Sequence[float]) -> list[float]:
    """The same places moved down as far as names need room, the topmost first."""
    moved, least = dict[int, float](), -1e9
    for index in sorted(range(len(places)), key=lambda i: places[i]):
        least = moved[index] = max(places[index], least + _LEAST_APART)
    return [moved[index] for index in range(len(places))]
