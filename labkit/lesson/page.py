"""Pieces of a page that also read as plain text: tables, and the colours of light and dark themes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

__all__ = ["STYLE", "Table", "block", "number"]

# Our own colours, as the themes' are too faint for small text: each has a contrast of 4.5 to 1 or better on its theme's
# surfaces. JupyterLab's theme decides, else the browser's; nothing is said by colour alone.
_LIGHT = (
    "--lab-line:#d5dbe3;--lab-soft:#57616e;--lab-card:#f3f5f8;--lab-accent:#0b62d6;"
    "--lab-good:#0f7553;--lab-bad:#c02b3c;color-scheme:light"
)
_DARK = (
    "--lab-line:#3d4854;--lab-soft:#a9b4c0;--lab-card:#1d232a;--lab-accent:#6aa8ff;"
    "--lab-good:#43c59e;--lab-bad:#ff7b86;color-scheme:dark"
)
STYLE = f"""<style>
.lab-page{{{_LIGHT}}}
body[data-jp-theme-light="false"] .lab-page{{{_DARK}}}
@media (prefers-color-scheme:dark){{body:not([data-jp-theme-light]) .lab-page{{{_DARK}}}}}
.lab-page{{color:var(--jp-ui-font-color1,CanvasText);font:13px/1.45 var(--jp-ui-font-family,system-ui,sans-serif);
 font-variant-numeric:tabular-nums;max-width:64rem;padding:4px 5px}}
.lab-page table{{border-collapse:collapse;margin:.4em 0;font-size:13px}}
.lab-page caption{{text-align:left;color:var(--lab-soft);padding:.2em 0;caption-side:top}}
.lab-page th,.lab-page td{{text-align:left!important;padding:.2em .9em .2em .2em;border-bottom:1px solid var(--lab-line);
 vertical-align:top;background:none;max-width:34em;white-space:normal;overflow-wrap:break-word}}
.lab-page .n{{text-align:right!important;white-space:nowrap}}
.lab-page .good{{color:var(--lab-good)}}.lab-page .bad{{color:var(--lab-bad);font-weight:600}}
.lab-page .soft{{color:var(--lab-soft)}}
.lab-page pre{{margin:.4em 0;padding:.6em .8em;background:var(--lab-card);overflow-x:auto;
 font:12.5px/1.5 var(--jp-code-font-family,monospace);color:inherit}}
.lab-page pre.words{{white-space:pre-wrap;overflow-wrap:anywhere}}
.lab-page svg{{max-width:100%;height:auto;display:block}}
.lab-page svg text{{fill:currentColor;font:12px var(--jp-ui-font-family,system-ui,sans-serif)}}
.lab-page svg .soft{{fill:var(--lab-soft)}}.lab-page svg .strong{{font-weight:700}}
.lab-page svg .small{{font-size:11px}}
.lab-page summary{{cursor:pointer}}
</style>"""
_LIKE_A_NUMBER = re.compile(r"[<>]? ?\d[\d.,]*( ?%)?$")


def block(inner: str) -> str:
    """``inner`` (HTML) in the lesson's frame, with its style."""
    return f'{STYLE}<div class="lab-page">{inner}</div>'


def number(value: float) -> str:
    """A number for people: whole ones with thousands marks, others to three figures."""
    if float(value).is_integer():
        return f"{int(value):,}"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


@dataclass(frozen=True)
class Table:
    """A small table. ``rows`` hold text or numbers; columns of numbers, "14 %" among them, are set to the right.

    ``marks`` names a CSS class ("good", "bad") for cells by (row, column).
    """

    head: tuple[str, ...]
    rows: tuple[tuple[object, ...], ...]
    caption: str = ""
    marks: tuple[tuple[int, int, str], ...] = ()

    def _text(self, value: object) -> str:
        if value is None:
            return "–"
        return number(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else str(value)

    def _numeric(self, column: int) -> bool:
        values = [row[column] for row in self.rows if row[column] is not None]
        return bool(values) and all(isinstance(v, (int, float)) or _LIKE_A_NUMBER.match(str(v)) for v in values)

    def __str__(self) -> str:
        cells = [list(self.head), *([self._text(v) for v in row] for row in self.rows)]
        widths = [max(len(row[i]) for row in cells) for i in range(len(self.head))]
        right = [self._numeric(i) for i in range(len(self.head))]
        lines = [self.caption] if self.caption else []
        for row in cells:
            lines.append("  ".join(_pad(*each) for each in zip(row, widths, right, strict=True)).rstrip())
        lines.insert(len(lines) - len(self.rows), "  ".join("─" * width for width in widths))
        return "\n".join(lines)

    __repr__ = __str__

    def html(self) -> str:
        """The table alone, without the frame."""
        marks = {(row, column): name for row, column, name in self.marks}
        right = [self._numeric(i) for i in range(len(self.head))]
        heads = "".join(
            f'<th scope="col"{_classes("n" if r else "")}>{escape(h)}</th>'
            for h, r in zip(self.head, right, strict=True)
        )
        body = "".join(f"<tr>{self._row(i, row, right, marks)}</tr>" for i, row in enumerate(self.rows))
        caption = f"<caption>{escape(self.caption)}</caption>" if self.caption else ""
        return f"<table>{caption}<thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>"

    def _row(self, index: int, row: Sequence[object], right: Sequence[bool], marks: dict[tuple[int, int], str]) -> str:
        return "".join(
            f"<td{_classes('n' if right[i] else '', marks.get((index, i), ''))}>{escape(self._text(value))}</td>"
            for i, value in enumerate(row)
        )

    def _repr_html_(self) -> str:
        return block(self.html())


def _classes(*names: str) -> str:
    kept = " ".join(name for name in names if name)
    return f' class="{kept}"' if kept else ""


def _pad(text: str, width: int, right: bool) -> str:
    return text.rjust(width) if right else text.ljust(width)
