"""One field of a structure: where it is, and how its bytes are read and written."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from operator import index
from typing import Any, Literal

from labkit.errors import HintError

__all__ = ["Field", "FieldKind"]

_MACHINE: Any = sys.byteorder

FieldKind = Literal["int", "array", "bytes"]


@dataclass(frozen=True)
class Field:
    """One field: ``offset`` and ``size_bytes`` in bytes, from the structure's start.

    ``kind`` "int" is a whole number (``signed`` or not; enums, booleans and pointers too), "array" ``count`` of them,
    "bytes" anything else that has a size. ``network_order``: the most significant byte comes first (C: ``__be16``).
    """

    name: str
    offset: int
    size_bytes: int
    signed: bool = False
    kind: FieldKind = "int"
    count: int = 1
    network_order: bool = False

    @property
    def end(self) -> int:
        """Where the next field may begin."""
        return self.offset + self.size_bytes

    def read(self, data: bytes) -> int | list[int] | bytes:
        """The value within the whole structure's bytes."""
        mine = data[self.offset : self.end]
        if self.kind == "bytes":
            return mine
        step = self.size_bytes // self.count if self.count else 0
        found = [
            int.from_bytes(mine[i * step : (i + 1) * step], self._order, signed=self.signed) for i in range(self.count)
        ]
        return found[0] if self.kind == "int" else found

    def write(self, out: bytearray, value: Any) -> None:
        """Put ``value`` into the whole structure's bytes. Raises HintError where it doesn't fit."""
        try:
            packed = self._packed(value)
        except (OverflowError, TypeError, ValueError) as error:
            raise HintError(
                f"{value!r} does not fit the field {self.name}.",
                tried="to encode metadata",
                on=self.name,
                remedy=f"give {self.describe()}",
            ) from error
        out[self.offset : self.end] = packed

    def _packed(self, value: Any) -> bytes:
        if self.kind == "bytes" or isinstance(value, (bytes, bytearray)):
            if len(value) != self.size_bytes:
                raise ValueError("another length")
            return bytes(value)
        values = [value] if self.kind == "int" else list(value)
        if len(values) != self.count:
            raise ValueError("another number of values")
        step = self.size_bytes // self.count if self.count else 0
        return b"".join(index(each).to_bytes(step, self._order, signed=self.signed) for each in values)

    @property
    def _order(self) -> Any:
        return "big" if self.network_order else _MACHINE

    def describe(self) -> str:
        """What fits, in words."""
        if self.kind == "bytes":
            return f"exactly {self.size_bytes} bytes"
        bits = 8 * self.size_bytes // max(self.count, 1)
        low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if self.signed else (0, (1 << bits) - 1)
        number = f"a whole number from {low} to {high}"
        return number if self.kind == "int" else f"a list of {self.count}, each {number}"
