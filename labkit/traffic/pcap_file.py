"""A capture file being read: so many bytes, or an error that says in which packet the file ends."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from labkit.errors import CaptureError

__all__ = ["CaptureFile", "CapturedPacket"]

_ETHERNET = 1  # LINKTYPE_ETHERNET, of the tcpdump group's list of link types
_OTHER_LINKS = {
    0: "BSD loopback",
    101: "raw IP",
    105: "IEEE 802.11",
    113: "Linux cooked",
    276: "Linux cooked v2",
}
_LONGEST = 1 << 20  # bytes of a packet; a longer one is a sign of a broken file


@dataclass(frozen=True, slots=True)
class CapturedPacket:
    """``data`` as kept; ``time_ns`` since 1970; ``wire_bytes`` its length when it was captured."""

    data: bytes
    time_ns: int
    wire_bytes: int

    @property
    def whole(self) -> bool:
        """Whether the capture kept every byte (a snapshot length cuts long packets)."""
        return self.wire_bytes <= len(self.data)


class CaptureFile:
    """Reads on from where it is, and knows how many packets were whole so far."""

    def __init__(self, file: BinaryIO, path: Path) -> None:
        self._file = file
        self._path = path
        self.packets = 0

    def take(self, size: int, what: str) -> bytes:
        """The next ``size`` bytes. Raises CaptureError where the file ends before."""
        data = self._file.read(size)
        if len(data) < size:
            raise self._cut_short(what, len(data), size)
        return data

    def take_or_end(self, size: int, what: str) -> bytes | None:
        """The same, but None where the file ends right here."""
        data = self._file.read(size)
        if data and len(data) < size:
            raise self._cut_short(f"{what} {self.packets + 1}", len(data), size)
        return data or None

    def packet_bytes(self, size: int) -> bytes:
        """The next packet's ``size`` bytes, counted as whole."""
        self.check_size(size)
        data = self.take(size, f"packet {self.packets + 1}")
        self.packets += 1
        return data

    def check_size(self, size: int) -> None:
        """Raise CaptureError for a size that no packet has."""
        if size > _LONGEST:
            raise self.error(f"packet {self.packets + 1} claims {size:,} bytes", self._remedy())

    def check_link_type(self, number: int) -> None:
        """Raise CaptureError for packets that are not Ethernet frames."""
        if number != _ETHERNET:
            name = _OTHER_LINKS.get(number, "another link")
            raise self.error(
                f"its packets are not Ethernet frames but {name} (link type {number})",
                "capture on one Ethernet interface, not on “any”, a tunnel or loopback",
            )

    def error(self, why: str, remedy: str) -> CaptureError:
        """An error about this file."""
        return CaptureError(
            f"{self._path.name} can't be used: {why}.",
            tried="to read a capture file",
            on=str(self._path),
            remedy=remedy,
        )

    def _cut_short(self, what: str, found: int, wanted: int) -> CaptureError:
        if not found and not self.packets and not self._file.tell():
            return self.error("it is empty", "capture again, or copy the file again")
        return self.error(
            f"it is cut short in {what}: {found:,} of {wanted:,} bytes are there. " + self._fine(),
            self._remedy(),
        )

    def _fine(self) -> str:
        if not self.packets:
            return "No packet before it is whole"
        return f"The {self.packets:,} before it are whole" if self.packets > 1 else "The one before it is whole"

    def _remedy(self) -> str:
        again = "copy the file again from where it came"
        return again + (f", or use its first {self.packets:,}: packets={self.packets}" if self.packets else "")
