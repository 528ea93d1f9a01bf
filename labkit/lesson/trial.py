"""A program on trial: attached in a lab of its own, shown real packets, watched from three sides.

What the driver counted, what arrived in the stack behind the program, and what the program answers when it is asked
directly: a check uses all three, so that a right number of drops for a wrong reason is seen too.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType

from labkit.errors import LessonError
from labkit.kernel import bpf
from labkit.lab import Lab
from labkit.program.program import Program
from labkit.program.spec import ProgramSpec
from labkit.topology import Topology
from labkit.uapi import XdpAction

__all__ = ["Seen", "Trial", "await_driver", "raw_socket", "without_tag"]

_ETH_P_ALL = 0x0003  # include/uapi/linux/if_ether.h
_ETH_P_8021Q = b"\x81\x00"  # the same, in network byte order
_PACKET_IGNORE_OUTGOING = 23  # include/uapi/linux/if_packet.h
_SOL_PACKET = 263  # include/linux/socket.h
_PATIENCE_S = 2.0


@dataclass(frozen=True)
class Seen:
    """What became of ``sent`` frames: ``passed`` arrived behind the program, ``dropped`` the driver threw away.

    ``altered`` of those that passed were not what had been sent. ``answer`` is the verdict of another copy of the
    program, asked once about the same frame ("" where not asked).
    """

    sent: int
    passed: int
    dropped: int
    answer: str = ""
    altered: int = 0

    @property
    def words(self) -> str:
        """The same for people."""
        if self.passed == self.sent:
            return "passed" if not self.altered else f"passed, {self.altered} of them altered"
        if self.dropped == self.sent:
            return "dropped" if self.answer in ("", "XDP_DROP") else f"dropped, but as {self.answer}"
        if self.passed + self.dropped == self.sent:
            return f"{self.passed} of {self.sent} passed"
        return self.answer or f"{self.sent - self.passed - self.dropped} of {self.sent} went elsewhere"


class Trial:
    """``with Trial(spec) as trial: trial.send(frame)``. The lab is called "check" and is gone afterwards."""

    def __init__(self, spec: ProgramSpec, function: str | None = None) -> None:
        self._spec, self._function = spec, function
        self.lab = Lab(Topology.pair(), name="check")
        try:
            self.client, self.server = self.lab["client"]["eth0"], self.lab["server"]["eth0"]
            self.program: Program = self.lab.load(spec, function)
            self._adviser: Program = self.lab.load(spec, function)
            self.program.attach(self.server)
            self._out = self.client.run(raw_socket, self.client.name)
            self._in = self.server.run(raw_socket, self.server.name)
            self._in.setsockopt(_SOL_PACKET, _PACKET_IGNORE_OUTGOING, 1)
            self._in.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
            self._in.setblocking(False)
        except BaseException:
            self.lab.close()
            raise

    def send(self, frame: bytes, copies: int = 7, *, ask: bool = True) -> Seen:
        """Send ``copies`` of ``frame`` and wait until the driver has seen them all. Raises LessonError where it never does."""
        self._drain()
        before = self._counters()
        for _ in range(copies):
            self._out.send(frame)
        after = await_driver(self._counters, before, copies, self.server.where)
        arrived = self._drain(frame, copies)
        altered = sum(each not in (frame, without_tag(frame)) for each in arrived)
        dropped = after[1] - before[1]
        return Seen(copies, len(arrived), dropped, self._ask(frame) if ask else "", altered)

    def _counters(self) -> tuple[int, int]:
        """(frames the program saw, frames dropped for any reason) by the driver, since the lab came up."""
        found = self.server.driver_statistics()
        return found.get("rx_queue_0_xdp_packets", 0), found.get("rx_queue_0_xdp_drops", 0)

    def _drain(self, frame: bytes = b"", expected: int = 0) -> list[bytes]:
        """What came from the sender of ``frame``; an arrival may lag behind the driver's count by a moment."""
        arrived: list[bytes] = []
        deadline = time.monotonic() + 0.02
        while True:
            try:
                found = self._in.recv(65536)
            except BlockingIOError:
                if len(arrived) >= expected or time.monotonic() > deadline:
                    return arrived
                time.sleep(0.0005)
            else:
                if found[6:12] == frame[6:12]:
                    arrived.append(found)

    def _ask(self, frame: bytes) -> str:
        number = bpf.prog_test_run(self._adviser.fd, frame, repeat=1).retval
        return f"XDP_{XdpAction(number).name}" if number in list(XdpAction) else f"{number}, which means nothing"

    def __enter__(self) -> Trial:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._out.close()
        self._in.close()
        self.lab.close()


def await_driver(
    counters: Callable[[], tuple[int, int]], before: tuple[int, int], copies: int, where: str
) -> tuple[int, int]:
    """``counters()`` as soon as the first of them is ``copies`` more than ``before``. Raises LessonError where it never is."""
    deadline = time.monotonic() + _PATIENCE_S
    while (after := counters())[0] - before[0] < copies:
        if time.monotonic() > deadline:
            raise LessonError(
                f"Of {copies} frames sent, the driver of {where} saw {after[0] - before[0]}.",
                tried="to show frames to the program",
                remedy="check again; if it repeats, restart the kernel of the notebook",
            )
        time.sleep(0.0005)
    return after


def without_tag(frame: bytes) -> bytes:
    """The stack takes a VLAN tag out before a socket sees the frame."""
    return frame[:12] + frame[16:] if frame[12:14] == _ETH_P_8021Q else frame


def raw_socket(interface: str) -> socket.socket:
    """A socket that sends frames out of ``interface`` and sees those of its namespace; call it on the host's thread."""
    raw = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ETH_P_ALL))
    raw.bind((interface, _ETH_P_ALL))
    return raw
