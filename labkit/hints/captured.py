"""One packet as a consumer saw it: the bytes before it, and its first ones."""

from __future__ import annotations

from dataclasses import dataclass
from struct import Struct
from typing import Any

from labkit.hints.table import table
from labkit.traffic.frame import Frame

__all__ = ["Captured"]

_HEAD = Struct("=QIIHH")  # struct captured, bpf/lab/capture_meta.c: time, CPU, length, bytes of both parts
_META_ROOM, _FRAME_ROOM, _NO_METADATA = 252, 256, 0xFFFF
_ROW = 16


@dataclass(frozen=True)
class Captured:
    """``where`` it was seen; ``meta``: the metadata, which ends where the packet starts; ``frame``: its first 256 bytes.

    ``length_bytes`` is the whole packet's, ``time_ns`` by the monotonic clock. ``has_room``: whether the driver keeps room
    for metadata there at all.
    """

    where: str
    meta: bytes
    frame: Frame
    length_bytes: int
    time_ns: int = 0
    cpu: int = 0
    has_room: bool = True

    @classmethod
    def from_record(cls, where: str, record: bytes) -> Captured:
        """From a line of the ring buffer."""
        time_ns, cpu, length, meta, frame = _HEAD.unpack_from(record)
        start = _HEAD.size + _META_ROOM
        has_room = meta != _NO_METADATA
        return cls(
            where,
            record[_HEAD.size : _HEAD.size + (meta if has_room else 0)],
            Frame(record[start : start + frame]),
            length,
            time_ns,
            cpu,
            has_room,
        )

    def _rows(self) -> list[tuple[str, str]]:
        meta = f"{len(self.meta)} bytes" if self.has_room else "this driver keeps no room for it"
        rows = [("seen", f"{self.where}, on CPU {self.cpu}"), ("metadata", meta)]
        # Counted from the packet's start, as what is further left may be anything.
        for at in range(len(self.meta) - len(self.meta) % _ROW, -1, -_ROW):
            part = self.meta[max(0, len(self.meta) - at - _ROW) : len(self.meta) - at]
            if part:
                rows.append((f"−{at + len(part)}", part.hex(" ")))
        shown = "" if len(self.frame) == self.length_bytes else f", the first {len(self.frame)} of them here"
        rows.append(("packet", f"{self.length_bytes:,} bytes{shown}"))
        return rows

    def __repr__(self) -> str:
        return f"<captured {self.where}: {len(self.meta)} bytes of metadata, a packet of {self.length_bytes:,} bytes>"

    def __str__(self) -> str:
        return "\n".join(f"{name:>8}  {text}" for name, text in self._rows())

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """What a notebook shows as text: the bytes where it stands alone, a line where it is one of a list."""
        printer.text(repr(self) if printer.indentation else str(self))

    def _repr_html_(self) -> str:
        return table("A packet, as it was seen", self._rows(), code=True)
