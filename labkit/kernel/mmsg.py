"""recvmmsg(2), sendmmsg(2): many datagrams taken, only looked at, or sent, with one system call."""

from __future__ import annotations

import ctypes
import errno
import os
import socket
from collections.abc import Callable, Sequence

__all__ = ["LONGEST_DATAGRAM", "DatagramBatch", "FrameBatch", "FrameRound"]

LONGEST_DATAGRAM = 65535  # bytes; the total length field of IPv4, RFC 791
_libc = ctypes.CDLL(None, use_errno=True)
_ROUND = 256  # messages of a system call, about
_MSG_PEEK, _MSG_TRUNC, _MSG_DONTWAIT = 0x02, 0x20, 0x40  # include/linux/socket.h


class _IoVec(ctypes.Structure):
    """``struct iovec``, include/uapi/linux/uio.h."""

    _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))


class _MsgHdr(ctypes.Structure):
    """``struct msghdr`` as the C library has it, with the padding of a 64-bit machine."""

    _fields_ = (
        ("name", ctypes.c_void_p),
        ("name_length", ctypes.c_uint32),
        ("vector", ctypes.POINTER(_IoVec)),
        ("vector_length", ctypes.c_size_t),
        ("control", ctypes.c_void_p),
        ("control_length", ctypes.c_size_t),
        ("flags", ctypes.c_int),
    )


class _MMsgHdr(ctypes.Structure):
    """``struct mmsghdr``: a message, and how many bytes it had."""

    _fields_ = (("header", _MsgHdr), ("length", ctypes.c_uint))


class DatagramBatch:
    """Room for ``size`` datagrams whose content nobody wants: all are written over one another in one buffer."""

    def __init__(self, size: int = 512) -> None:
        self.size = size
        self._buffer = ctypes.create_string_buffer(LONGEST_DATAGRAM)
        self._whole = _IoVec(ctypes.addressof(self._buffer), LONGEST_DATAGRAM)
        self._headers = (_MMsgHdr * size)()
        for message in self._headers:
            message.header.vector = ctypes.pointer(self._whole)

    def take(self, fd: int) -> int:
        """Take up to ``size`` datagrams out of the socket without copying them; how many, 0 where none waits."""
        return self._receive(fd, 0, _MSG_TRUNC)

    def look_on(self, fd: int) -> int:
        """How many datagrams came since the last look; they stay. The socket needs SO_PEEK_OFF, which keeps the place."""
        found, last = 0, self.size
        while last == self.size:
            # Copied whole: the kernel moves the place by the bytes copied, and would stop inside a datagram.
            last = self._receive(fd, 1, _MSG_PEEK)
            found += last
        return found

    def _receive(self, fd: int, vectors: int, flags: int) -> int:
        for message in self._headers if self._headers[0].header.vector_length != vectors else ():
            message.header.vector_length = vectors
        return _many(_libc.recvmmsg, fd, self._headers, self.size, flags | _MSG_DONTWAIT, None)


class FrameBatch:
    """Room for ``size`` frames of ``frame_bytes`` each, which are kept: taken out of one socket, and sent by the next call.

    Of a longer frame the rest is cut off; a shorter one is sent with bytes of the one before behind it.
    """

    def __init__(self, size: int, frame_bytes: int) -> None:
        self.size = size
        self._buffer = ctypes.create_string_buffer(size * frame_bytes)
        at = ctypes.addressof(self._buffer)
        self._pieces = (_IoVec * size)(*(_IoVec(at + i * frame_bytes, frame_bytes) for i in range(size)))
        self._headers = (_MMsgHdr * size)()
        for message, piece in zip(self._headers, self._pieces, strict=True):
            message.header.vector, message.header.vector_length = ctypes.pointer(piece), 1

    def take(self, fd: int) -> int:
        """Take up to ``size`` frames out of a socket: how many, 0 where none waits. Raises OSError."""
        return _many(_libc.recvmmsg, fd, self._headers, self.size, _MSG_DONTWAIT, None)

    def send(self, fd: int, frames: int) -> int:
        """Send the first ``frames`` of those taken: how many the kernel took. Raises OSError."""
        sent = 0
        while sent < frames:
            first = ctypes.byref(self._headers, sent * ctypes.sizeof(_MMsgHdr))
            now = _many(_libc.sendmmsg, fd, first, frames - sent, _MSG_DONTWAIT)
            if not now:
                break
            sent += now
        return sent


class FrameRound:
    """Frames that are sent in turn, over and over. Not for several threads at once."""

    def __init__(self, frames: Sequence[bytes]) -> None:
        self._buffers = [ctypes.create_string_buffer(frame, len(frame)) for frame in frames]
        self._pieces = (_IoVec * len(frames))(*(_IoVec(ctypes.addressof(held), len(held)) for held in self._buffers))
        times = max(1, _ROUND // len(frames))
        self._headers = (_MMsgHdr * (times * len(frames)))()
        for number, message in enumerate(self._headers):
            message.header.vector = ctypes.pointer(self._pieces[number % len(frames)])
            message.header.vector_length = 1
        self._next = 0

    def send(self, out: socket.socket, packets: int) -> tuple[int, int]:
        """Send so many: (how many the interface had, the errno that ended it before, else 0).

        A frame that met a full ring was the interface's, which has counted it as dropped. After the first of a call
        sendmmsg ends with such a frame and doesn't say so; whether it was more than that the socket's own error tells.
        """
        left = packets
        while left:
            first = ctypes.byref(self._headers, self._next * ctypes.sizeof(_MMsgHdr))
            asked = min(left, len(self._headers) - self._next)
            had = _libc.sendmmsg(out.fileno(), first, asked, 0)
            number = ctypes.get_errno() if had < 0 else 0
            if number == errno.EINTR:
                continue
            if 0 <= had < asked:
                number = out.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            had = max(had, 0) + (had < asked and number in (0, errno.ENOBUFS))
            self._next = (self._next + had) % len(self._headers)
            left -= had
            if number not in (0, errno.ENOBUFS):
                return packets - left, number
        return packets, 0


def _many(call: Callable[..., int], *arguments: object) -> int:
    found = call(*arguments)
    if found >= 0:
        return found
    number = ctypes.get_errno()
    if number in (errno.EAGAIN, errno.EINTR, errno.ENOBUFS):
        return 0
    raise OSError(number, os.strerror(number))
