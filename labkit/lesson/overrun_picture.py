"""Bars of shares: for each lane what became of all its packets, as parts of one bar."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import count

from labkit.lesson.page import Table
from labkit.lesson.pictures import Picture, label_at, svg_of

__all__ = ["shares_picture"]

_ids = count(1)
_LEFT, _WIDTH, _STEP, _HEIGHT, _TOP, _KEY = 150, 560, 34, 20, 34, 14
# Filled, striped, hollow: the parts differ by more than colour.
_FILLS = ("var(--lab-accent)", "url(#{id})", "none")


def shares_picture(shares: Mapping[str, Sequence[float]], parts: Sequence[str], title: str, table: Table) -> Picture:
    """One bar a lane, its ``shares`` (0 to 1) in the order of ``parts``, three at most; ``table`` says the same."""
    stripes = f"lab-stripes-{next(_ids)}"
    fills = [fill.format(id=stripes) for fill in _FILLS]
    drawn = [_stripes(stripes), _legend(parts, fills)]
    for row, (name, found) in enumerate(shares.items()):
        y, x = _TOP + row * _STEP, float(_LEFT)
        drawn.append(label_at(_LEFT - 10, y + 15, name, "", "end"))
        for share, fill in zip(found, fills, strict=True):
            drawn.append(_part(x, y, _WIDTH * share, fill))
            x += _WIDTH * share
    said = "; ".join(
        f"{name}: " + ", ".join(f"{part} {share:.1%}" for part, share in zip(parts, found, strict=True))
        for name, found in shares.items()
    )
    svg = svg_of(title, said, _LEFT + _WIDTH + 10, _TOP + _STEP * len(shares), "".join(drawn))
    return Picture(title, said, svg, table)


def _part(x: float, y: float, width: float, fill: str, height: int = _HEIGHT) -> str:
    if width < 0.5:
        return ""
    return f'<rect x="{x:.1f}" y="{y:g}" width="{width:.1f}" height="{height}" fill="{fill}" stroke="var(--lab-soft)"/>'


def _stripes(ident: str) -> str:
    return (
        f'<defs><pattern id="{ident}" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
        f'<rect width="3" height="6" fill="var(--lab-bad)"/></pattern></defs>'
    )


def _legend(parts: Sequence[str], fills: Sequence[str]) -> str:
    return "".join(
        _part(_LEFT + 190 * i, 4, 16, fill, _KEY) + label_at(_LEFT + 190 * i + 22, 16, part, "soft")
        for i, (part, fill) in enumerate(zip(parts, fills, strict=True))
    )
