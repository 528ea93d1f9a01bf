"""What the counters of one interface gained between two samples."""

from __future__ import annotations

from dataclasses import dataclass

from labkit.observe.bulk import Bulks
from labkit.observe.sample import InterfaceCounters

__all__ = ["InterfaceChange"]


@dataclass
class InterfaceChange:
    """What the counters of one interface gained; per-queue counters of the driver are sums over queues."""

    where: str
    peer: str
    host: str
    netns: int
    ifindex: int
    mode: str
    made: int  # by generators
    tx_packets: int
    tx_dropped: int
    rx_dropped: int
    rx_otherhost_dropped: int
    xdp_drops: int  # XDP_DROP, XDP_ABORTED and unknown codes together
    xdp_redirect: int  # of which the redirect succeeded
    xdp_tx: int  # sent back by XDP_TX
    xdp_tx_errors: int
    rx_drops: int  # redirects that failed, skbs that could not be made
    bulks: Bulks  # taken from a redirect (or a generator) for sending
    driver_xmit_errors: int  # bulks.dropped by the driver's own counter, which tx_dropped includes
    ever_sent_back: bool  # whether XDP_TX ever sent a frame from here: then the peer has a ring
    full_or: str  # "ring full", and what else may keep a frame out of the peer's ring, as the link is now
    egress_dropped: int = 0  # of bulks.dropped: the watch counts there what a devmap's program dropped

    @classmethod
    def between(
        cls, where: str, made: int, old: InterfaceCounters, new: InterfaceCounters, peer: InterfaceCounters | None
    ) -> InterfaceChange:
        """The difference of two readings of the interface ``where``."""

        def link(name: str) -> int:
            return new.link.get(name, 0) - old.link.get(name, 0)

        def queues(name: str) -> int:
            return new.queues(name) - old.queues(name)

        return cls(
            where,
            new.peer,
            new.host,
            new.netns,
            new.ifindex,
            new.mode,
            made,
            link("tx_packets"),
            link("tx_dropped"),
            link("rx_dropped"),
            link("rx_otherhost_dropped"),
            queues("rx xdp_drops"),
            queues("rx xdp_redirect"),
            queues("rx xdp_tx"),
            queues("rx xdp_tx_errors"),
            queues("rx drops"),
            new.bulks - old.bulks,
            queues("tx xdp_xmit_errors"),
            new.queues("rx xdp_tx") > 0,
            _full_or(new, peer),
        )

    @property
    def ring_full(self) -> int:
        """Redirected frames that met a full ring."""
        return self.bulks.dropped - self.egress_dropped

    @property
    def taken(self) -> int:
        """Redirected frames that the driver sent or met a full ring with."""
        return self.bulks.sent + self.ring_full

    @property
    def unsent(self) -> int:
        """What tx_dropped has beside failures of XDP: packets of the stack that met a full ring, and refused bulks."""
        return self.tx_dropped - self.xdp_tx_errors - self.driver_xmit_errors


def _full_or(near: InterfaceCounters, peer: InterfaceCounters | None) -> str:
    too_long = ["EMSGSIZE"] if peer is not None and near.mtu > peer.mtu else []
    down = ["peer down"] if peer is not None and not peer.up else []
    return " or ".join(["ring full", *too_long, *down])
