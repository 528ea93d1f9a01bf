"""The last moment of a map as a table, for a page that no kernel answers."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any

__all__ = ["map_picture"]


def map_picture(state: Mapping[str, Any]) -> str:
    """HTML of what a browser shows: the map's line and its rows."""
    if not state or state.get("map") is None:
        return "<p>There is no map here yet.</p>"
    name = next((label for ident, label in state["maps"] if ident == state["map"]), "")
    line = " · ".join(f"{escape(what)} {escape(value)}" for what, value in state["facts"])
    head = "".join(f"<th>{escape(column['name'])}</th>" for column in state["columns"])
    rows = "".join(f"<tr>{_cells(row)}</tr>" for row in state["rows"])
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>" if state["readable"] else ""
    return f"<p><b>{escape(name)}</b><br>{line}</p>{table}<p>{escape(state['span'] if table else state['about'])}</p>"


def _cells(row: Mapping[str, Any]) -> str:
    lines = [[_line(*line) for line in cell] for cell in row["cells"]]
    return "".join(f"<td>{'<br>'.join(each)}</td>" for each in [*lines, [escape(word) for word in row["change"]]])


def _line(text: str, beside: str) -> str:
    return escape(f"{text} ({beside})" if beside else text)
