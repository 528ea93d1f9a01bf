"""The picture of a frame in its buffer: a strip for each step, all to one scale and at the same places."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count

from labkit.lesson.frame_map_axis import Axis, make_axis
from labkit.lesson.frame_map_fields import fields_of, parts_of
from labkit.lesson.frame_map_shape import Shape, label, line, rect, shape
from labkit.lesson.frame_map_strip import BAR_PX, FLAGS_PX, KERNEL_PX, STRIP_PX, draw_strip, pieces_of
from labkit.lesson.frame_map_words import answer, asked
from labkit.observe.adjusting import Adjusted

__all__ = ["WIDTH_PX", "Drawing", "draw_frame"]

WIDTH_PX = (820, 1060)  # what the drawing needs, and what it takes at the most
_EDGE, _TITLE, _LINE, _GAP = 8, 22, 16, 12
_CHARACTER_PX = 6.4
_ids = count(1)


@dataclass(frozen=True)
class Drawing:
    """Shapes and their extent; ``strips`` tells for each drawn finding (its number) where its bar is: top and height."""

    width: float
    height: float
    shapes: tuple[Shape, ...]
    axis: Axis
    strips: tuple[tuple[int, float, float], ...]

    def svg(self) -> str:
        """All shapes as SVG text, without the frame."""
        return "".join(each.svg() for each in self.shapes)


def draw_frame(adjusted: Adjusted, width: int = 1000) -> Drawing:
    """The drawing, ``width`` pixels wide."""
    findings = adjusted.findings
    parts, fields = parts_of(adjusted.frame), fields_of(adjusted.frame)
    start = findings[0].data
    headers = sum(part.length for part in parts if part.family != "payload")
    points = [at for each in findings for at in (each.data_meta, each.data, each.data_end)]
    left = _EDGE + KERNEL_PX
    axis = make_axis(findings[0].end, points, (start, start + headers), left, width - 2 * left)
    pieces = pieces_of(findings, parts)
    paint = f"fm-paint-{next(_ids)}"
    shapes: list[Shape] = [_paints(paint)]
    strips: list[tuple[int, float, float]] = []
    y, shown = 2.0, 0
    for number, finding in enumerate(findings):
        moved = number == 0 or finding.code == 0
        said, height = _title(adjusted, number, y, axis.right + KERNEL_PX)
        shapes += said
        y += height
        if moved:
            before = findings[shown] if number else None
            shapes += draw_strip(axis, y, finding, before, pieces[number], fields, start, paint)
            strips.append((number, y + FLAGS_PX, BAR_PX))
            y, shown = y + STRIP_PX, number
        y += _GAP
    return Drawing(axis.right + KERNEL_PX + _EDGE, y, tuple(shapes), axis, tuple(strips))


def _title(adjusted: Adjusted, number: int, y: float, right: float) -> tuple[list[Shape], float]:
    """What was asked and what became of it, in as many lines as it needs."""
    finding = adjusted.findings[number]
    if finding.step is None:
        what = f"As it came: {len(adjusted.frame):,} bytes at {adjusted.where}, {adjusted.mode} mode"
        return [label(_EDGE, y + 14, what, "fm-title")], _TITLE
    call, said = asked(finding.step), answer(finding, adjusted.findings[number - 1])
    good = finding.code == 0
    x = _EDGE + 26
    shapes = [
        line(f"M{_EDGE} {y - 6:.1f}H{right:.1f}", "fm-rule"),
        rect(_EDGE, y + 2, 18, 16, "fm-number" if good else "fm-number fm-refused", rx=8),
        label(_EDGE + 9, y + 14, str(number), "fm-count", "middle"),
        label(x, y + 14, call, "fm-call"),
    ]
    after = x + len(call) * 7.3 + 14
    room = right - after
    words = ("→ " if good else "✗ ") + said
    kind = "fm-said" if good else "fm-said fm-bad"
    if room < 260:
        after, room, y = x, right - x, y + _LINE
    lines = textwrap.wrap(words, max(20, int(room / _CHARACTER_PX)))
    below = _LINE if after == x else 0
    for i, words in enumerate(lines):
        shapes.append(label(after, y + 14 + _LINE * i, words, kind))
    return shapes, _TITLE + below + _LINE * (len(lines) - 1)


def _paints(ident: str) -> Shape:
    """Hatchings: falling for room, rising for what is new in the frame."""
    return shape("defs", children=list(_hatchings(ident)))


def _hatchings(ident: str) -> Iterator[Shape]:
    for name, way, kind in (("room", "M0 8L8 0", "fm-stripe"), ("new", "M0 0L8 8", "fm-stripe fm-stripe-new")):
        yield shape(
            "pattern",
            id=f"{ident}-{name}",
            width=8,
            height=8,
            patternUnits="userSpaceOnUse",
            children=[line(way, kind)],
        )
