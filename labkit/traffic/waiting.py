"""How many datagrams wait in a UDP socket. The kernel has the number and no call that tells it."""

from __future__ import annotations

import os
import socket
import struct
from typing import Protocol

from labkit.compile import compile_source
from labkit.compile.diagnose import verifier_error
from labkit.compile.source import lesson_directory
from labkit.errors import LabError
from labkit.kernel import bpf
from labkit.kernel.btf import kernel_offsets
from labkit.kernel.mmsg import DatagramBatch
from labkit.program.program import load_program
from labkit.uapi import ProgType

__all__ = ["Probe", "Waiting", "Walk", "waiting_in"]

_SO_PEEK_OFF, _SO_COOKIE = 42, 57  # include/uapi/asm-generic/socket.h
# Where the fields are that the program reads: struct, then members.
_OFFSETS = {
    "sock_cookie": ("sock", "__sk_common", "skc_cookie"),
    "receive_queue_length": ("sock", "sk_receive_queue", "qlen"),
    "reader_queue_length": ("udp_sock", "reader_queue", "qlen"),
}


class Waiting(Protocol):
    """One socket's queue."""

    def count(self) -> int:
        """Datagrams that wait now; they stay."""
        ...

    def taken(self, datagrams: int) -> None:
        """Note that so many were read."""
        ...

    def close(self) -> None:
        """Let go of what the counting needed. The socket stays open."""
        ...


def waiting_in(queue: socket.socket) -> Waiting:
    """A count of what waits in ``queue``: a probe, or a walk where this kernel lets no probe in."""
    try:
        return Probe(queue)
    except (LabError, OSError, KeyError):
        return Walk(queue)


class Probe:
    """A program on the tracepoint sock_recv_length (Linux 6.3 and later) reads the queue's length. 50 µs a count.

    While the probe is there, every read from any socket of the machine takes some tens of nanoseconds more: it is for a
    socket that nobody reads. To attach it for each count alone would take some ten milliseconds a count, as the
    kernel first waits until nobody runs the one before.
    """

    def __init__(self, queue: socket.socket) -> None:
        self._queue = queue
        source = lesson_directory() / "lab" / "queue_length.c"
        kind = ProgType.RAW_TRACEPOINT
        self._program = load_program(compile_source(path=source), None, explain=verifier_error, type=kind)
        self._attached = -1
        try:
            cookie = struct.unpack("=Q", queue.getsockopt(socket.SOL_SOCKET, _SO_COOKIE, 8))[0]
            self._program.maps["offsets"][0] = kernel_offsets(_OFFSETS)
            self._program.maps["wanted"][0] = cookie
            self._attached = bpf.raw_tracepoint_open("sock_recv_length", self._program.fd)
            self.count()
        except BaseException:
            self.close()
            raise

    def count(self) -> int:
        """Datagrams that wait now. Raises OSError where the tracepoint doesn't answer."""
        answer = self._program.maps["answer"]
        before = answer[0]["asked"]
        try:
            self._queue.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except BlockingIOError:
            return 0
        found = answer[0]
        if found["asked"] == before:
            raise OSError("the tracepoint sock_recv_length did not see the question")
        return int(found["length"])

    def taken(self, datagrams: int) -> None:
        """Nothing to note: the kernel counts."""

    def close(self) -> None:
        """Detach. Safe to call again."""
        if self._attached >= 0:
            os.close(self._attached)
            self._attached = -1
        self._program.close()


class Walk:
    """Looks at every datagram once: the kernel keeps the place (SO_PEEK_OFF), and the queue is first in, first out.

    Each look begins at the head of the queue again, so the first count takes time with the square of the length:
    milliseconds for some hundred datagrams, seconds for ten thousand.
    """

    def __init__(self, queue: socket.socket) -> None:
        self._queue = queue
        self._batch = DatagramBatch()
        self._seen = 0  # of those that wait
        queue.setsockopt(socket.SOL_SOCKET, _SO_PEEK_OFF, 0)

    def count(self) -> int:
        """Datagrams that wait now."""
        self._seen += self._batch.look_on(self._queue.fileno())
        return self._seen

    def taken(self, datagrams: int) -> None:
        """Those read first were those seen first."""
        self._seen = max(0, self._seen - datagrams)

    def close(self) -> None:
        """Nothing to let go of."""
