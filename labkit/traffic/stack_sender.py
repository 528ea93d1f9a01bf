"""Frames where the kernel has no live frames: packets of the stack, through AF_PACKET sockets.

Live frames came with Linux 5.18, and a kernel may refuse them. What is sent this way has no page pool and can't carry
metadata, and it is slower; for the receiver it is a packet like others.
"""

from __future__ import annotations

import socket
import struct
import threading

from labkit.interface import Interface
from labkit.kernel.mmsg import FrameRound
from labkit.traffic.raw import frame_socket

__all__ = ["NOTE", "StackSender"]

NOTE = (
    "This kernel makes no live frames, so the generator sends packets of the stack instead: slower, without page pools "
    "and metadata. labkit doctor tells why."
)
_FIRST_PORT = 10_000  # as in bpf/lab/generator.c
_ETH_IP, _PROTOCOL, _PORTS = slice(12, 15), 23, 34  # where they are behind an IPv4 header without options
_FRAGMENT = 20
_CHECKSUMS = {6: 50, 17: 40}  # of TCP, of UDP


class StackSender:
    """Sends ``frame`` out of ``interface``; ``flows`` source ports go round, for each thread. Close it yourself."""

    def __init__(self, interface: Interface, frame: bytes, flows: int) -> None:
        self._interface = interface
        self._frames = [from_port(frame, _FIRST_PORT + number) for number in range(flows)] if flows > 1 else [frame]
        self._mine = threading.local()
        self._sockets: list[socket.socket] = []

    def send(self, packets: int) -> tuple[int, int]:
        """Send so many: (how many the interface had, the kernel's errno for the others). Raises TrafficError."""
        if not hasattr(self._mine, "out"):
            self._mine.out, self._mine.round = frame_socket(self._interface), FrameRound(self._frames)
            self._sockets.append(self._mine.out)
        had: int
        had, number = self._mine.round.send(self._mine.out, packets)
        self._interface.host.lab.traffic.handed(self._interface.where, had)
        return had, number

    def close(self) -> None:
        """Close the sockets. Safe to call again."""
        while self._sockets:
            self._sockets.pop().close()


def from_port(frame: bytes, port: int) -> bytes:
    """``frame`` with another source port of UDP or TCP, over IPv4 without options; anything else as it is."""
    at = _CHECKSUMS.get(frame[_PROTOCOL]) if len(frame) > _PROTOCOL else None
    if at is None or frame[_ETH_IP] != b"\x08\x00\x45" or len(frame) < at + 2:
        return frame
    if struct.unpack_from("!H", frame, _FRAGMENT)[0] & 0x1FFF:  # a later fragment has no ports
        return frame
    changed = bytearray(frame)
    (old,), (check,) = struct.unpack_from("!H", frame, _PORTS), struct.unpack_from("!H", frame, at)
    struct.pack_into("!H", changed, _PORTS, port)
    if check or frame[_PROTOCOL] == 6:  # UDP: 0 means "no checksum". RFC 1624, equation 3
        total = (~check & 0xFFFF) + (~old & 0xFFFF) + port
        total = (total & 0xFFFF) + (total >> 16)
        total = (total & 0xFFFF) + (total >> 16)
        struct.pack_into("!H", changed, at, ~total & 0xFFFF)
    return bytes(changed)
