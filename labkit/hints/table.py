"""A small table as HTML: a heading for each row, text to the left, in the page's own colours."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

__all__ = ["table"]

_LEFT = "text-align:left;white-space:nowrap"


def table(caption: str, rows: Iterable[Sequence[str]], head: Sequence[str] = (), code: bool = False) -> str:
    """``rows`` of texts, the first of each its heading; ``code`` sets the others in the font of code."""
    font = ";font-family:var(--jp-code-font-family,monospace)" if code else ""
    columns = "".join(f'<th scope="col" style="{_LEFT}">{escape(each)}</th>' for each in head)
    body = "".join(
        f'<tr><th scope="row" style="{_LEFT}">{escape(first)}</th>'
        + "".join(f'<td style="text-align:left{font}">{escape(each)}</td>' for each in rest)
        + "</tr>"
        for first, *rest in rows
    )
    return (
        f'<table style="font-variant-numeric:tabular-nums"><caption style="{_LEFT}">{escape(caption)}</caption>'
        + (f"<thead><tr>{columns}</tr></thead>" if head else "")
        + f"<tbody>{body}</tbody></table>"
    )
