"""What the counters of one host gained between two samples, and what follows from them."""

from __future__ import annotations

import errno
from collections import Counter
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING

from labkit.observe.counted import counted_drops, gained, unhandled
from labkit.observe.drops import MALFORMED, UNNAMED, DropKey
from labkit.observe.interface_change import InterfaceChange
from labkit.observe.sockets import interface_of

if TYPE_CHECKING:
    from labkit.observe.change import Change

__all__ = ["HostChange"]

_ETH_P_ARP, _ETH_P_IP = 0x0806, 0x0800  # include/uapi/linux/if_ether.h
_ICMP, _TCP = 1, 6  # include/uapi/linux/in.h
_LOOPBACK = 1
_SENT = ("TcpOutSegs", "TcpRetransSegs", "UdpOutDatagrams", "IcmpOutMsgs")
_COPIES = ("PACKET_SOCK_ERROR",)  # a listener (tcpdump, the lab's for ARP) lost its copy; the packet itself went on


class HostChange:
    """What the counters of one host gained, and what follows from them."""

    def __init__(self, name: str, change: Change) -> None:
        self.name = name
        self._change = change
        self._samples = change.before, change.after
        self._before, self._after = change.before.hosts[name], change.after.hosts[name]
        self.netns = self._after.netns
        self.interfaces = [i for i in change.interfaces.values() if i.host == name]
        self.drops = self._seen(change) if change.after.drops is not None else self._told(change)
        self.failures: Counter[int] = Counter()  # errno → frames of the host's generators that a redirect refused
        self.failed: Counter[tuple[str, int]] = Counter()  # place, errno → frames that programs could not redirect
        for key, n in change.failures.items():
            if key.netns == self.netns and key.ifindex == _LOOPBACK:
                self.failures[key.errno] += n
            elif key.netns == self.netns:
                self.failed[(change.places.get((key.netns, key.ifindex), name), key.errno)] += n
        if change.after.failures is None:  # sockets know it of themselves
            here = {each.where for each in self.interfaces}
            self.failed.update({(w, errno.ENOBUFS): n for w, n in change.refused_by_sockets.items() if w in here})

    @cached_property
    def lost_without_queue(self) -> int:
        """Forwarded packets that found a link without a queue, as it is down: tx_dropped has them, and they have a name."""
        return self._dropped(lambda key: key.leaving and key.reason == "QDISC_DROP")

    def failed_at(self, each: InterfaceChange) -> int:
        """Redirects that failed of frames received at an interface, in either mode, or later on another CPU."""
        return sum(n for (where, _), n in self.failed.items() if where == each.where)

    def _seen(self, change: Change) -> Counter[DropKey]:
        """Packets that the stack dropped, as the probe saw them; what a driver did not send is in its tx_dropped."""
        seen = gained(change.after.drops or {}, change.before.drops or {}).items()
        return Counter({k: n for k, n in seen if k.netns == self.netns and k.reason not in _COPIES and not _sent(k)})

    def _told(self, change: Change) -> Counter[DropKey]:
        """The same without the probe: as far as counters tell."""
        unknown_types = {i.ifindex: unhandled(i, change.interfaces[i.peer]) for i in self.interfaces}
        others = {i.ifindex: i.rx_otherhost_dropped for i in self.interfaces}
        return counted_drops(self._before, self._after, unknown_types, others)

    def protocol(self, name: str) -> int:
        """What a protocol counter gained."""
        return self._after.protocols.get(name, 0) - self._before.protocols.get(name, 0)

    def _dropped(self, which: Callable[[DropKey], bool]) -> int:
        return sum(n for key, n in self.drops.items() if which(key))

    @cached_property
    def merged(self) -> int:
        """Packets that GRO put together with others: the IP layer counts them by ECN bits one by one, else as one.

        The ECN bits are counted after a look at the header, so what has none is taken off (net/ipv4/ip_input.c).
        """
        one_by_one = sum(self.protocol(f"IpExtIn{kind}Pkts") for kind in ("NoECT", "ECT0", "ECT1", "CE"))
        malformed = self._dropped(lambda key: key.protocol == MALFORMED)
        return one_by_one - (self.protocol("IpInReceives") - malformed)

    @property
    def merged_on_the_way(self) -> int:
        """Of those, what was only passed on: a forwarder that takes no TCP itself cuts them up again as it sends."""
        return self.merged if self.protocol("IpForwDatagrams") and not self.protocol("TcpInSegs") else 0

    @property
    def tcp(self) -> int:
        """Segments that TCP took."""
        dropped = self._dropped(lambda key: key.transport and key.protocol == _TCP)
        return self.protocol("TcpInSegs") - dropped + self.merged - self.merged_on_the_way

    @property
    def icmp(self) -> int:
        """Messages that ICMP took."""
        return self.protocol("IcmpInMsgs") - self._dropped(lambda key: key.transport and key.protocol == _ICMP)

    @property
    def arp(self) -> int:
        """ARP packets that the kernel took."""
        return self._after.arp - self._before.arp - self._dropped(lambda key: key.ethertype == _ETH_P_ARP)

    @property
    def absorbed_fragments(self) -> int:
        """Fragments less the datagrams made of them: they wait, were joined, or went with their datagram."""
        named = self._dropped(lambda key: "FRAG" in key.reason)
        return self.protocol("IpReasmReqds") - self.protocol("IpReasmOKs") - named

    @property
    def reassembling(self) -> int:
        """Datagrams of which fragments wait."""
        return self._after.reassembling

    @property
    def own(self) -> int:
        """Packets that the host's stack itself sent; below 0, what it took on and no peer has received (see ``stuck``).

        tx_packets counts what XDP sent through the interface too, and the stack also sends what it forwards, or what
        generic XDP sent on.
        """
        return self.stack - self._change.sent_on.get(self.name, 0) - self.generic_copies

    @property
    def handed(self) -> int:
        """Frames that packet sockets of the lab gave to its interfaces; IP's counters don't know them."""
        return sum(self._change.handed.get(each.where, 0) for each in self.interfaces)

    @cached_property
    def left_together(self) -> int:
        """Segments of its own that TSO left together with another: the link counts one packet, the receiving TCP each.

        TcpOutSegs and TcpRetransSegs have every segment, IpOutRequests one packet for those that are together (and for
        every other protocol's).
        """
        if not any(counters.interfaces[i.where].tso for counters in self._samples for i in self.interfaces):
            return 0
        made = sum(self.protocol(name) for name in _SENT)
        return max(0, made - self.protocol("IpOutRequests"))

    @property
    def never_sent(self) -> int:
        """What programs gave to AF_XDP sockets to be sent, and no driver has seen."""
        here = {each.where for each in self.interfaces}
        return sum(each.never_sent for where, each in self._change.sockets.items() if interface_of(where) in here)

    @property
    def _forwarded(self) -> int:
        forwarded = self.protocol("IpForwDatagrams") - self._lost_on_their_way_out()
        return forwarded + self.merged_on_the_way

    @cached_property
    def stack(self) -> int:
        """Packets that left through the stack, or met a full ring then, and that it did not forward."""
        stack = sum(i.tx_packets - i.bulks.sent - i.xdp_tx + self.stack_drops(i) for i in self.interfaces)
        return stack - self._forwarded

    @property
    def generic_copies(self) -> int:
        """What a generic program's broadcast added: sent by the stack, and none of its own (IpOutRequests).

        Below 0: what it sent to nowhere, as the map was empty.
        """
        if (self.name, "generic") not in self._change.after.ways.broadcasts:
            return 0
        return self.stack - self._change.sent_on.get(self.name, 0) - self.protocol("IpOutRequests")

    def _lost_on_their_way_out(self) -> int:
        """Packets that IpForwDatagrams has, and that no driver has got.

        Since Linux 6.7, which brought OutTransmits, it counts before a packet turns out too big for the next link.
        """
        late = ("NEIGH_", "PKT_TOO_BIG") if "IpOutTransmits" in self._after.protocols else ("NEIGH_",)
        return self._dropped(lambda key: key.ethertype == _ETH_P_IP and key.reason.startswith(late))

    @property
    def stuck(self) -> int:
        """Frames that XDP sent into a peer's ring that nobody empties: the driver took them, tx_packets hasn't got them."""
        return max(0, min(-self.own, sum(i.bulks.sent + i.xdp_tx for i in self.interfaces)))

    def stack_drops(self, interface: InterfaceChange) -> int:
        """Packets of the stack that found the peer's ring full."""
        return interface.unsent - self.refused(interface)

    def refused(self, interface: InterfaceChange) -> int:
        """Redirected frames that the driver refused altogether (ENXIO: the peer is down, or has no ring)."""
        return self._change.flow.refused[interface.where]


def _sent(key: DropKey) -> bool:
    """Whether a driver dropped it that was to send it: it gives no reason, and counts it itself."""
    return key.leaving and key.reason in UNNAMED and not key.transport
