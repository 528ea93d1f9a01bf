"""One ring, shared with the kernel: entries, and two positions that only grow.

Who puts in (the producer) writes entries and then moves its position; who takes out (the consumer) reads the other's
position, takes entries, and moves its own. Positions are 32 bits and wrap; entry ``i`` lies at ``i`` modulo the size.
"""

from __future__ import annotations

import socket
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from labkit.kernel.xdp_socket import RingOffsets, map_ring, release_ring
from labkit.uapi import XskRing

__all__ = ["ADDRESS", "DESCRIPTOR", "Ring"]

ADDRESS = np.dtype(np.uint64)
DESCRIPTOR = np.dtype([("address", np.uint64), ("length", np.uint32), ("options", np.uint32)])  # struct xdp_desc
_NAMES = {XskRing.FILL: "fill", XskRing.RX: "receive", XskRing.TX: "transmit", XskRing.COMPLETION: "completion"}
_WRAP = 0xFFFFFFFF
_NEED_WAKEUP = 1 << 0  # XDP_RING_NEED_WAKEUP, include/uapi/linux/if_xdp.h


class Ring:
    """A ring of ``size`` entries. ``entries`` is the memory itself, as a numpy array: addresses, or descriptors.

    Each batch costs two positions and at most two copies, however many entries it has. Not for two threads at once:
    the socket sees to that.
    """

    def __init__(self, made: socket.socket, which: XskRing, offsets: RingOffsets, size: int, entry: DTypeLike) -> None:
        kind = np.dtype(entry)
        self.name = _NAMES[which]
        self.size = size
        self._area = map_ring(made, which, offsets.entries + size * kind.itemsize)
        whole = np.frombuffer(self._area, np.uint8)
        self._producer, self._consumer, self._flags = (
            whole[at : at + 4].view(np.uint32) for at in (offsets.producer, offsets.consumer, offsets.flags)
        )
        self.entries: NDArray[Any] = whole[offsets.entries : offsets.entries + size * kind.itemsize].view(kind)

    @property
    def producer(self) -> int:
        """The position behind the last entry put in, 0 to 2³² − 1."""
        return int(self._producer[0])

    @property
    def consumer(self) -> int:
        """The position of the next entry to be taken out."""
        return int(self._consumer[0])

    @property
    def filled(self) -> int:
        """Entries put in and not yet taken out."""
        return (int(self._producer[0]) - int(self._consumer[0])) & _WRAP

    @property
    def room(self) -> int:
        """Entries that can be put in."""
        return self.size - self.filled

    @property
    def needs_wakeup(self) -> bool:
        """Whether the kernel looks into the ring only when it is told to."""
        return bool(self._flags[0] & _NEED_WAKEUP)

    def put(self, entries: NDArray[Any]) -> int:
        """Put in as many of ``entries`` as there is room for; how many."""
        at = int(self._producer[0])
        number = min(len(entries), self.size - ((at - int(self._consumer[0])) & _WRAP))
        if number <= 0:
            return 0
        start = at & (self.size - 1)
        first = min(number, self.size - start)
        self.entries[start : start + first] = entries[:first]
        if first < number:
            self.entries[: number - first] = entries[first:number]
        self._producer[0] = (at + number) & _WRAP  # last: from here on the kernel takes them
        return number

    def take(self, most: int) -> NDArray[Any]:
        """Take out up to ``most`` entries: a copy, in the order they were put in."""
        at = int(self._consumer[0])
        number = max(0, min(most, (int(self._producer[0]) - at) & _WRAP))
        start = at & (self.size - 1)
        first = min(number, self.size - start)
        taken = self.entries[start : start + first].copy()
        if first < number:
            taken = np.concatenate([taken, self.entries[: number - first]])
        self._consumer[0] = (at + number) & _WRAP  # last: from here on the kernel may write over them
        return taken

    def close(self) -> None:
        """Unmap it. Views that somebody keeps show zeros from now on. Safe to call again."""
        release_ring(self._area)

    def __repr__(self) -> str:
        return f"<{self.name} ring: {self.filled:,} of {self.size:,} entries, {self.consumer:,} to {self.producer:,}>"
