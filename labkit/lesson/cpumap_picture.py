"""The way of a packet through a CPU map, drawn: what runs on which CPU."""

from __future__ import annotations

from labkit.lesson.page import Table
from labkit.lesson.pictures import Picture, box_at, label_at, svg_of

__all__ = ["cpumap_path"]

_STEP, _WIDTH, _HEIGHT = 176, 150, 52
_RECEIVING, _OTHER = 28, 158  # top edges of the two lanes' boxes
_NEAR: tuple[tuple[str, str], ...] = (
    ("driver's poll", "a frame, no skb yet"),
    ("XDP program", "redirect_map(cpu, 0)"),
    ("bulk", "up to 8 frames"),
)
_FAR: tuple[tuple[str, str], ...] = (
    ("queue of the CPU", "qsize frames at most"),
    ("thread cpumap/1", "takes up to 8"),
    ("slot's program", "if there is one"),
    ("skb made, GRO", "segments are joined"),
    ("network stack", "IP, UDP, socket"),
)
_FATES = {"XDP program": "empty slot: aborted", "queue of the CPU": "full: dropped", "slot's program": "drop, redirect"}


def cpumap_path() -> Picture:
    """What the receiving CPU does with a packet for another one, what is left to that, and where packets can end."""
    parts, width = [], 4 + _STEP * len(_FAR) + 24
    beside_arrow = 4 + _WIDTH // 2 + 14
    lanes = ((_RECEIVING, 4, "CPU 0 receives", _NEAR), (_OTHER, beside_arrow, "CPU 1 does the rest", _FAR))
    for top, left, name, boxes in lanes:
        parts.append(label_at(left, top - 10, name, "strong"))
        for number, (title, what) in enumerate(boxes):
            parts += _station(4 + number * _STEP, top, title, what, first=not number)
    parts.append(_crossing())
    title = "A packet for another CPU: what runs where"
    near, far = (", then ".join(name for name, _ in boxes) for boxes in (_NEAR, _FAR))
    said = f"On CPU 0: {near}. From there to CPU 1: {far}."
    rows = [("CPU 0", *each, _FATES.get(each[0])) for each in _NEAR]
    rows += [("CPU 1", *each, _FATES.get(each[0])) for each in _FAR]
    table = Table(("on", "station", "what happens", "a packet can end here"), tuple(rows))
    return Picture(title, said, svg_of(title, said, width, _OTHER + _HEIGHT + 40, "".join(parts)), table, open=False)


def _station(x: int, top: int, title: str, what: str, *, first: bool) -> list[str]:
    """A box, the arrow to it, and what may end a packet there."""
    middle, parts = x + _WIDTH / 2, [box_at(x, top, _WIDTH, _HEIGHT)]
    parts.append(label_at(middle, top + 22, title, "strong", "middle"))
    parts.append(label_at(middle, top + 40, what, "soft small", "middle"))
    if not first:
        parts.append(_arrow(f"M{x - _STEP + _WIDTH + 4} {top + _HEIGHT // 2}h16m-5 -4l5 4l-5 4", "soft"))
    if title in _FATES:
        below = top + _HEIGHT
        parts.append(_arrow(f"M{middle:g} {below + 2}v14m-4 -5l4 5l4 -5", "bad"))
        parts.append(label_at(middle, below + 32, _FATES[title], "", "middle"))
    return parts


def _crossing() -> str:
    """From the bulk on CPU 0 down to the queue on CPU 1."""
    x, end = 4 + 2 * _STEP + _WIDTH + 2, 4 + _WIDTH // 2
    y, turn = _RECEIVING + _HEIGHT // 2, _RECEIVING + _HEIGHT + 44
    return _arrow(f"M{x} {y}h14V{turn}H{end}V{_OTHER - 3}m-4 -5l4 5l4 -5", "accent")


def _arrow(path: str, colour: str) -> str:
    return f'<path d="{path}" fill="none" stroke="var(--lab-{colour})" stroke-width="2"/>'
