"""Charts of this lesson: bars of two parts, and lines over time. No part or line differs by its colour alone."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import count

from labkit.lesson.page import Table, number
from labkit.lesson.pictures import Picture, label_at, svg_of

__all__ = ["Line", "lines", "parts"]

Line = Sequence[tuple[float, float]]
"""Points from left to right: (x, y)."""

_ids = count(1)
_LEFT, _WIDTH, _STEP, _BAR = 170, 560, 32, 19
_TOP, _HIGH, _RIGHT = 30, 220, 250
# Colour and dashes of a line, and the mark at its end.
_PENS = (
    ("var(--lab-accent)", "", "●"),
    ("var(--lab-bad)", "7 4", "■"),
    ("var(--lab-good)", "2 3", "▲"),
    ("var(--lab-soft)", "9 3 2 3", "◆"),
    ("currentColor", "4 2", "▼"),
)
_TICKS = 4
_APART = 15  # pixels between names at the lines' ends, at least


def parts(values: Mapping[str, tuple[float, float]], names: tuple[str, str], title: str, table: Table) -> Picture:
    """A bar for each name, of a filled part and a striped one, and both numbers behind it."""
    stripes = f"lab-ring-stripes-{next(_ids)}"
    most = max([*(sum(value) for value in values.values()), 1e-12])
    drawn = [_stripes(stripes), *_legend(names, stripes)]
    for i, (name, (first, second)) in enumerate(values.items()):
        y, middle = _TOP + i * _STEP, _LEFT + _WIDTH * first / most
        drawn.append(label_at(_LEFT - 10, y + 14, name, "", "end"))
        drawn.append(_rect(_LEFT, y, middle - _LEFT, "var(--lab-accent)"))
        drawn.append(_rect(middle, y, _WIDTH * second / most, f"url(#{stripes})"))
        behind = number(first) + (f" + {number(second)}" if second else "")
        drawn.append(label_at(_LEFT + _WIDTH * (first + second) / most + 8, y + 14, behind, "strong"))
    said = "; ".join(f"{name}: {number(a)} {names[0]}, {number(b)} {names[1]}" for name, (a, b) in values.items())
    height = _TOP + _STEP * len(values)
    return Picture(title, said, svg_of(title, said, _LEFT + _WIDTH + 110, height, "".join(drawn)), table, open=False)


def lines(
    series: Mapping[str, Line],
    x_name: str,
    y_name: str,
    title: str,
    table: Table,
    *,
    roof: tuple[str, float] | None = None,
) -> Picture:
    """A line for each name, five at most, with its name at its end; ``roof`` is a level with a name that they may touch."""
    xs = _ticks(max([x for line in series.values() for x, _ in line] + [1e-12]))
    ys = _ticks(max([y for line in series.values() for _, y in line] + [roof[1] if roof else 0.0, 1e-12]))

    def place(x: float, y: float) -> tuple[float, float]:
        return 74 + _WIDTH * x / xs[-1], _TOP + _HIGH * (1 - y / ys[-1])

    drawn = _axes(xs, ys, x_name, y_name)
    if roof:
        y = place(0, roof[1])[1]
        drawn.append(f'<path d="M74 {y:.1f}h{_WIDTH}" stroke="var(--lab-soft)" stroke-dasharray="1 4"/>')
        drawn.append(label_at(80, y + 14, roof[0], "soft small"))
    ends = _spread({name: place(*line[-1])[1] for name, line in series.items() if line})
    for (name, line), (colour, dashes, mark) in zip(series.items(), _PENS, strict=False):
        if not line:
            continue
        path = "L".join("{:.1f} {:.1f}".format(*place(*point)) for point in line)
        drawn.append(
            f'<path d="M{path}" fill="none" stroke="{colour}" stroke-width="2" stroke-dasharray="{dashes}" '
            f'stroke-linejoin="round"/>'
        )
        drawn.append(
            f'<text x="{74 + _WIDTH + 8}" y="{ends[name] + 4:.1f}" style="fill:{colour}" aria-hidden="true">{mark}</text>'
        )
        drawn.append(label_at(74 + _WIDTH + 24, ends[name] + 4, name))
    said = "; ".join(
        f"{name}: from {number(line[0][1])} to {number(line[-1][1])}, at most {number(max(y for _, y in line))}"
        for name, line in series.items()
        if line
    )
    svg = svg_of(title, said, 74 + _WIDTH + _RIGHT, _TOP + _HIGH + 42, "".join(drawn))
    return Picture(title, said, svg, table, open=False)


def _ticks(most: float) -> list[float]:
    """Round numbers from 0 to ``most`` or a little more, about five."""
    power = 10.0 ** math.floor(math.log10(most / _TICKS))
    step = next(each * power for each in (1, 2, 2.5, 5, 10) if each * power * _TICKS >= most * 0.999)
    return [step * i for i in range(math.ceil(most / step * 0.999) + 1)]


def _axes(xs: Sequence[float], ys: Sequence[float], x_name: str, y_name: str) -> list[str]:
    bottom = _TOP + _HIGH
    drawn = [label_at(8, 14, y_name, "soft"), label_at(74 + _WIDTH, bottom + 36, x_name, "soft", "end")]
    for value in ys:
        y = bottom - _HIGH * value / ys[-1]
        drawn.append(f'<path d="M74 {y:g}h{_WIDTH}" stroke="var(--lab-line)"/>')
        drawn.append(label_at(66, y + 4, number(value), "soft small", "end"))
    for value in xs:
        drawn.append(label_at(74 + _WIDTH * value / xs[-1], bottom + 18, number(value), "soft small", "middle"))
    return drawn


def _spread(wanted: Mapping[str, float]) -> dict[str, float]:
    """Heights of names at the lines' ends, moved down where two would lie on one another."""
    placed: dict[str, float] = {}
    last = -1e9
    for name, y in sorted(wanted.items(), key=lambda each: each[1]):
        last = placed[name] = max(y, last + _APART)
    over = max(0.0, last - (_TOP + _HIGH)) if placed else 0.0
    return {name: y - over for name, y in placed.items()}


def _rect(x: float, y: float, width: float, fill: str) -> str:
    if width < 0.5:
        return ""
    return f'<rect x="{x:.1f}" y="{y:g}" width="{width:.1f}" height="{_BAR}" fill="{fill}" stroke="var(--lab-soft)"/>'


def _stripes(ident: str) -> str:
    return (
        f'<defs><pattern id="{ident}" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
        f'<rect width="3" height="6" fill="var(--lab-bad)"/></pattern></defs>'
    )


def _legend(names: tuple[str, str], stripes: str) -> list[str]:
    drawn = []
    for i, (name, fill) in enumerate(zip(names, ("var(--lab-accent)", f"url(#{stripes})"), strict=True)):
        x = _LEFT + 190 * i
        drawn.append(f'<rect x="{x}" y="4" width="16" height="14" fill="{fill}" stroke="var(--lab-soft)"/>')
        drawn.append(label_at(x + 22, 16, name, "soft"))
    return drawn
