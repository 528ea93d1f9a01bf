"""The ways of a packet from the program that wrote its metadata, and who along them can read it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from labkit.lesson.page import Table
from labkit.lesson.pictures import Picture, box_at, label_at, svg_of

__all__ = ["Station", "ways_picture"]

_LEFT, _WIDTH, _HEIGHT = 178, 196, 68
_STEP, _LANE, _TOP = 214, 84, 8
_WRITER = 132


@dataclass(frozen=True)
class Station:
    """A consumer: on the lane of what the writer returned; whether it reads the note in native and in generic mode."""

    lane: str
    name: str
    where: str
    native: bool
    generic: bool

    @property
    def words(self) -> str:
        """The same for people."""
        if self.native == self.generic:
            return "reads the note in both modes" if self.native else "finds no note, in either mode"
        return f"reads the note in {'native' if self.native else 'generic'} mode alone"


def ways_picture(stations: Sequence[Station], table: Table) -> Picture:
    """A lane for each thing that the writer may return; ``table`` says the same with numbers."""
    lanes: dict[str, list[Station]] = {}
    for each in stations:
        lanes.setdefault(each.lane, []).append(each)
    height = _TOP + _LANE * len(lanes) - (_LANE - _HEIGHT)
    middle = height / 2 - 8
    parts = [box_at(4, _TOP, _WRITER, height - _TOP), label_at(16, middle, "meta_write", "strong")]
    parts += [
        label_at(16, middle + 18, "router eth0", "soft"),
        label_at(16, middle + 36, "writes the note", "soft small"),
    ]
    for row, (lane, along) in enumerate(lanes.items()):
        y = _TOP + row * _LANE
        parts.append(label_at(_WRITER + 12, y + 18, lane, "small"))
        for column, station in enumerate(along):
            parts += _station(station, _LEFT + 70 + column * _STEP, y, first=not column)
    longest = max(map(len, lanes.values()), default=1)
    title = "Who can read a note that a program left in front of a packet"
    said = "; ".join(f"{each.lane}: {each.name} ({each.where}) {each.words}" for each in stations)
    width = _LEFT + 70 + _STEP * longest
    return Picture(title, said, svg_of(title, said, width, height + _TOP, "".join(parts)), table)


def _station(station: Station, x: int, y: int, *, first: bool) -> list[str]:
    """A box with two lamps, and the arrow that leads to it."""
    start = _WRITER + 8 if first else x - _STEP + _WIDTH + 3
    end = x - 3
    parts = [
        f'<path d="M{start} {y + _HEIGHT // 2}H{end}m-5 -4l5 4l-5 4" fill="none" stroke="var(--lab-soft)" stroke-width="2"/>',
        box_at(x, y, _WIDTH, _HEIGHT),
    ]
    parts.append(label_at(x + 12, y + 20, station.name, "strong"))
    parts.append(label_at(x + 12, y + 36, station.where, "soft small"))
    parts += _lamp(x + 18, y + 57, "native", station.native)
    parts += _lamp(x + 100, y + 57, "generic", station.generic)
    return parts


def _lamp(x: int, y: int, mode: str, reads: bool) -> list[str]:
    """Full with a tick, or hollow with a cross: not by colour alone."""
    colour = "var(--lab-good)" if reads else "var(--lab-bad)"
    sign = f"M{x - 3} {y - 4}l3 3l5 -6" if reads else f"M{x - 3} {y - 7}l6 6m0 -6l-6 6"
    return [
        f'<circle cx="{x}" cy="{y - 4}" r="7" fill="none" stroke="{colour}" stroke-width="1.5"/>',
        f'<path d="{sign}" fill="none" stroke="{colour}" stroke-width="2"/>',
        label_at(x + 12, y, mode, "small"),
    ]
