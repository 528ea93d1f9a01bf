"""The transmitting side of an AF_XDP socket: descriptors into the transmit ring, frames back from the completion ring."""

from __future__ import annotations

import errno
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labkit.kernel import xdp_socket
from labkit.traffic.report import TrafficReport
from labkit.xsk.base import QueueSocket
from labkit.xsk.checks import check_addresses, refused
from labkit.xsk.frames import Batch
from labkit.xsk.ring import DESCRIPTOR, Ring
from labkit.xsk.sending import send
from labkit.xsk.umem import Umem

__all__ = ["Transmitting"]

_SHORTEST = 14  # ETH_HLEN


class Transmitting(QueueSocket):
    """A socket that can send."""

    def transmit(self, batch: Batch, *, wake: bool = True) -> int:
        """Put packets into the transmit ring, and wake the kernel: how many there was room for.

        The frames are the kernel's until ``complete`` has them back; those there was no room for stay the caller's.
        Raises XskError for a packet that does not lie within one frame.
        """
        if not isinstance(batch, Batch) or len(batch.lengths) != len(batch):
            raise refused(f"{batch!r} is no batch.", "to send", "give a lk.xsk.Batch of addresses and lengths")
        check_addresses(batch.addresses, "to send")
        descriptors = np.zeros(len(batch), DESCRIPTOR)
        descriptors["address"], descriptors["length"] = batch.addresses, batch.lengths
        with self._lock:
            self._check_open("to send")
            _check_descriptors(descriptors, self.umem)
        with self._board.chunk(), self._lock:
            self._check_open("to send")
            put = self.put(descriptors)
            if wake:
                self._wake()
        return put

    def put(self, descriptors: NDArray[Any]) -> int:
        """Put descriptors into the transmit ring as they are, right or wrong, and wake nobody: how many had room."""
        with self._lock:
            self._check_open("to send")
            return self._transmit.put(descriptors)

    def kick(self) -> str:
        """Wake the kernel once, so that it looks into the transmit ring: "", or its word, as "EAGAIN" for: again.

        In copy mode the kernel sends 32 frames for each wake-up and says EAGAIN while there are more; it says the same where
        the completion ring has no room.
        """
        with self._board.chunk(), self._lock:
            self._check_open("to wake the kernel")
            return self._wake()

    def flush(self) -> str:
        """Wake the kernel until the transmit ring is empty, or nothing moves: "", or the word that it stopped with.

        Frames that have been sent are taken back meanwhile, so that the completion ring has room.
        """
        with self._board.chunk(), self._lock:
            self._check_open("to wake the kernel")
            word, left = "", self._transmit.filled + 1
            while left > (left := self._transmit.filled) > 0:
                word = self._wake()
                self.complete()
            return word if left else ""

    def _wake(self) -> str:
        if self.need_wakeup and not self._transmit.needs_wakeup:
            return ""
        number = xdp_socket.wake(self._socket)
        return errno.errorcode.get(number, str(number)) if number else ""

    def send(
        self, frames: bytes | Sequence[bytes], packets: int | None = None, *, timeout_s: float = 60.0
    ) -> TrafficReport:
        """Send ``packets`` of ``frames``, in turn (None: each once), and wait until all have left, ``timeout_s`` at the longest.

        They are written into free frames of the memory. Raises XskError for what can't be sent at all.
        """
        return send(self, frames, packets, timeout_s)

    @property
    def transmit_room(self) -> int:
        """Descriptors that the transmit ring has room for."""
        with self._lock:
            self._check_open("to look into its rings")
            return self._transmit.room

    @property
    def transmit_waiting(self) -> int:
        """Descriptors in the transmit ring that the kernel has not taken."""
        with self._lock:
            self._check_open("to look into its rings")
            return self._transmit.filled

    def complete(self) -> int:
        """Take back the frames that have been sent, out of the completion ring: how many."""
        with self._lock:
            self._check_open("to take frames back")
            done = self.rings.completion.take(self.rings.completion.size)
            self._completed += len(done)
            self.umem.give_back(done)
            return len(done)

    @property
    def _transmit(self) -> Ring:
        return self._there(self.rings.transmit, "transmit")


def _check_descriptors(descriptors: NDArray[Any], umem: Umem) -> None:
    tried = "to send"
    umem.check(descriptors["address"], tried)
    lengths = descriptors["length"].astype(np.int64)
    ends = (descriptors["address"] & np.uint64(umem.frame_size - 1)).astype(np.int64) + lengths
    wrong = (lengths < _SHORTEST) | (ends > umem.frame_size)
    if wrong.any():
        first = descriptors[int(np.argmax(wrong))]
        raise refused(
            f"{first['length']} bytes at {first['address']:,} are no packet within one frame.",
            tried,
            f"send {_SHORTEST} bytes or more, of one frame of {umem.frame_size:,}",
        )
