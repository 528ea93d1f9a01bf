"""One strip of the picture of a frame: the buffer as it is after one step, with its pointers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from labkit.lesson.frame_map_axis import Axis
from labkit.lesson.frame_map_fields import Field, Part
from labkit.lesson.frame_map_shape import Shape, label, line, rect, shape
from labkit.observe.adjusting import Finding

__all__ = ["BAR_PX", "FLAGS_PX", "KERNEL_PX", "STRIP_PX", "Piece", "draw_strip", "pieces_of"]

FLAGS_PX, BAR_PX, _FEET = 33, 30, 20
STRIP_PX = FLAGS_PX + BAR_PX + _FEET
KERNEL_PX = 46
_CHARACTER_PX = 6.1  # of small text, on the average
_PAIR_PX, _STACK_PX = 14.5, 7.4  # width of a byte from which its two digits go side by side, or one over the other
_META_PX, _START_PX = 66.0, 100.0  # of "data_meta" and "data_hard_start" with a gap
_MOVED = {"meta": "data_meta", "head": "data", "tail": "data_end"}
_SHORT = {"metadata": "meta", "Ethernet": "Eth", "VLAN tag": "VLAN", "payload": "data"}


@dataclass(frozen=True)
class Piece:
    """A run of bytes of one kind, ``first`` to before ``last`` in the buffer; ``of`` is where its part of the frame begins."""

    name: str
    family: str
    first: int
    last: int

    @property
    def length(self) -> int:
        """In bytes."""
        return self.last - self.first


def pieces_of(findings: Sequence[Finding], parts: Sequence[Part]) -> list[list[Piece]]:
    """For each finding the buffer cut into pieces. What left the frame once and comes back is no header any more."""
    start, low, high = findings[0].data, findings[0].data, findings[0].data_end
    found = []
    for each in findings:
        low, high = min(max(low, each.data), high), max(min(high, each.data_end), low)
        cut = [Piece("headroom", "room", 0, each.data_meta), Piece("metadata", "meta", each.data_meta, each.data)]
        cut.append(Piece("new", "new", each.data, min(low, each.data_end)))  # a tail may be cut as far as that
        for part in parts:
            first, last = max(start + part.offset, low), min(start + part.end, high)
            cut.append(Piece(part.name, part.family, first, last))
        cut.append(Piece("new", "new", max(high, each.data), each.data_end))
        cut.append(Piece("tailroom", "room", each.data_end, each.end))
        found.append([piece for piece in cut if piece.length > 0])
    return found


def draw_strip(
    axis: Axis,
    top: float,
    finding: Finding,
    before: Finding | None,
    pieces: Sequence[Piece],
    fields: Sequence[Field],
    start: int,
    paint: str,
) -> Iterator[Shape]:
    """The strip with its upper edge at ``top``; ``start`` is where the frame began, ``paint`` the id of the hatching."""
    bar = top + FLAGS_PX
    yield from _kernel(axis, bar)
    for piece in pieces:
        yield from _piece(axis, bar, piece, paint)
    yield from _borders(axis, bar, finding, fields, start)
    yield from _digits(axis, bar, finding)
    yield from _breaks(axis, bar, finding)
    yield rect(axis.left, bar, axis.right - axis.left, BAR_PX, "fm-outline")
    yield from _feet(axis, bar + BAR_PX + 14, pieces)
    yield from _flags(axis, top, bar, finding, before)


def _kernel(axis: Axis, bar: float) -> Iterator[Shape]:
    for x in (axis.left - KERNEL_PX, axis.right):
        yield rect(x, bar, KERNEL_PX, BAR_PX, "fm-kernel")
        yield label(x + KERNEL_PX / 2, bar + 19, "kernel", "fm-small", "middle")


def _piece(axis: Axis, bar: float, piece: Piece, paint: str) -> Iterator[Shape]:
    x, end = axis.x(piece.first), axis.x(piece.last)
    yield rect(x, bar, end - x, BAR_PX, f"fm-{piece.family}")
    if piece.family in ("room", "new"):
        yield rect(x, bar, end - x, BAR_PX, "fm-hatch", fill=f"url(#{paint}-{piece.family})")


def _borders(axis: Axis, bar: float, finding: Finding, fields: Sequence[Field], start: int) -> Iterator[Shape]:
    """A tick between bytes, a line between fields, a strong line at the pointers."""
    ticks = "".join(
        f"M{axis.x(at):.1f} {bar + BAR_PX - 4:.1f}v4"
        for each in axis.stretches
        if not each.folded
        for at in range(each.first + 1, each.last)
    )
    yield line(ticks or "M0 0", "fm-tick")
    ends = {start + edge for each in fields for edge in (each.offset, each.offset + each.length)}
    way = "".join(
        f"M{axis.x(at):.1f} {bar:.1f}v{BAR_PX}"
        for at in sorted(ends)
        if finding.data <= at <= finding.data_end and any(a <= at <= b for a, b in axis.shown(at - 1, at + 1))
    )
    yield line(way or "M0 0", "fm-field")
    yield line(
        "".join(f"M{axis.x(at):.1f} {bar:.1f}v{BAR_PX}" for at in (finding.data_meta, finding.data, finding.data_end)),
        "fm-edge",
    )


def _digits(axis: Axis, bar: float, finding: Finding) -> Iterator[Shape]:
    """Two digits a byte, of all that is shown and was copied: side by side, or where it is narrow one over the other."""
    if axis.scale < _STACK_PX:
        return
    paired = axis.scale >= _PAIR_PX
    known = min(len(finding.memory), finding.end)
    for name, first, last in (
        ("fm-hex fm-faint", 0, finding.data_meta),
        ("fm-hex", finding.data_meta, finding.data_end),
        ("fm-hex fm-faint", finding.data_end, finding.end),
    ):
        for low, high in axis.shown(first, min(last, known)):
            content = finding.memory[low:high]
            middles = [axis.x(at) + axis.scale / 2 for at in range(low, high)]
            if paired:
                at = " ".join(f"{x - 6:.1f} {x:.1f}" for x in middles)
                yield shape("text", content.hex(), x=at, y=bar + 19, kind=name)
            else:
                at = " ".join(f"{x - 3:.1f}" for x in middles)
                for row, digits in enumerate((content.hex()[::2], content.hex()[1::2])):
                    yield shape("text", digits, x=at, y=bar + 13 + 12 * row, kind=name)


def _breaks(axis: Axis, bar: float, finding: Finding) -> Iterator[Shape]:
    """Where bytes are folded away: a gap between zigzag edges, with their number."""
    for each in axis.stretches:
        if not each.folded:
            continue
        x, width = each.x + 4, each.width - 8
        step, edge = BAR_PX / 6, 3
        down = "".join(f"l{edge if i % 2 == 0 else -edge} {step:g}" for i in range(6))
        up = "".join(f"l{edge if i % 2 == 0 else -edge} {-step:g}" for i in range(6))
        yield line(f"M{x:.1f} {bar:.1f}{down}h{width:.1f}{up}z", "fm-gap")
        yield line(f"M{x:.1f} {bar:.1f}{down}M{x + width:.1f} {bar:.1f}{down}", "fm-zigzag")
        yield label(each.x + each.width / 2 + 1, bar + 19, f"{each.last - each.first:,}", "fm-small", "middle")


def _feet(axis: Axis, y: float, pieces: Sequence[Piece]) -> Iterator[Shape]:
    """The name and length of each piece under it, as far as there is room."""
    for piece in pieces:
        x, end = axis.x(piece.first), axis.x(piece.last)
        short = _SHORT.get(piece.name, piece.name)
        for words in (f"{piece.name} {piece.length:,} B", f"{short} {piece.length:,} B", short, f"{piece.length}"):
            if len(words) * _CHARACTER_PX <= end - x + 4:
                yield label(
                    (x + end) / 2, y, words, "fm-foot" if piece.family != "room" else "fm-foot fm-soft", "middle"
                )
                break


def _flags(axis: Axis, top: float, bar: float, now: Finding, before: Finding | None) -> Iterator[Shape]:
    """The pointers above the bar; an arrow shows where the one that was moved came from."""
    y, data, meta = top + 11, axis.x(now.data), axis.x(now.data_meta)
    in_front = not now.meta_bytes or data - meta > _META_PX  # there is room for both names, each behind its stem
    space = meta - axis.left + KERNEL_PX - (0 if in_front else _META_PX)
    yield from _flag(axis.left - KERNEL_PX, y, bar, "data_hard_start" * (space > _START_PX), "start", " fm-soft")
    yield from _flag(data, y, bar, "data" if now.meta_bytes else "data_meta = data", "start")
    yield from _flag(axis.x(now.data_end), y, bar, "data_end", "end")
    if now.meta_bytes:
        yield from _flag(meta, y, bar, "data_meta", "start" if in_front else "end")
    name = _MOVED.get(now.step.kind) if now.step is not None else None
    if before is not None and name is not None:
        yield from _arrow(axis.x(getattr(before, name)), axis.x(getattr(now, name)), bar - 15)


def _flag(x: float, y: float, bar: float, name: str, anchor: str, more: str = "") -> Iterator[Shape]:
    yield line(f"M{x:.1f} {bar:.1f}v-11M{x - 3.5:.1f} {bar - 6:.1f}h7l-3.5 6z", "fm-stem" + more)
    yield label(x + (4 if anchor == "end" else -4), y, name, "fm-flag" + more, anchor)


def _arrow(old: float, new: float, y: float) -> Iterator[Shape]:
    if old == new:
        return
    way = 4 if new > old else -4
    yield line(f"M{old:.1f} {y:.1f}H{new:.1f}m{-way} -3l{way} 3l{-way} 3", "fm-move")
