"""Pictures of lesson 02: where a redirected packet can be lost, and a host with others on both sides."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from labkit.lesson.page import Table
from labkit.lesson.pictures import Picture, box_at, draw, label_at, svg_of
from labkit.topology import Topology

__all__ = ["draw_star", "redirect_path"]

# Where, what happens there, what can go wrong, and which counter knows.
_STATIONS = (
    ("the program", "says XDP_REDIRECT", "slot empty", "the program's own count: XDP_ABORTED"),
    (
        "the lookup",
        "finds the interface",
        "no such, or can't take it",
        "receiving interface: rx_queue_0_drops, rx_dropped",
    ),
    ("the bulk", "up to 16 frames wait", "egress program drops", "that program's own count"),
    ("the driver", "of the way out", "ring full, peer down", "interface of the way out: tx_dropped"),
    ("the ring", "256 frames at the peer", "nobody wakes the reader", "none: they wait"),
    ("the peer", "its program, its stack", "MAC, checksum, no socket", "drop reasons and counters of the stack"),
)
_STEP, _WIDTH, _HIGH = 158, 136, 50


def redirect_path() -> Picture:
    """The way of a redirected frame, and where along it a packet can be lost."""
    parts = []
    for i, (name, what, loss, _) in enumerate(_STATIONS):
        x = 4 + i * _STEP
        middle = x + _WIDTH / 2
        parts.append(box_at(x, 8, _WIDTH, _HIGH))
        parts.append(label_at(middle, 30, name, "strong", "middle"))
        parts.append(label_at(middle, 47, what, "soft small", "middle"))
        if i:
            parts.append(_arrow(f"M{x - 20} 33h14m-5 -4l5 4l-5 4", "--lab-soft"))
        parts.append(_arrow(f"M{middle:g} 60v18m-4 -5l4 5l4 -5", "--lab-bad"))
        parts.append(label_at(middle, 95, loss, "small", "middle"))
    title = "The way of a redirected frame, and where it can be lost"
    said = "From left to right: " + "; ".join(f"{name} {what}: {loss}" for name, what, loss, _ in _STATIONS)
    rows = tuple((i + 1, *station) for i, station in enumerate(_STATIONS))
    table = Table(("step", "where", "what happens", "how it is lost", "who counts it"), rows)
    return Picture(title, said, svg_of(title, said, 4 + _STEP * len(_STATIONS), 104, "".join(parts)), table, open=False)


def _arrow(path: str, colour: str) -> str:
    return f'<path d="{path}" fill="none" stroke="var({colour})" stroke-width="2"/>'


_SIDE_W, _MIDDLE_W, _BOX_H, _LANE, _GAP = 170, 190, 50, 78, 170


def draw_star(what: Any, left: int) -> Picture:
    """The first host of a topology or a lab in the middle, ``left`` of the others on its left and the rest on its right.

    ``Picture.table`` is that of ``lk.draw``, with the programs attached.
    """
    topology: Topology = what if isinstance(what, Topology) else what.topology
    programs = {} if isinstance(what, Topology) else {each.interface.where: each for each in what.attached}
    sides = (topology.links[:left], topology.links[left:])
    height = max(map(len, sides)) * _LANE - (_LANE - _BOX_H) + 24
    x_middle = _SIDE_W + _GAP
    parts = []
    for side, links in enumerate(sides):
        for row, link in enumerate(links):
            y = 4 + row * _LANE + (max(map(len, sides)) - len(links)) * _LANE / 2
            x = 2 if side == 0 else x_middle + _MIDDLE_W + _GAP
            near, far = (x + _SIDE_W, x_middle) if side == 0 else (x, x_middle + _MIDDLE_W)
            parts.append(_wire(near, far, y + _BOX_H / 2, link.b.interface, link.a.interface))
            parts += [box_at(x, y, _SIDE_W, _BOX_H), label_at(x + 12, y + 21, link.b.host, "strong")]
            parts.append(label_at(x + 12, y + 39, f"{link.b.interface}  {link.b.ip}", "soft"))
            parts.append(
                label_at(x + 2, y + _BOX_H + 14, _program(f"{link.b.host} {link.b.interface}", programs), "small")
            )
    parts.append(box_at(x_middle, 4, _MIDDLE_W, height - 28))
    parts.append(label_at(x_middle + _MIDDLE_W / 2, height / 2 - 6, topology.hosts[0], "strong", "middle"))
    inside = {_program(f"{link.a.host} {link.a.interface}", programs) for link in topology.links} - {""}
    for row, words in enumerate(sorted(inside)):
        parts.append(label_at(x_middle + _MIDDLE_W / 2, height / 2 + 14 + 15 * row, words, "small", "middle"))
    full = draw(what)
    svg = svg_of(full.title, full.description, 2 * (_SIDE_W + _GAP) + _MIDDLE_W + 4, height, "".join(parts))
    return replace(full, svg=svg)


def _wire(near: float, far: float, y: float, near_name: str, far_name: str) -> str:
    inwards = 1 if far > near else -1
    ends = "".join(f'<circle cx="{x:g}" cy="{y:g}" r="5" fill="var(--lab-accent)"/>' for x in (near, far))
    return (
        f'<line x1="{near:g}" y1="{y:g}" x2="{far:g}" y2="{y:g}" stroke="var(--lab-soft)" stroke-width="2"/>{ends}'
        + label_at(near + inwards * 24, y - 8, near_name, "soft", "middle")
        + label_at(far - inwards * 24, y - 8, far_name, "soft", "middle")
    )


def _program(where: str, programs: Mapping[str, Any]) -> str:
    found = programs.get(where)
    return f"{found.program.name} ({found.mode} XDP)" if found else ""
