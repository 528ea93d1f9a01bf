"""Typed keys and values: between the bytes of a map and Python's ints, dicts and lists, by the program's own BTF."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from operator import index
from typing import Any

from labkit.errors import MapError
from labkit.kernel.btf import Btf, Kind

__all__ = ["Layout", "layout_of"]

_ORDER: Any = sys.byteorder


@dataclass(frozen=True)
class Layout:
    """How ``size`` bytes are read: an integer, a struct (dict), an array (list), or plain bytes where unknown.

    Integers are in the machine's byte order: what a program stored with ``bpf_ntohs`` reads as the plain number, what
    it stored in network order does not.
    """

    size: int
    kind: str  # "int", "struct", "array", "bytes"
    signed: bool = False
    fields: tuple[tuple[str, int, Layout], ...] = ()  # name, offset in bytes, layout
    element: Layout | None = None
    count: int = 0

    def unpack(self, data: bytes) -> Any:
        """The value in the first ``size`` bytes of ``data``."""
        if self.kind == "int":
            return int.from_bytes(data[: self.size], _ORDER, signed=self.signed)
        if self.kind == "struct":
            return {name: part.unpack(data[at : at + part.size]) for name, at, part in self.fields}
        if self.element is not None:
            step = self.element.size
            return [self.element.unpack(data[i * step : (i + 1) * step]) for i in range(self.count)]
        return data[: self.size]

    def pack(self, value: Any, what: str) -> bytes:
        """``size`` bytes that hold ``value``; ``what`` names it in errors. Raises MapError where it doesn't fit."""
        if isinstance(value, (bytes, bytearray)):
            if len(value) != self.size:
                raise self._refused(value, what)
            return bytes(value)
        try:
            return self._pack(value, what)
        except (OverflowError, TypeError, AttributeError, ValueError) as error:
            raise self._refused(value, what) from error

    def _pack(self, value: Any, what: str) -> bytes:
        if self.kind == "int":
            return index(value).to_bytes(self.size, _ORDER, signed=self.signed)
        if self.kind == "struct":
            out = bytearray(self.size)
            unknown = set(value) - {name for name, _, _ in self.fields}
            if unknown:
                raise ValueError(f"no field {sorted(unknown)[0]!r}")
            for name, at, part in self.fields:
                if name in value:
                    out[at : at + part.size] = part.pack(value[name], f"{what}, field {name}")
            return bytes(out)
        if self.element is not None and len(value) == self.count:
            return b"".join(self.element.pack(item, what) for item in value)
        raise ValueError("no type is known for it")

    def _refused(self, value: Any, what: str) -> MapError:
        return MapError(f"{value!r} does not fit {what}.", tried="to write a map", remedy=f"give {self.describe()}")

    def describe(self) -> str:
        """The layout in words."""
        if self.kind == "int":
            low, high = (
                (-(1 << (8 * self.size - 1)), (1 << (8 * self.size - 1)) - 1)
                if self.signed
                else (
                    0,
                    (1 << (8 * self.size)) - 1,
                )
            )
            return f"a whole number from {low} to {high}"
        if self.kind == "struct":
            return "a dict with " + ", ".join(name for name, _, _ in self.fields)
        if self.element is not None:
            return f"a list of {self.count}, each {self.element.describe()}"
        return f"exactly {self.size} bytes"


def layout_of(btf: Btf | None, type_id: int, size: int) -> Layout:
    """The layout of a BTF type; without one, an integer where ``size`` is 1, 2, 4 or 8 bytes, else plain bytes."""
    if btf is None or type_id == 0:
        return Layout(size, "int" if size in (1, 2, 4, 8) else "bytes")
    found = btf.resolve(type_id)
    if found.kind in (Kind.INT, Kind.ENUM, Kind.PTR):
        return Layout(btf.size(type_id), "int", signed=found.kind is Kind.INT and btf.signed(found))
    if found.kind is Kind.STRUCT:
        members = [m for m in btf.members(found) if not m.bit_size]
        fields = tuple((m.name, m.bit_offset // 8, layout_of(btf, m.type, btf.size(m.type))) for m in members)
        return Layout(found.size, "struct", fields=fields)
    if found.kind is Kind.ARRAY:
        element, count = btf.array(found)
        return Layout(btf.size(type_id), "array", element=layout_of(btf, element, btf.size(element)), count=count)
    return Layout(size, "bytes")
