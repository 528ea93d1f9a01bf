"""Pictures for a lesson: drawn as SVG with a title and a description, each with the table that says the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import count
from typing import Any

from labkit.lesson.page import Table, block, number
from labkit.topology import End, Topology

__all__ = ["Picture", "bars", "box_at", "draw", "label_at", "receive_path", "svg_of"]

_ids = count(1)
_BOX_W, _BOX_H, _GAP, _LANE = 200, 62, 230, 96
_PROGRAM_LINE = 16


@dataclass(frozen=True)
class Picture:
    """An SVG drawing and its table. In plain text, the table alone."""

    title: str
    description: str
    svg: str
    table: Table
    open: bool = True

    def __str__(self) -> str:
        return f"{self.title}\n{self.table}"

    __repr__ = __str__

    def _repr_html_(self) -> str:
        more = "open" if self.open else ""
        return block(
            f"<figure style='margin:0'>{self.svg}"
            f"<figcaption class='soft' style='margin:.3em 0'>{escape(self.title)}</figcaption></figure>"
            f"<details {more}><summary>The same as a table</summary>{self.table.html()}</details>"
        )


def svg_of(title: str, description: str, width: int, height: int, inner: str) -> str:
    ident = f"lab-picture-{next(_ids)}"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'role="img" aria-labelledby="{ident}-t {ident}-d"><title id="{ident}-t">{escape(title)}</title>'
        f'<desc id="{ident}-d">{escape(description)}</desc>{inner}</svg>'
    )


def label_at(x: float, y: float, text: str, kind: str = "", anchor: str = "start") -> str:
    shown = f' class="{kind}"' if kind else ""
    return f'<text x="{x:g}" y="{y:g}"{shown} text-anchor="{anchor}">{escape(text)}</text>'


def box_at(x: float, y: float, width: float, height: float) -> str:
    return (
        f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="9" '
        f'fill="var(--lab-card)" stroke="var(--lab-line)"/>'
    )


def draw(what: Any) -> Picture:
    """A topology, or a lab with the programs attached to it: hosts, interfaces, addresses, links.

    Hosts go from left to right; those of a fan-out share the right-hand column.
    """
    topology: Topology = what if isinstance(what, Topology) else what.topology
    programs = {} if isinstance(what, Topology) else {link.interface.where: link for link in what.attached}
    places = _places(topology)
    rows, drawn = [], []
    for link in topology.links:
        drawn.append(_link_line(link.a, link.b, places))
        for end, other in (link.ends, link.ends[::-1]):
            found = programs.get(f"{end.host} {end.interface}")
            shown = f"{found.program.name}, {found.mode}" if found else "none"
            rows.append(
                (
                    end.host,
                    end.interface,
                    end.address,
                    end.mac,
                    end.mtu,
                    end.queues,
                    f"{other.host} {other.interface}",
                    shown,
                )
            )
    drawn += [_host_box(host, topology, places, programs) for host in topology.hosts]
    title = f"{what.name}: " if not isinstance(what, Topology) else ""
    title += " – ".join(topology.hosts) + ", joined by veth pairs" * bool(topology.links)
    said = "; ".join(
        f"{link.a.host} {link.a.interface} is wired to {link.b.host} {link.b.interface}" for link in topology.links
    )
    below = max((_lines_below(host, topology, programs) for host in topology.hosts), default=0)
    width = max(x for x, _ in places.values()) + _BOX_W + 120  # room for a program's name
    height = max(y for _, y in places.values()) + _BOX_H + 6 + _PROGRAM_LINE * below
    head = ("host", "interface", "address", "MAC", "MTU", "queues", "wired to", "XDP program")
    svg = svg_of(title, said or "no links", width, height, "".join(drawn))
    return Picture(title, said, svg, Table(head, tuple(rows)), open=False)


def _places(topology: Topology) -> dict[str, tuple[int, int]]:
    step = _BOX_W + _GAP
    if topology.shape == "fanout":
        others = topology.hosts[1:]
        middle = (len(others) - 1) * _LANE // 2
        return {topology.hosts[0]: (2, 2 + middle), **{h: (2 + step, 2 + i * _LANE) for i, h in enumerate(others)}}
    return {host: (2 + i * step, 2) for i, host in enumerate(topology.hosts)}


def _link_line(a: End, b: End, places: Mapping[str, tuple[int, int]]) -> str:
    (ax, ay), (bx, by) = places[a.host], places[b.host]
    x1, y1, x2, y2 = ax + _BOX_W, ay + _BOX_H / 2, bx, by + _BOX_H / 2
    slope = (y2 - y1) / (x2 - x1)
    return (
        f'<line x1="{x1}" y1="{y1:g}" x2="{x2}" y2="{y2:g}" stroke="var(--lab-soft)" stroke-width="2"/>'
        f'<circle cx="{x1}" cy="{y1:g}" r="5" fill="var(--lab-accent)"/>'
        f'<circle cx="{x2}" cy="{y2:g}" r="5" fill="var(--lab-accent)"/>'
        + label_at(x1 + 26, y1 + slope * 26 - 8, a.interface, "soft", "middle")
        + label_at(x2 - 26, y2 - slope * 26 - 8, b.interface, "soft", "middle")
        + label_at(
            (x1 + x2) / 2,
            (y1 + y2) / 2 + 18,
            f"MTU {a.mtu}" + (f", {a.queues} queues" if a.queues > 1 else ""),
            "soft",
            "middle",
        )
    )


def _host_box(host: str, topology: Topology, places: Mapping[str, tuple[int, int]], programs: Mapping[str, Any]) -> str:
    x, y = places[host]
    parts = [box_at(x, y, _BOX_W, _BOX_H), label_at(x + 14, y + 24, host, "strong")]
    for i, end in enumerate(topology.ends_of(host)[:2]):
        parts.append(label_at(x + 14, y + 42 + 15 * i, f"{end.interface}  {end.ip}", "soft"))
    for i, found in enumerate(_programs_of(host, topology, programs)):
        words = f"{found.interface.name}: {found.program.name} ({found.mode} XDP)"
        parts.append(label_at(x + 2, y + _BOX_H + 3 + _PROGRAM_LINE * (i + 1) - 3, words))
    return "".join(parts)


def _programs_of(host: str, topology: Topology, programs: Mapping[str, Any]) -> list[Any]:
    """Links of programs attached at a host's interfaces; two at most, as there is no room for more."""
    keys = [f"{end.host} {end.interface}" for end in topology.ends_of(host)]
    return [programs[key] for key in keys if key in programs][:2]


