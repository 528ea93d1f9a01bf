"""Turns of the two classic applications: receive and drop, receive and send on. Each takes what is there, and returns."""

from __future__ import annotations

import numpy as np

from labkit.xsk.frames import Batch
from labkit.xsk.socket import XskSocket
from labkit.xsk.umem import Umem

__all__ = ["address_to", "drop_turn", "forward_turn", "written"]

_MOST = 4096  # packets a turn
_REST_S = 0.001
_MAC = 6  # bytes, at the beginning of a frame: where it goes


def drop_turn(xsk: XskSocket) -> int:
    """Take what has come, and give its frames back: how many. To wait is to let other threads have the interpreter."""
    return xsk.drop(_MOST) if xsk.wait(_REST_S) else 0


def forward_turn(source: XskSocket, target: XskSocket, mac: bytes = b"") -> int:
    """Send what has come at ``source`` out at ``target``: how many. The packets themselves are not copied.

    The two have their memory in common, or are the same. ``mac``: six bytes, the new destination ("": as it was). The
    frames of what was sent go to the source's fill ring.
    """
    if not source.wait(_REST_S) and not target.transmit_waiting:
        return 0
    batch = source.take(min(_MOST, target.transmit_room))
    if len(batch):
        if mac:
            address_to(source.umem, batch, mac)
        target.transmit(batch, wake=False)
    target.flush()
    target.complete()
    source.fill()
    return len(batch)


def address_to(umem: Umem, batch: Batch, mac: bytes) -> None:
    """Write the destination's MAC into each packet of a batch, with one step for all."""
    frames, at = np.divmod(batch.addresses, np.uint64(umem.frame_size))
    umem.bytes[frames[:, None], at[:, None] + np.arange(_MAC, dtype=np.uint64)] = np.frombuffer(mac, np.uint8)


def written(xsk: XskSocket, frame: bytes, packets: int) -> Batch:
    """Up to ``packets`` copies of ``frame``, each in a free frame of the memory: a batch to transmit, the caller's until then."""
    addresses = xsk.umem.take(packets)
    xsk.umem.bytes[addresses // np.uint64(xsk.umem.frame_size), : len(frame)] = np.frombuffer(frame, np.uint8)
    return Batch(addresses, np.full(len(addresses), len(frame), np.uint32))
