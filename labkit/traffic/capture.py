"""Frames as an interface's taps see them: after XDP on the way in, before the wire on the way out (packet(7))."""

from __future__ import annotations

import os
import select
import socket
import struct
import threading
import time
from typing import Any, Literal

from labkit.errors import CaptureError
from labkit.interface import Interface
from labkit.traffic.checks import check_interface, check_number, check_whole
from labkit.traffic.frame import Frame
from labkit.traffic.lifetime import close_with
from labkit.traffic.receive_buffer import set_receive_buffer

__all__ = ["Capture", "CapturedFrame", "Direction", "capture"]

Direction = Literal["in", "out", "both"]

_TRIED = "to capture frames"
_MOST = 1_000_000
_BUFFER = 16 << 20  # bytes
_LONGEST = 65535 + 18
_ETH_P_ALL = 3  # include/uapi/linux/if_ether.h
# include/uapi/linux/if_packet.h
_SOL_PACKET, _STATISTICS, _AUXDATA, _IGNORE_OUTGOING = 263, 6, 8, 23
_PACKET_OUTGOING = 4
_VLAN_VALID, _VLAN_TPID_VALID = 1 << 4, 1 << 6
_SO_TIMESTAMPNS = 35  # include/uapi/asm-generic/socket.h


class CapturedFrame(Frame):
    """A frame with ``time_ns`` since 1970 and ``outgoing``: sent by the host itself, not received."""

    time_ns: int
    outgoing: bool

    def __new__(cls, data: bytes, time_ns: int, outgoing: bool) -> CapturedFrame:
        made = super().__new__(cls, data)
        made.time_ns, made.outgoing = time_ns, outgoing
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        return (CapturedFrame, (bytes(self), self.time_ns, self.outgoing))


def capture(
    interface: Interface,
    packets: int | None = None,
    *,
    seconds: float = 1.0,
    direction: Direction = "in",
) -> list[CapturedFrame]:
    """Frames of ``interface``: the next ``packets``, or what comes within ``seconds``, whichever ends first.

    Something else must send meanwhile; to send from the same cell use ``Capture``. Raises CaptureError.
    """
    with Capture(interface, direction=direction, most=packets) as running:
        running.wait(packets, seconds)
    return running.frames


class Capture:
    """A capture from now until ``close()`` or the end of a ``with``; ``frames`` has what came so far.

    ``direction`` "in" leaves out what the host itself sends. At most ``most`` frames are kept, a
    million where it isn't given. A frame that XDP dropped or redirected never reaches a tap.
    Raises CaptureError.
    """

    def __init__(self, interface: Interface, *, direction: Direction = "in", most: int | None = None) -> None:
        self.interface = check_interface(interface, _TRIED)
        if direction not in ("in", "out", "both"):
            raise CaptureError(f"direction can't be {direction!r}.", tried=_TRIED, remedy='use "in", "out" or "both"')
        self._direction = direction
        self._most = check_whole("packets", _MOST if most is None else most, 1, _MOST, _TRIED)
        self._frames: list[CapturedFrame] = []
        self._drops = 0
        self._state = threading.Condition()
        self.closed = False
        self._socket = self._open()
        self._wake = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        name = f"lab-{interface.host.name}-capture"
        self._reader = threading.Thread(target=self._read, name=name, daemon=True)
        self._reader.start()
        close_with(interface.host.lab, self)

    def _open(self) -> socket.socket:
        # Protocol 0 until it is bound: else frames of other interfaces would come first.
        tap = self.interface.host.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
        try:
            tap.setsockopt(_SOL_PACKET, _AUXDATA, 1)
            tap.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
            if self._direction == "in":
                tap.setsockopt(_SOL_PACKET, _IGNORE_OUTGOING, 1)
            set_receive_buffer(tap, _BUFFER)
            tap.bind((self.interface.name, _ETH_P_ALL))
        except OSError as error:
            tap.close()
            raise CaptureError(
                f"No capture on {self.interface.where}.",
                tried="to open a packet socket",
                on=self.interface.where,
                errno=error.errno,
                remedy="make the lab again: the interface may be gone",
            ) from error
        return tap

    @property
    def frames(self) -> list[CapturedFrame]:
        """The frames so far, in order."""
        with self._state:
            return list(self._frames)

    @property
    def drops(self) -> int:
        """Frames the kernel could not keep for us, because they came too fast."""
        with self._state:
            if not self.closed:
                self._count_drops()
            return self._drops

    def wait(self, packets: int | None = None, timeout_s: float = 1.0) -> int:
        """How many frames there are, as soon as it is ``packets``, after ``timeout_s`` at the latest."""
        check_number("timeout_s", timeout_s, _TRIED)
        wanted = self._most if packets is None else packets
        with self._state:
            self._state.wait_for(lambda: self.closed or len(self._frames) >= wanted, timeout_s)
            return len(self._frames)

    def close(self) -> None:
        """Stop; what had come is kept. Safe to call again."""
        with self._state:
            if self.closed:
                return
            self._count_drops()
            self.closed = True
        os.eventfd_write(self._wake, 1)
        self._reader.join()
        self._socket.close()
        os.close(self._wake)
        with self._state:
            self._state.notify_all()

    def __enter__(self) -> Capture:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "closed" if self.closed else "running"
        return f"<capture on {self.interface.where}: {len(self._frames):,} frames, {state}>"

    def _count_drops(self) -> None:
        statistics = self._socket.getsockopt(_SOL_PACKET, _STATISTICS, 8)  # reading sets it to 0
        self._drops += struct.unpack("=II", statistics)[1]

    def _read(self) -> None:
        ready = select.poll()
        ready.register(self._socket, select.POLLIN)
        ready.register(self._wake, select.POLLIN)
        while True:
            ready.poll()
            ending = self.closed  # read before the last look, so that nothing that came is missed
            try:
                while len(self._frames) < self._most:
                    self._keep(*self._socket.recvmsg(_LONGEST, 256, socket.MSG_DONTWAIT))
            except OSError:
                pass  # nothing more for now; or the interface went down, and may come up again
            if ending or len(self._frames) >= self._most:
                return

    def _keep(self, data: bytes, ancillary: list[Any], _flags: int, address: Any) -> None:
        outgoing = address[2] == _PACKET_OUTGOING
        if self._direction != "both" and outgoing != (self._direction == "out"):
            return
        time_ns = time.time_ns()
        for level, kind, value in ancillary:
            if (level, kind) == (_SOL_PACKET, _AUXDATA):
                data = _with_vlan_tag(data, value)
            elif (level, kind) == (socket.SOL_SOCKET, _SO_TIMESTAMPNS):
                seconds, rest = struct.unpack("=qq", value)
                time_ns = seconds * 1_000_000_000 + rest
        with self._state:
            self._frames.append(CapturedFrame(data, time_ns, outgoing))
            self._state.notify_all()


def _with_vlan_tag(data: bytes, auxiliary: bytes) -> bytes:
    """The frame as it was on the wire: the stack takes the tag out, struct tpacket_auxdata has it."""
    status, tag, protocol = struct.unpack("=I12xHH", auxiliary)
    if not status & _VLAN_VALID:
        return data
    protocol = protocol if status & _VLAN_TPID_VALID else 0x8100
    return data[:12] + struct.pack("!HH", protocol, tag) + data[12:]
