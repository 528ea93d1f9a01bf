"""Formats of metadata drawn byte by byte, as they end where the packet starts: what is older is further right."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from labkit.compile import compile_source
from labkit.compile.source import lesson_directory
from labkit.errors import HintError
from labkit.hints import GENERIC_BYTES, ID_BYTES, Captured, Decoded, Field, Formats, Layout, read
from labkit.kernel.btf import Btf
from labkit.lesson.frame_map_shape import Shape, label, line, rect, shape
from labkit.lesson.frame_map_style import FRAME_MAP_CSS
from labkit.lesson.page import Table
from labkit.lesson.pictures import Picture, svg_of

__all__ = ["Strip", "captured_formats", "draw_strips", "standard_formats"]

_BYTE, _BAR, _BAND, _LEFT, _PACKET, _TOP = 17, 30, 52, 118, 104, 8
_FOOT = 62
_LETTER = 6.0  # px, on the average
_STANDARD = ("meta_generic", "meta_flow", "meta_latency")


@dataclass(frozen=True)
class Strip:
    """One row: a title, a layout, and the bytes where a packet brought some."""

    title: str
    layout: Layout
    content: bytes = b""

    @property
    def own_bytes(self) -> int:
        """Bytes of the format's own fields, left of the generic ones."""
        return self.layout.generic_at or 0

    def value(self, each: Field) -> object:
        """The field's value in these bytes; a check mark where there are none."""
        if not self.content:
            return "✓"
        found = self.layout.decode(self.content)[each.name]
        return found if isinstance(found, int) else str(found)


def standard_formats() -> Picture:
    """The three formats of bpf/common/meta.h, from the type information that the compiler made of them."""
    btf = Btf(compile_source(path=lesson_directory() / "lab" / "meta_formats.c").btf)
    strips = [Strip(name, Layout.from_btf(btf, name)) for name in _STANDARD]
    return draw_strips(strips, "Three formats, each ending where the packet starts: they grow to the left")


def captured_formats(captured: Sequence[Captured], formats: Formats) -> Picture:
    """The metadata of packets that a consumer saw, one row a format, with its bytes. Raises HintError where none is known."""
    found: dict[str, Strip] = {}
    for each in captured:
        said = read(each, formats)
        if isinstance(said, Decoded):
            content = each.meta[-said.format.size_bytes :]
            found.setdefault(said.format.name, Strip(said.format.name, said.format.layout, content))
    if not found:
        raise HintError(
            "None of these packets has a known format.", tried="to draw metadata", remedy="choose a format first"
        )
    strips = sorted(found.values(), key=lambda strip: strip.layout.size_bytes)
    return draw_strips(strips, "Metadata as a consumer saw it, one packet of each format")


def draw_strips(strips: Sequence[Strip], title: str) -> Picture:
    """The strips under one another, their right edges in line."""
    longest = max(strip.layout.size_bytes for strip in strips)
    edge = _LEFT + longest * _BYTE
    shapes = list(_rows(strips, edge))
    bottom = _TOP + len(strips) * (_BAND + _BAR)
    shapes += _feet(edge, bottom, sorted({strip.layout.size_bytes for strip in strips} | {GENERIC_BYTES, ID_BYTES}))
    said = ". ".join(_said(strip) for strip in strips)
    text = svg_of(title, said, edge + _PACKET, bottom + _FOOT, "".join(each.svg() for each in shapes))
    style = f"<style>{FRAME_MAP_CSS}</style>"
    return Picture(title, said, style + text.replace("<svg ", '<svg class="fm-art" ', 1), _table(strips), open=False)


def _said(strip: Strip) -> str:
    fields = ", ".join(f"{each.name} ({each.size_bytes})" for each in strip.layout.fields)
    return f"{strip.title}, {strip.layout.size_bytes} bytes, from left to right: {fields}; then the packet"


