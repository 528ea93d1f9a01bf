"""The receiving side of an AF_XDP socket: batches out of the receive ring, frames back into the fill ring."""

from __future__ import annotations

import time

import numpy as np
from numpy.typing import NDArray

from labkit.xsk.base import MOST_ENTRIES, QueueSocket
from labkit.xsk.checks import check_addresses, check_seconds, check_whole
from labkit.xsk.frames import Batch, ReceivedFrame
from labkit.xsk.ring import Ring

__all__ = ["Receiving"]

_SLICE_S = 0.05
_MOST_META = 252  # bytes before the packet that bpf_xdp_adjust_meta gives at the most


class Receiving(QueueSocket):
    """A socket that can receive."""

    def wait(self, timeout_s: float = 1.0) -> bool:
        """Wait until a packet is there, ``timeout_s`` at the longest: whether one is."""
        until = time.monotonic() + check_seconds("timeout_s", timeout_s, "to wait for packets")
        while True:
            self._check_open("to wait for packets")
            left = until - time.monotonic()
            if self._receive.filled or left <= 0:
                return self._receive.filled > 0
            # In slices: a socket that somebody waits at keeps its queue, though another thread has closed it.
            self._ready.poll(min(left, _SLICE_S) * 1000)

    def take(self, most: int = 256) -> Batch:
        """Up to ``most`` packets that have arrived, without waiting. Their frames are the caller's until ``recycle``."""
        check_whole("most", most, 0, MOST_ENTRIES, "to receive")
        with self._lock:
            self._check_open("to receive")
            taken = self._receive.take(most)
            self._taken += len(taken)
            return Batch(taken["address"], taken["length"])

    def recycle(self, batch: Batch | NDArray[np.uint64]) -> None:
        """Give frames back for new packets: into the fill ring as far as there is room, else to the free ones."""
        addresses = check_addresses(batch.addresses if isinstance(batch, Batch) else batch, "to give frames back")
        with self._lock:
            self._check_open("to give frames back")
            self.umem.check(addresses, "to give frames back")
            self._fill(addresses)

    def drop(self, most: int = 2048) -> int:
        """Take up to ``most`` packets and give their frames back at once: how many."""
        check_whole("most", most, 0, MOST_ENTRIES, "to receive")
        with self._lock:
            self._check_open("to receive")
            taken = self._receive.take(most)
            if len(taken):
                self._taken += len(taken)
                self._fill(taken["address"])
            return len(taken)

    def receive(
        self, packets: int | None = None, timeout_s: float = 1.0, meta_room: int = _MOST_META
    ) -> list[ReceivedFrame]:
        """Packets as bytes, each with the ``meta_room`` bytes before it; their frames are given back.

        Waits until ``packets`` have come (None: any), ``timeout_s`` at the longest, and returns what there is. For looking
        at some packets; ``take`` and ``drop`` are for millions.
        """
        if packets is not None:
            check_whole("packets", packets, 1, 1_000_000, "to receive")
        check_whole("meta_room", meta_room, 0, self.umem.packet_at, "to receive")
        check_seconds("timeout_s", timeout_s, "to receive")
        until, found = time.monotonic() + timeout_s, list[ReceivedFrame]()
        while not found or (packets is not None and len(found) < packets):
            if not self.wait(max(0.0, until - time.monotonic())):
                break
            batch = self.take(256 if packets is None else min(packets - len(found), MOST_ENTRIES))
            with self._lock:
                pairs = zip(batch.addresses.tolist(), batch.lengths.tolist(), strict=True)
                found += [self._copied(address, length, meta_room) for address, length in pairs]
            self.recycle(batch)
        return found

    def _copied(self, address: int, length: int, meta_room: int) -> ReceivedFrame:
        whole = self.umem.view(address - meta_room, meta_room + length).tobytes()
        return ReceivedFrame(self.where, whole[:meta_room], whole[meta_room:])

    @property
    def _receive(self) -> Ring:
        return self._there(self.rings.receive, "receive")
