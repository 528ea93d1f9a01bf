"""What the counters gained between two samples: by interface, and by host."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from labkit.observe.bulk import Bulks
from labkit.observe.counted import counted_drops, gained, unhandled
from labkit.observe.drops import MALFORMED, DropKey
from labkit.observe.redirects import FailureKey
from labkit.observe.sample import InterfaceCounters, Sample
from labkit.observe.verdicts import Tally

__all__ = ["Change", "HostChange", "InterfaceChange"]

_ETH_P_ARP, _ETH_P_IP = 0x0806, 0x0800  # include/uapi/linux/if_ether.h
_ICMP, _TCP = 1, 6  # include/uapi/linux/in.h
_LOOPBACK = 1
_COPIES = ("PACKET_SOCK_ERROR",)  # a listener (tcpdump, the lab's for ARP) lost its copy; the packet itself went on


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
    xdp_tx: int  # sent back by XDP_TX
    xdp_tx_errors: int
    rx_drops: int  # redirects that failed, skbs that could not be made
    bulks: Bulks  # taken from a redirect (or a generator) for sending
    driver_xmit_errors: int  # bulks.dropped by the driver's own counter, which tx_dropped includes

    @classmethod
    def between(cls, where: str, made: int, old: InterfaceCounters, new: InterfaceCounters) -> InterfaceChange:
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
            queues("rx xdp_tx"),
            queues("rx xdp_tx_errors"),
            queues("rx drops"),
            new.bulks - old.bulks,
            queues("tx xdp_xmit_errors"),
        )

    @property
    def taken(self) -> int:
        """Redirected frames that the driver sent or met a full ring with."""
        return self.bulks.sent + self.bulks.dropped

    @property
    def unsent(self) -> int:
        """What tx_dropped has beside failures of XDP: packets of the stack that met a full ring, and refused bulks."""
        return self.tx_dropped - self.xdp_tx_errors - self.driver_xmit_errors


class HostChange:
    """What the counters of one host gained, and what follows from them."""

    def __init__(self, name: str, change: Change) -> None:
        self.name = name
        self._before, self._after = change.before.hosts[name], change.after.hosts[name]
        self.netns = self._after.netns
        self.interfaces = [i for i in change.interfaces.values() if i.host == name]
        self.drops = self._seen(change) if change.after.drops is not None else self._told(change)
        self._redirects_watched = change.after.failures is not None
        self._miscounted = change.after.miscounted
        self._tallies = change.tallies
        self.failures: Counter[int] = Counter()  # errno → frames of the host's generators that a redirect refused
        self._failed_here: Counter[int] = Counter()  # ifindex → frames that programs could not redirect
        for key, n in change.failures.items():
            if key.netns == self.netns and key.ifindex == _LOOPBACK:
                self.failures[key.errno] += n
            elif key.netns == self.netns:
                self._failed_here[key.ifindex] += n

    def _seen(self, change: Change) -> Counter[DropKey]:
        """Packets that the stack dropped, as the probe saw them."""
        seen = gained(change.after.drops or {}, change.before.drops or {}).items()
        return Counter({k: n for k, n in seen if k.netns == self.netns and k.reason not in _COPIES})

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
        stack = sum(i.tx_packets - i.bulks.sent - i.xdp_tx + self.stack_drops(i) for i in self.interfaces)
        forwarded = self.protocol("IpForwDatagrams") - self._lost_on_their_way_out()
        return stack - forwarded - self._sent_on() - self.merged_on_the_way

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

    def _sent_on(self) -> int:
        """Packets that generic XDP sent on as packets of the stack."""
        places = {i.where for i in self.interfaces}
        tallies = [gain for tally, gain in self._tallies if tally.mode == "generic" and places & set(tally.places)]
        wanted = sum(gain.get("XDP_TX", 0) + gain.get("XDP_REDIRECT", 0) for gain in tallies)
        failed = sum(self._failed_here[i.ifindex] for i in self.interfaces if i.mode == "generic")
        return wanted - failed

    def stack_drops(self, interface: InterfaceChange) -> int:
        """Packets of the stack that found the peer's ring full."""
        return interface.unsent - self.refused(interface)

    def refused(self, interface: InterfaceChange) -> int:
        """Generated frames that the driver refused altogether (ENXIO: the peer is down).

        Counted bulk by bulk while the watch runs; else known by two counters that must agree: what neither the driver
        nor a failed redirect accounts for, as far as tx_dropped has it.
        """
        if interface.bulks.refused:
            return interface.bulks.refused
        missing = interface.made - interface.taken - self.failures.total()
        return max(0, min(interface.unsent, missing)) if interface.made else 0

    @property
    def refused_unseen(self) -> int:
        """Generated frames that a redirect refused, where no probe tells why: no driver has taken or refused them.

        Every generated frame meets one of the three. Where the drivers miscount (``Sample.miscounted``) nothing is told.
        """
        if self._redirects_watched or self._miscounted:
            return 0
        return sum(max(0, i.made - i.taken - self.refused(i)) for i in self.interfaces if i.made)


class Change:
    """The difference of two samples of the same lab."""

    def __init__(self, before: Sample, after: Sample) -> None:
        self.before, self.after = before, after
        generated = gained(after.generated, before.generated)
        self.interfaces = {
            where: InterfaceChange.between(where, generated.get(where, 0), before.interfaces[where], new)
            for where, new in after.interfaces.items()
        }
        self.tallies: list[tuple[Tally, dict[str, int]]] = [
            (tally, gained(tally.counts, old[ident].counts if ident in old else {}))
            for old, new in ((before.verdicts, after.verdicts), (before.classifiers, after.classifiers))
            for ident, tally in new.items()
        ]
        self.failures: dict[FailureKey, int] = gained(after.failures or {}, before.failures or {})
        self.places = {(i.netns, i.ifindex): where for where, i in self.interfaces.items()}
        self.hosts = {name: HostChange(name, self) for name in after.hosts}
        self.drops: Counter[DropKey] = Counter()
        for host in self.hosts.values():
            self.drops.update(host.drops)

    def place(self, key: DropKey) -> str:
        """Where a packet was dropped: its interface, else its host."""
        host = next((host.name for host in self.hosts.values() if host.netns == key.netns), "?")
        return self.places.get((key.netns, key.ifindex), host)