def _rows(strips: Sequence[Strip], edge: int) -> Iterator[Shape]:
    for number, strip in enumerate(strips):
        top = _TOP + number * (_BAND + _BAR) + _BAND
        start = edge - strip.layout.size_bytes * _BYTE
        yield label(_LEFT - 112, top + 14, strip.title, "fm-title")
        yield label(_LEFT - 112, top + 28, f"{strip.layout.size_bytes} bytes", "fm-small")
        for name, first, last in (
            ("fm-transport", 0, strip.own_bytes),
            ("fm-meta", strip.own_bytes, strip.layout.size_bytes - ID_BYTES),
            ("fm-link", strip.layout.size_bytes - ID_BYTES, strip.layout.size_bytes),
        ):
            yield rect(start + first * _BYTE, top, (last - first) * _BYTE, _BAR, name)
        yield from _fields(strip, start, top, named=number == 0)
        yield rect(start, top, strip.layout.size_bytes * _BYTE, _BAR, "fm-outline")
        yield from _packet(edge, top)


def _fields(strip: Strip, start: float, top: float, *, named: bool) -> Iterator[Shape]:
    """Borders, bytes, and names: of the format's own fields in every row, of the common ones above the first."""
    borders, ticks = "", ""
    for each in strip.layout.fields:
        x = start + each.offset * _BYTE
        borders += f"M{x:g} {top}v{_BAR}"
        ticks += "".join(f"M{x + i * _BYTE:g} {top + _BAR - 4}v4" for i in range(1, each.size_bytes))
        if named or each.offset < strip.own_bytes:
            yield _name(each.name, x, each.size_bytes * _BYTE, top)
    yield line(ticks or "M0 0", "fm-tick")
    yield line(borders or "M0 0", "fm-field")
    if strip.content:
        middles = [start + i * _BYTE + _BYTE / 2 for i in range(len(strip.content))]
        at = " ".join(f"{x - 6:.1f} {x:.1f}" for x in middles)
        yield shape("text", strip.content.hex(), x=at, y=top + 19, kind="fm-hex")


def _name(name: str, x: float, width: float, top: float) -> Shape:
    """Above its field: level where it fits, else slanting away to the right."""
    middle = x + width / 2
    if len(name) * _LETTER <= width:
        return label(middle, top - 5, name, "fm-foot", "middle")
    return shape("text", name, x=middle, y=top - 4, kind="fm-foot", transform=f"rotate(-50 {middle:g} {top - 4:g})")


def _packet(edge: float, top: float) -> Iterator[Shape]:
    yield rect(edge, top, _PACKET - 14, _BAR, "fm-payload")
    yield line(f"M{edge:g} {top - 6:g}v{_BAR + 6}", "fm-edge")
    yield label(edge + 10, top + 19, "the packet …", "fm-foot")


def _feet(edge: float, bottom: float, marks: Sequence[int]) -> Iterator[Shape]:
    """How many bytes before the packet, and what the parts are."""
    for before in (0, *marks):
        x = edge - before * _BYTE
        yield line(f"M{x:g} {bottom}v6", "fm-edge")
        yield label(x, bottom + 19, f"−{before}" if before else "0", "fm-small", "middle")
    yield label(edge + 12, bottom + 19, "bytes", "fm-small")
    y = bottom + 34
    parts = (
        (edge - ID_BYTES * _BYTE, edge, "ids and magic"),
        (edge - GENERIC_BYTES * _BYTE, edge - ID_BYTES * _BYTE, "generic fields: the same in every format"),
        (_LEFT, edge - GENERIC_BYTES * _BYTE, "a format's own fields"),
    )
    for left, right, words in parts:
        if right - left > 20:
            yield line(f"M{left + 2:g} {y}v5h{right - left - 4:g}v-5", "fm-field")
            yield label((left + right) / 2, y + 19, words, "fm-foot", "middle")


def _table(strips: Sequence[Strip]) -> Table:
    """A row for each place and field, from left to right."""
    places = {
        (strip.layout.before(each.name), each.name, each.size_bytes) for strip in strips for each in strip.layout.fields
    }
    rows = []
    for before, name, size in sorted(places, reverse=True):
        part = "ids, magic" if before <= ID_BYTES else "generic" if before <= GENERIC_BYTES else "own"
        rows.append((before, name, size, part, *(_cell(strip, before, name) for strip in strips)))
    head = ("bytes before the packet", "field", "size", "part", *(strip.title for strip in strips))
    return Table(head, tuple(rows), "From left to right in the picture")


def _cell(strip: Strip, before: int, name: str) -> object:
    has = name in strip.layout and strip.layout.before(name) == before
    return strip.value(strip.layout[name]) if has else None
