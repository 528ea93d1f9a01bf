"""AF_XDP sockets as the kernel has them: made, given memory and rings, bound, asked. include/uapi/linux/if_xdp.h.

What each call needs of its arguments is checked by who calls (labkit.xsk): the kernel says EINVAL for all of it.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import socket
import struct
from dataclasses import dataclass

from labkit.uapi import XskBind, XskOption, XskRing

__all__ = [
    "AF_XDP",
    "RingOffsets",
    "XskStatistics",
    "await_grace_period",
    "bind_socket",
    "is_zero_copy",
    "make_ring",
    "map_ring",
    "open_socket",
    "register_memory",
    "release_ring",
    "ring_offsets",
    "set_transmit_budget",
    "statistics",
    "wake",
]

AF_XDP, _SOL_XDP = 44, 283  # include/linux/socket.h
_MEMORY = struct.Struct("=QQIIII")  # struct xdp_umem_reg
_ADDRESS = struct.Struct("=HHIII")  # struct sockaddr_xdp
_MEMBARRIER, _MEMBARRIER_GLOBAL = 324, 1 << 0  # of x86-64; include/uapi/linux/membarrier.h
_MAP_FIXED, _MADV_DONTFORK = 0x10, 10  # include/uapi/asm-generic/mman-common.h
_READ_WRITE = mmap.PROT_READ | mmap.PROT_WRITE
_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
_libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]


@dataclass(frozen=True)
class RingOffsets:
    """``struct xdp_ring_offset``: where in its mapping a ring has its two positions, its entries and its flags, in bytes."""

    producer: int
    consumer: int
    entries: int
    flags: int


@dataclass(frozen=True)
class XskStatistics:
    """``struct xdp_statistics``, since the socket was made; the fields' names are the kernel's.

    ``rx_dropped``: frames for which the fill ring had no buffer, or that were longer than one; ``rx_invalid_descs`` and
    ``tx_invalid_descs``: entries of the fill ring and of the transmit ring that name no piece of one frame of the memory;
    ``rx_ring_full``: frames that found no place in the receive ring; ``rx_fill_ring_empty_descs`` and
    ``tx_ring_empty_descs``: how often the kernel looked into an empty ring.
    """

    rx_dropped: int = 0
    rx_invalid_descs: int = 0
    tx_invalid_descs: int = 0
    rx_ring_full: int = 0
    rx_fill_ring_empty_descs: int = 0
    tx_ring_empty_descs: int = 0


def open_socket() -> socket.socket:
    """A new socket in the calling thread's namespace. Raises OSError (EPERM without CAP_NET_RAW there)."""
    return socket.socket(AF_XDP, socket.SOCK_RAW, 0)


def register_memory(made: socket.socket, address: int, size: int, frame_size: int, headroom: int) -> None:
    """Give the socket its memory, all sizes in bytes. Raises OSError (ENOBUFS: the memory-lock limit)."""
    made.setsockopt(_SOL_XDP, XskOption.UMEM_REG, _MEMORY.pack(address, size, frame_size, headroom, 0, 0))


def make_ring(made: socket.socket, which: XskOption, entries: int) -> None:
    """Have the kernel make a ring. Raises OSError."""
    made.setsockopt(_SOL_XDP, which, struct.pack("=I", entries))


def ring_offsets(made: socket.socket) -> dict[XskRing, RingOffsets]:
    """The layout of each ring. Raises OSError."""
    four = struct.iter_unpack("=4Q", made.getsockopt(_SOL_XDP, XskOption.MMAP_OFFSETS, 128))
    return {
        ring: RingOffsets(*each)
        for ring, each in zip((XskRing.RX, XskRing.TX, XskRing.FILL, XskRing.COMPLETION), four, strict=True)
    }


def map_ring(made: socket.socket, which: XskRing, size: int) -> mmap.mmap:
    """``size`` bytes of a ring, writable. ``release_ring`` lets go of it. Raises OSError.

    A mapping keeps its socket, and so the queue, for as long as it lasts. This one lies over anonymous memory, which
    takes its place in the end: a view that somebody has kept then shows zeros, and holds nothing.
    """
    area = mmap.mmap(-1, size)
    try:
        _lay_over(area, mmap.MAP_SHARED | mmap.MAP_POPULATE, made.fileno(), which)
        # A process forked off would hold the queue when this one has let go of it.
        _libc.madvise(_address(area), size, _MADV_DONTFORK)
    except BaseException:
        area.close()
        raise
    return area


def release_ring(area: mmap.mmap) -> None:
    """Unmap the ring, whoever has views of it."""
    _lay_over(area, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0)


def _lay_over(area: mmap.mmap, flags: int, fd: int, offset: int) -> None:
    if _libc.mmap(_address(area), len(area), _READ_WRITE, flags | _MAP_FIXED, fd, offset) == ctypes.c_void_p(-1).value:
        number = ctypes.get_errno()
        raise OSError(number, f"mmap: {os.strerror(number)}")


def _address(area: mmap.mmap) -> int:
    return ctypes.addressof(ctypes.c_char.from_buffer(area))


def bind_socket(made: socket.socket, ifindex: int, queue: int, flags: XskBind, shared_fd: int = 0) -> None:
    """Bind to a queue of an interface of the socket's namespace. Raises OSError."""
    where = _ADDRESS.pack(AF_XDP, flags, ifindex, queue, shared_fd)  # Python's own bind doesn't know the family
    if _libc.bind(made.fileno(), where, len(where)):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def statistics(made: socket.socket) -> XskStatistics:
    """XDP_STATISTICS. Raises OSError."""
    return XskStatistics(*struct.unpack("=6Q", made.getsockopt(_SOL_XDP, XskOption.STATISTICS, 48)))


def is_zero_copy(made: socket.socket) -> bool:
    """Whether a bound socket's driver uses its memory without copying (XDP_OPTIONS). Raises OSError."""
    return bool(struct.unpack("=I", made.getsockopt(_SOL_XDP, XskOption.OPTIONS, 4))[0] & 1)


def set_transmit_budget(made: socket.socket, frames: int) -> bool:
    """Have one wake-up send up to ``frames``; False where the kernel has no such option (before Linux 6.18), or refuses."""
    try:
        made.setsockopt(_SOL_XDP, XskOption.MAX_TX_SKB_BUDGET, struct.pack("=I", frames))
    except OSError:
        return False
    return True


def wake(made: socket.socket) -> int:
    """Have the kernel look into the transmit ring: 0, or its errno (EAGAIN: there is more to do)."""
    try:
        made.send(b"", socket.MSG_DONTWAIT)
    except OSError as error:
        return error.errno or errno.EIO
    return 0


def await_grace_period() -> None:
    """Wait until every CPU has left what it was doing in the network stack: what was taken out of a map is out of use.

    membarrier(2) with MEMBARRIER_CMD_GLOBAL is the kernel's synchronize_rcu() for everybody: some ten milliseconds.
    """
    _libc.syscall(_MEMBARRIER, _MEMBARRIER_GLOBAL, 0, 0)
