"""What the browser needs of a frame's buffer: the drawing, and what every byte is.

Pure: no kernel, no comm.
"""

from __future__ import annotations

from typing import Any

from labkit.lesson.frame_map import FrameMap
from labkit.lesson.frame_map_drawing import draw_frame
from labkit.lesson.frame_map_fields import fields_of, parts_of
from labkit.lesson.frame_map_strip import pieces_of
from labkit.observe.adjusting import Adjusted

__all__ = ["drawing_for", "table_for"]


def drawing_for(adjusted: Adjusted, width: int) -> dict[str, Any]:
    """Shapes as [tag, attributes, text, children], the axis, and for each strip its place, bytes, pieces and fields.

    Positions count bytes from the leftmost of the buffer, ``x`` and ``top`` in pixels.
    """
    drawing = draw_frame(adjusted, width)
    pieces = pieces_of(adjusted.findings, parts_of(adjusted.frame))
    return {
        "width": round(drawing.width),
        "height": round(drawing.height),
        "shapes": [each.json() for each in drawing.shapes],
        "axis": [[s.first, s.last, round(s.x, 1), round(s.width, 1), s.folded] for s in drawing.axis.stretches],
        "strips": [_strip(adjusted, pieces, *where) for where in drawing.strips],
        "fields": [[f.part, f.name, f.offset, f.length, f.value, f.meaning] for f in fields_of(adjusted.frame)],
        "start": adjusted.findings[0].data,
    }


def _strip(adjusted: Adjusted, pieces: list[Any], number: int, top: float, height: float) -> dict[str, Any]:
    found = adjusted.findings[number]
    return {
        "number": number,
        "top": round(top, 1),
        "height": round(height, 1),
        "memory": found.memory.hex(),
        "data": found.data,
        "data_meta": found.data_meta,
        "data_end": found.data_end,
        "end": found.end,
        "pieces": [[piece.name, piece.family, piece.first, piece.last] for piece in pieces[number]],
    }


def table_for(shown: FrameMap) -> dict[str, Any]:
    """The picture's table as head and rows of text."""
    rows = [["–" if cell is None else str(cell) for cell in row] for row in shown.table.rows]
    return {"head": list(shown.table.head), "rows": rows, "notes": list(shown.notes)}
