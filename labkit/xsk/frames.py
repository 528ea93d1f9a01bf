"""What comes out of a socket: descriptors of a batch of frames, or the bytes of one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["Batch", "ReceivedFrame"]


@dataclass(frozen=True)
class Batch:
    """Packets in the memory: ``addresses`` (uint64, bytes from its beginning) and ``lengths`` (uint32, bytes), one each."""

    addresses: NDArray[np.uint64]
    lengths: NDArray[np.uint32]

    def __len__(self) -> int:
        return len(self.addresses)

    def __getitem__(self, which: slice) -> Batch:
        return Batch(self.addresses[which], self.lengths[which])


@dataclass(frozen=True)
class ReceivedFrame:
    """A packet that a socket received: ``frame`` its bytes, ``meta`` the bytes right before it in the memory.

    The kernel copies what the XDP program wrote before the packet, and tells nobody how much that was: ``meta`` ends where
    the packet begins, and how much of it means something is for the format to say (labkit.hints.read). ``where``:
    ``server eth0 queue 0``.
    """

    where: str
    meta: bytes
    frame: bytes

    def __repr__(self) -> str:
        head = self.frame[:14].hex(" ")
        return f"<{self.where}: {len(self.frame)} bytes, {head} …; before it … {self.meta[-10:].hex(' ')}>"
