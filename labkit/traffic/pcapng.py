"""Capture files as Wireshark writes them: pcapng, draft-ietf-opsawg-pcapng.

A file is a row of blocks: type, length, body, length again. Sections begin with a block that tells the byte order;
interfaces are described before the packets that were captured on them.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from labkit.traffic.pcap_file import CapturedPacket, CaptureFile

__all__ = ["SECTION", "pcapng_packets"]

SECTION = b"\x0a\x0d\x0d\x0a"  # type of a section header block, the same in both byte orders
_INTERFACE, _OLD_PACKET, _SIMPLE, _ENHANCED = 1, 2, 3, 6  # block types
_BYTE_ORDER = 0x1A2B3C4D
_IF_TSRESOL = 9  # option of an interface: the unit of its times
_LONGEST_BLOCK = 1 << 24  # bytes
_DAMAGED = "copy the file again from where it came"


@dataclass(frozen=True)
class _Origin:
    """An interface of the file: the kind of its links, bytes kept of a packet (0: all), ticks in a second."""

    link_type: int
    snapshot: int
    ticks: int


def pcapng_packets(source: CaptureFile) -> Iterator[CapturedPacket]:
    """The packets of a file whose first four bytes are read already."""
    kind: bytes | None = SECTION
    order, origins = "<", list[_Origin]()
    while kind is not None:
        if kind == SECTION:
            order, origins = _section(source), []
        else:
            number = struct.unpack(order + "I", kind)[0]
            body = _body(source, order, number)
            if number == _INTERFACE:
                origins.append(_origin(source, order, body))
            elif number in (_OLD_PACKET, _SIMPLE, _ENHANCED):
                yield _packet(source, order, number, body, origins)
        kind = source.take_or_end(4, "the block of packet")


def _section(source: CaptureFile) -> str:
    """Read a section's header; the byte order of what follows."""
    head = source.take(8, "the section's header")
    for order in ("<", ">"):
        length, magic = struct.unpack(order + "II", head)
        if magic == _BYTE_ORDER and 28 <= length <= _LONGEST_BLOCK:
            source.take(length - 12, "the section's header")
            return order
    raise source.error("its section header is damaged", _DAMAGED)


def _body(source: CaptureFile, order: str, kind: int) -> bytes:
    """The rest of a block: its length, its body, its length again."""
    here = f"packet {source.packets + 1}"
    what = here if kind in (_OLD_PACKET, _SIMPLE, _ENHANCED) else f"a block before {here}"
    (length,) = struct.unpack(order + "I", source.take(4, what))
    if not 12 <= length <= _LONGEST_BLOCK or length % 4:
        raise source.error(f"{what} is damaged", _DAMAGED)
    rest = source.take(length - 8, what)
    if struct.unpack(order + "I", rest[-4:])[0] != length:
        raise source.error(f"{what} is damaged", _DAMAGED)
    return rest[:-4]


def _origin(source: CaptureFile, order: str, body: bytes) -> _Origin:
    if len(body) < 8:
        raise source.error("the description of an interface is damaged", _DAMAGED)
    link_type, snapshot = struct.unpack_from(order + "HxxI", body)
    ticks, at = 1_000_000, 8
    while at + 4 <= len(body):
        code, size = struct.unpack_from(order + "HH", body, at)
        if code == _IF_TSRESOL and size == 1 and at + 4 < len(body):
            power = body[at + 4]
            ticks = 2 ** (power & 0x7F) if power & 0x80 else 10**power
        at += 4 + (size + 3 & ~3)
    return _Origin(link_type, snapshot, ticks)


def _packet(source: CaptureFile, order: str, kind: int, body: bytes, origins: list[_Origin]) -> CapturedPacket:
    index = high = low = 0
    try:
        if kind == _ENHANCED:
            index, high, low, kept, wire = struct.unpack_from(order + "IIIII", body)
            start = 20
        elif kind == _OLD_PACKET:
            index, high, low, kept, wire = struct.unpack_from(order + "HxxIIII", body)
            start = 20
        else:
            (wire,) = struct.unpack_from(order + "I", body)
            kept, start = min(wire, origins[0].snapshot or wire), 4
        origin = origins[index]
    except (struct.error, IndexError):
        raise source.error(f"packet {source.packets + 1} is damaged", _DAMAGED) from None
    source.check_link_type(origin.link_type)
    if start + kept > len(body):
        raise source.error(f"packet {source.packets + 1} is damaged", _DAMAGED)
    source.packets += 1
    time_ns = (high << 32 | low) * 1_000_000_000 // origin.ticks
    return CapturedPacket(body[start : start + kept], time_ns, wire)
