"""Capture files: classic pcap read and written, here and not by scapy.

A file that is cut short has to be told from a whole one, with the packet where it ends. Format:
draft-ietf-opsawg-pcap. The newer pcapng is in ``pcapng.py``.
"""

from __future__ import annotations

import os
import struct
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from labkit.errors import CaptureError
from labkit.traffic.pcap_file import CapturedPacket, CaptureFile
from labkit.traffic.pcapng import SECTION, pcapng_packets

__all__ = ["CapturedPacket", "read_pcap", "write_pcap"]

_UNITS = {0xA1B2C3D4: 1_000, 0xA1B23C4D: 1}  # magic number: nanoseconds of a unit of the fraction
_ETHERNET = 1  # LINKTYPE_ETHERNET
_SNAPSHOT = 262_144  # bytes: what tcpdump writes for "no limit"
_GZIP = b"\x1f\x8b"


def read_pcap(path: str | os.PathLike[str]) -> Iterator[CapturedPacket]:
    """The packets of a capture file, classic or pcapng, one by one.

    Raises CaptureError: at once for what is no Ethernet capture, and where the reading comes to a
    packet that is cut short.
    """
    where = Path(path)
    try:
        file = where.open("rb")
    except OSError as error:
        raise CaptureError(
            f"The capture file {where.name} can't be opened.",
            tried="to read a capture file",
            on=str(where),
            errno=error.errno,
            remedy="see that the path is right and that you may read the file",
        ) from error
    with file:
        yield from _packets(CaptureFile(file, where))


def _packets(source: CaptureFile) -> Iterator[CapturedPacket]:
    magic = source.take(4, "the file's first four bytes")
    if magic == SECTION:
        return pcapng_packets(source)
    for order in ("<", ">"):
        (number,) = struct.unpack(order + "I", magic)
        if number in _UNITS:
            return _classic(source, order, _UNITS[number])
    remedy = "give a file that tcpdump -w or Wireshark wrote"
    if magic.startswith(_GZIP):
        remedy = "it is compressed: unpack it first, with gunzip"
    raise source.error("it is no capture file", remedy)


def _classic(source: CaptureFile, order: str, unit_ns: int) -> Iterator[CapturedPacket]:
    """After the magic number: version, zone, accuracy, snapshot length, link type; then packets."""
    header = source.take(20, "the file's header")
    source.check_link_type(struct.unpack_from(order + "I", header, 16)[0] & 0xFFFF)
    while (head := source.take_or_end(16, "the head of packet")) is not None:
        seconds, fraction, kept, wire_bytes = struct.unpack(order + "IIII", head)
        data = source.packet_bytes(kept)
        yield CapturedPacket(data, seconds * 1_000_000_000 + fraction * unit_ns, wire_bytes)


def write_pcap(path: str | os.PathLike[str], frames: Iterable[bytes]) -> int:
    """Write ``frames`` as a classic capture file; how many. Captured ones keep their times.

    The file appears whole or not at all. Raises CaptureError.
    """
    where, count, now_ns = Path(path), 0, time.time_ns()
    unfinished = where.with_name(f".{where.name}.{os.getpid()}.part")
    try:
        with unfinished.open("wb") as file:
            file.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, _SNAPSHOT, _ETHERNET))
            for frame in frames:
                seconds, rest = divmod(getattr(frame, "time_ns", now_ns), 1_000_000_000)
                size = len(frame)
                file.write(struct.pack("<IIII", seconds, rest // 1000, size, size) + frame)
                count += 1
        unfinished.replace(where)
    except OSError as error:
        unfinished.unlink(missing_ok=True)
        raise CaptureError(
            f"The capture file {where.name} can't be written.",
            tried="to write a capture file",
            on=str(where),
            errno=error.errno,
            remedy="choose a directory that exists and that you may write to",
        ) from error
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise
    return count
