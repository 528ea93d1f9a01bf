"""A frame: bytes that can say what they are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from labkit.traffic.quiet_scapy import scapy

__all__ = ["ETHERNET_HEADER", "Frame", "FrameField"]

ETHERNET_HEADER = 14  # bytes: ETH_HLEN, include/uapi/linux/if_ether.h
_NO_HEADERS = ("Raw", "Padding", "NoPayload")  # scapy's names for what follows the last header
_SHOWN = 128  # bytes that a frame's text shows


@dataclass(frozen=True)
class FrameField:
    """One field of a header: ``layer`` and ``name`` as scapy calls them, ``value`` as people write it.

    ``offset`` counts bytes from the start of the frame; ``length`` in bytes, those that a field of a few bits touches.
    """

    layer: str
    name: str
    value: str
    offset: int
    length: int


class Frame(bytes):
    """An Ethernet frame without its checksum (FCS), usable wherever bytes are: ``summary()``, ``fields()``, ``hexdump()``."""

    def summary(self) -> str:
        """One line: the layers and who speaks to whom."""
        return str(self._layers().summary())

    def fields(self) -> list[FrameField]:
        """Every field of every header in order, with its place in the frame; the payload is left out."""
        found: list[FrameField] = []
        layer, start = self._layers(), 0
        while layer.name not in _NO_HEADERS:
            built: Any = b""  # bytes so far; (bytes, bits, value) in the middle of a byte: scapy.fields.BitField
            for each in layer.fields_desc:
                value = layer.getfieldval(each.name)
                begin = _whole_bytes(built)
                built = each.addfield(layer, built, value)
                end = _whole_bytes(built) + isinstance(built, tuple)
                if end > begin and start + end <= len(self):  # scapy makes up what a short frame lacks
                    # scapy writes ports by the names of /etc/services: 10000 would be "webmin".
                    text = str(value if each.name in ("sport", "dport") else each.i2repr(layer, value))
                    found.append(FrameField(layer.name, each.name, text, start + begin, end - begin))
            start += _whole_bytes(built)
            layer = layer.payload
        return found

    def _layers(self) -> Any:
        """scapy's view; what is shorter than an Ethernet header has no layers."""
        make = scapy().Ether if len(self) >= ETHERNET_HEADER else scapy().Raw
        return make(bytes(self))

    def hexdump(self, most: int = _SHOWN) -> str:
        """Offset, sixteen bytes, the same as text, a line each; at most ``most`` bytes."""
        lines = []
        for at in range(0, min(len(self), most), 16):
            row = bytes(self[at : min(at + 16, most)])
            text = "".join(chr(byte) if 32 <= byte < 127 else "·" for byte in row)
            lines.append(f"{at:04x}  {row[:8].hex(' '):<23}  {row[8:].hex(' '):<23}  {text}")
        if len(self) > most:
            lines.append(f"      … {len(self) - most:,} more bytes")
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"<frame, {len(self)} bytes: {self.summary()}>"

    def __str__(self) -> str:
        return f"{len(self)} bytes: {self.summary()}\n{self.hexdump()}"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """What a notebook shows: the bytes too where the frame stands alone, a line where it is one of a list."""
        printer.text(repr(self) if printer.indentation else str(self))


def _whole_bytes(built: Any) -> int:
    return len(built[0]) if isinstance(built, tuple) else len(built)
