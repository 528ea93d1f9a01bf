"""AF_XDP sockets: batches of packets out of one receive queue, and into the interface's transmit queue."""

from __future__ import annotations

from labkit.xsk.receiving import Receiving
from labkit.xsk.transmitting import Transmitting

__all__ = ["XskSocket"]


class XskSocket(Receiving, Transmitting):
    """An AF_XDP socket at ``queue`` of ``interface``. It gets what an XDP program redirects to it through an xskmap.

    ``umem`` is the memory, by default 2,048 frames of its own; give another socket's to share it. The rings' sizes are
    powers of two, in entries; ``receive_ring=0`` or ``transmit_ring=0`` leaves one of these out. ``filled`` frames are put
    into the fill ring at once: by default half of the memory, all of it where there is no transmit ring. ``mode`` "copy":
    the kernel copies each packet; "zero-copy" is for drivers that have it; "auto": the better of the two.
    ``need_wakeup`` asks the kernel to say when it wants to be woken up; ``transmit_budget`` frames are sent for each wake-up
    (None: 32, the kernel's own; more saves calls, where the kernel has XDP_MAX_TX_SKB_BUDGET).

    The kernel copies metadata only where a program wrote some, and a frame keeps what its last packet had there: the socket
    wipes the last two bytes before it gives a frame back, unless ``wipe_metadata=False``. A queue that was let go of a
    moment ago is tried for ``patience_s``. Raises XskError, FeatureError, PrivilegeError.
    """