def _lines_below(host: str, topology: Topology, programs: Mapping[str, Any]) -> int:
    return len(_programs_of(host, topology, programs))


def bars(
    values: Mapping[str, float],
    unit: str,
    title: str,
    *,
    beside: Mapping[str, float] | None = None,
    beside_name: str = "",
) -> Picture:
    """A horizontal bar for each value; ``beside`` marks another source's value for the same name with a hollow bar."""
    other = dict(beside or {})
    most = max([*values.values(), *other.values(), 1e-12])
    left, width, step = 210, 400, 46 if other else 30
    parts = []
    for i, (name, value) in enumerate(values.items()):
        y = 6 + i * step
        parts.append(label_at(left - 10, y + 14, name, "", "end"))
        parts.append(_bar(left, y, width * value / most, 'fill="var(--lab-accent)"'))
        parts.append(label_at(left + width * value / most + 8, y + 14, f"{number(value)} {unit}", "strong"))
        if name in other:
            there = width * other[name] / most
            parts.append(_bar(left, y + 21, there, 'fill="none" stroke="var(--lab-soft)"', 12))
            parts.append(label_at(left + there + 8, y + 31, f"{number(other[name])} {unit}: {beside_name}", "soft"))
    head = ("lane", f"here ({unit})", f"{beside_name} ({unit})") if other else ("lane", unit)
    rows = tuple((name, value, other.get(name)) if other else (name, value) for name, value in values.items())
    said = "; ".join(f"{name} {number(value)} {unit}" for name, value in values.items())
    height = 10 + step * len(values)
    return Picture(title, said, svg_of(title, said, left + width + 190, height, "".join(parts)), Table(head, rows))


def _bar(x: float, y: float, width: float, paint: str, height: int = 19) -> str:
    return f'<rect x="{x:g}" y="{y:g}" width="{max(width, 1):.1f}" height="{height}" rx="3" {paint}/>'


_STAGES: tuple[tuple[str, str, str], ...] = (
    ("driver", "a buffer, no skb yet", "native XDP"),
    ("skb made", "allocated, filled in", ""),
    ("stack's entry", "first hook with skb", "generic XDP"),
    ("traffic control", "the device's ingress", "TC"),
    ("IPv4 input", "header checked", "nftables prerouting"),
    ("UDP", "socket looked up", "socket's full buffer"),
)


_HOOKS = tuple(stage[2] for stage in _STAGES if stage[2])


def receive_path(marks: Sequence[str] = _HOOKS) -> Picture:
    """The way of a received frame through the kernel, and where along it a packet can be dropped."""
    step, parts = 158, []
    for i, (name, what, hook) in enumerate(_STAGES):
        x = 4 + i * step
        parts.append(box_at(x, 8, step - 22, 50))
        parts.append(label_at(x + (step - 22) / 2, 30, name, "strong", "middle"))
        parts.append(label_at(x + (step - 22) / 2, 47, what, "soft small", "middle"))
        if i:
            parts.append(
                f'<path d="M{x - 20} 33h14m-5 -4l5 4l-5 4" fill="none" stroke="var(--lab-soft)" stroke-width="2"/>'
            )
        if hook in marks:
            middle = x + (step - 22) / 2
            parts.append(
                f'<path d="M{middle:g} 60v18m-4 -5l4 5l4 -5" fill="none" stroke="var(--lab-bad)" stroke-width="2"/>'
            )
            parts.append(label_at(middle, 95, hook, "", "middle"))
    title = "The way of a received frame, and where it can be dropped"
    said = "From left to right: " + ", ".join(f"{name} ({hook or 'no hook'})" for name, _, hook in _STAGES)
    rows = tuple((i + 1, name, what, hook or "–") for i, (name, what, hook) in enumerate(_STAGES))
    table = Table(("step", "where", "what happens", "a packet can be dropped by"), rows)
    return Picture(title, said, svg_of(title, said, 4 + step * len(_STAGES), 104, "".join(parts)), table, open=False)
