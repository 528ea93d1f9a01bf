"""The panel as a still picture: what a saved notebook shows where no kernel answers."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any

__all__ = ["still_picture"]

_CARD, _GAP, _EDGE, _ROW = 170, 150, 12, 74
_COLOURS = {
    "pass": "#12805c",
    "drop": "#c02b3c",
    "redirect": "#0b62d6",
    "tx": "#7a3fc4",
    "abort": "#9a6700",
}


def still_picture(topology: Mapping[str, Any], frame: Mapping[str, Any]) -> str:
    """HTML of a frame's topology, programs and ledger, and a line on how to bring it to life."""
    name = escape(str(topology.get("name", "")))
    return (
        '<div style="max-width:980px">'
        f"<p><b>{name}</b> {escape(str(topology.get('title', '')))}: a still picture, the last one. "
        "No kernel answers for it: run this notebook's cells again to bring the panel to life.</p>"
        f"{_drawing(topology, frame)}{_table(frame.get('ledger') or {})}</div>"
    )


def _drawing(topology: Mapping[str, Any], frame: Mapping[str, Any]) -> str:
    places = _places(topology)
    width = max(x for x, _ in places.values()) + _CARD + _EDGE
    height = max(y for _, y in places.values()) + _ROW + 2 * _EDGE
    programs = {p["host"]: p for p in frame.get("programs", ())}
    parts = []
    for link in topology["links"]:
        (x1, y1), (x2, y2) = places[link["a"]["host"]], places[link["b"]["host"]]
        if x1 > x2:
            x1, y1, x2, y2 = x2, y2, x1, y1
        ends = f'x1="{x1 + _CARD}" y1="{y1 + _ROW // 2}" x2="{x2}" y2="{y2 + _ROW // 2}"'
        parts.append(f'<line {ends} stroke="#8593a4" stroke-width="2"/>')
    for host in topology["hosts"]:
        x, y = places[host["name"]]
        program = programs.get(host["name"])
        note = f"{program['name']}, {program['mode']} #{program['id']}" if program else ""
        parts.append(
            f'<rect x="{x}" y="{y}" width="{_CARD}" height="{_ROW}" rx="10" '
            'fill="#f6f8fa" stroke="#d5dbe3"/>'
            + _text(x + 14, y + 24, str(host["name"]), "700 14px sans-serif", "#1b1f24")
            + _text(x + 14, y + 42, str(host.get("address", "")), "12px sans-serif", "#57616e")
            + _text(x + 14, y + 60, note, "12px sans-serif", "#0b62d6")
        )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        'style="max-width:100%;height:auto" role="img" aria-label="Topology">'
        f"{''.join(parts)}</svg>"
    )


def _text(x: int, y: int, words: str, font: str, colour: str) -> str:
    shown = words if len(words) <= 24 else words[:23] + "…"
    return f'<text x="{x}" y="{y}" style="font:{font}" fill="{colour}">{escape(shown)}</text>'


def _places(topology: Mapping[str, Any]) -> dict[str, tuple[int, int]]:
    """Host → corner of its card: columns by the distance from the first host."""
    column: dict[str, int] = {}
    for start in (str(host["name"]) for host in topology["hosts"]):
        queue = [start] if start not in column else []
        column.setdefault(start, 0)
        while queue:
            name = queue.pop(0)
            for link in topology["links"]:
                ends = (link["a"]["host"], link["b"]["host"])
                for near, far in (ends, ends[::-1]):
                    if near == name and far not in column:
                        column[far] = column[name] + 1
                        queue.append(far)
    rows: dict[int, int] = {}
    places = {}
    for host in topology["hosts"]:
        at = column[host["name"]]
        row = rows.get(at, 0)
        rows[at] = row + 1
        places[host["name"]] = (_EDGE + at * (_CARD + _GAP), _EDGE + row * (_ROW + 16))
    return places


def _table(ledger: Mapping[str, Any]) -> str:
    rows = []
    for row in ledger.get("rows", ()):
        share = row.get("share")
        colour = _COLOURS.get(row.get("role", ""), "#8593a4")
        cells = (
            f'<td style="text-align:left"><span style="color:{colour}">■</span> '
            f"{escape(str(row['name']))}</td>"
            f'<td style="text-align:left">{escape(str(row.get("where", "")))}</td>'
            f'<td style="text-align:right">{row["packets"]:,}</td>'
            f'<td style="text-align:right">{_share(share)}</td>'
        )
        rows.append(f"<tr>{cells}</tr>")
    missing = ledger.get("unaccounted")
    if missing is not None:
        mark = "✓" if missing == 0 else "✗"
        rows.append(
            f'<tr><td style="text-align:left"><b>unaccounted {mark}</b></td><td></td>'
            f'<td style="text-align:right"><b>{missing:,}</b></td><td></td></tr>'
        )
    head = "".join(
        f'<th scope="col" style="text-align:{side}">{h}</th>'
        for h, side in (("what became of it", "left"), ("where", "left"), ("packets", "right"), ("share", "right"))
    )
    return (
        '<table style="font-variant-numeric:tabular-nums"><caption style="text-align:left">'
        "Ledger: every packet since reset</caption>"
        f"<thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"
    )


def _share(share: float | None) -> str:
    """Never nothing for something, and never all for nearly all."""
    if share is None:
        return ""
    if 0 < share < 0.0005:
        return "&lt; 0.1 %"
    if 0.9995 < share < 1:
        return "&gt; 99.9 %"
    return f"{share:.0%}".replace("%", " %") if share in (0, 1) else f"{share:.1%}".replace("%", " %")
