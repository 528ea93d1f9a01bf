"""Balancing: from two samples to a ledger.

Every packet is made once and ends once. It is made by a generator or by a host's stack; it ends in a socket or a
protocol (delivered), or at a place that drops it (a loss with a name). What happens between (XDP_TX, a redirect, the
kernel's forwarding) moves it and counts as neither.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TypeVar

from labkit.observe.drops import DropKey, reason_name
from labkit.observe.ledger import Check, Ledger, Row
from labkit.observe.sample import InterfaceCounters, Sample
from labkit.observe.verdicts import Tally
from labkit.observe.words import words_of

__all__ = ["balance"]

K = TypeVar("K")

_ICMP, _TCP = 1, 6  # include/uapi/linux/in.h
_DROPPING = {"XDP_DROP": "XDP_DROP", "XDP_ABORTED": "XDP_ABORTED", "unknown": "unknown verdict"}


def balance(before: Sample, after: Sample) -> Ledger:
    """The ledger of what happened between two samples of the same lab."""
    change = _Change(before, after)
    rows = [
        *change.sent_rows(),
        *change.delivered_rows(),
        *change.xdp_rows(),
        *change.driver_rows(),
        *change.stack_rows(),
        *change.waiting_rows(),
    ]
    return Ledger(rows, after.time_s - before.time_s, change.checks, after.notes)


@dataclass
class _Difference:
    """What the counters of one interface gained; per-queue counters of the driver are sums over queues."""

    host: str
    netns: int
    ifindex: int
    mode: str
    tx_packets: int
    tx_dropped: int
    xdp_drops: int  # XDP_DROP, XDP_ABORTED and unknown codes together
    xdp_tx: int  # sent back by XDP_TX
    xdp_tx_errors: int
    rx_drops: int  # redirects that failed, skbs that could not be made
    xdp_xmit: int  # taken from a redirect (or a generator) for sending
    xdp_xmit_errors: int
    driver_xmit_errors: int  # the same by the driver's own counter, which tx_dropped includes

    @classmethod
    def between(cls, old: InterfaceCounters, new: InterfaceCounters) -> _Difference:
        def link(name: str) -> int:
            return new.link.get(name, 0) - old.link.get(name, 0)

        def queues(name: str) -> int:
            return new.queues(name) - old.queues(name)

        return cls(
            new.host,
            new.netns,
            new.ifindex,
            new.mode,
            link("tx_packets"),
            link("tx_dropped"),
            queues("rx xdp_drops"),
            queues("rx xdp_tx"),
            queues("rx xdp_tx_errors"),
            queues("rx drops"),
            new.bulks.sent - old.bulks.sent,
            new.bulks.dropped - old.bulks.dropped,
            queues("tx xdp_xmit_errors"),
        )

    @property
    def stack_drops(self) -> int:
        """Packets of the stack that found the peer's ring full."""
        return self.tx_dropped - self.xdp_tx_errors - self.driver_xmit_errors

    @property
    def stack_sent(self) -> int:
        """Packets the stack (not XDP) gave to the interface; tx_packets also counts what XDP sent through it."""
        return self.tx_packets - self.xdp_xmit - self.xdp_tx + self.stack_drops


class _Change:
    """The difference of two samples, asked for one kind of row at a time."""

    def __init__(self, before: Sample, after: Sample) -> None:
        self.before, self.after = before, after
        self.checks: list[Check] = []
        self.interfaces = {
            where: _Difference.between(before.interfaces[where], new) for where, new in after.interfaces.items()
        }
        self.tallies = [
            (tally, _gained(tally.counts, before.verdicts[ident].counts if ident in before.verdicts else {}))
            for ident, tally in after.verdicts.items()
        ]
        self.drops: Counter[DropKey] = Counter(_gained(after.drops, before.drops))
        self.names = {(i.netns, i.ifindex): where for where, i in self.interfaces.items()}

    def protocol(self, host: str, name: str) -> int:
        """What a protocol counter of ``host`` gained."""
        return self.after.hosts[host].protocols.get(name, 0) - self.before.hosts[host].protocols.get(name, 0)

    def sent_rows(self) -> Iterator[Row]:
        """One row a source: a generator's frames, and what each interface's stack sent that came from nowhere else."""
        generated = _gained(self.after.generated, self.before.generated)
        for where, change in self.interfaces.items():
            made = generated.get(where, 0)
            own = change.stack_sent - self._resent(where, change)
            yield Row("sent", "sent", "sent", where, made + own, "generator's report + tx_packets, tx_dropped")
            if made:
                taken = change.xdp_xmit + change.xdp_xmit_errors
                self.checks.append(Check(f"generated at {where}, and taken by its driver", made, taken))

    def _resent(self, where: str, change: _Difference) -> int:
        """Packets of the stack at an interface that had been received before: forwarded, or sent back by generic XDP."""
        first = next(name for name, other in self.interfaces.items() if other.host == change.host)
        forwarded = self.protocol(change.host, "IpForwDatagrams") if where == first else 0
        back = sum(
            gained.get("XDP_TX", 0)
            for tally, gained in self.tallies
            if tally.mode == "generic" and where in tally.places
        )
        return forwarded + back

    def delivered_rows(self) -> Iterator[Row]:
        """What sockets read and protocols took, by host."""
        for host in self.after.hosts:
            merged = self._merged(host)
            yield _delivered(
                "delivered to sockets", f"{host} UDP", self.protocol(host, "UdpInDatagrams"), "UdpInDatagrams"
            )
            tcp = self.protocol(host, "TcpInSegs") - self._transport_drops(host, _TCP) + merged
            yield _delivered("delivered to TCP", f"{host} TCP", tcp, "TcpInSegs − drops in TCP + merged by GRO")
            icmp = self.protocol(host, "IcmpInMsgs") - self._transport_drops(host, _ICMP)
            yield _delivered("delivered to ICMP", f"{host} ICMP", icmp, "IcmpInMsgs − drops in ICMP")

    def _merged(self, host: str) -> int:
        """Packets that GRO put together with others: the IP layer counts them by ECN bits one by one, else as one."""
        one_by_one = sum(self.protocol(host, f"IpExtIn{kind}Pkts") for kind in ("NoECT", "ECT0", "ECT1", "CE"))
        return one_by_one - self.protocol(host, "IpInReceives")

    def _transport_drops(self, host: str, protocol: int) -> int:
        netns = {i.netns for i in self.interfaces.values() if i.host == host}
        return sum(
            n for key, n in self.drops.items() if key.netns in netns and key.transport and key.protocol == protocol
        )

    def xdp_rows(self) -> Iterator[Row]:
        """Losses by verdict: the programs' own counts, against the driver's."""
        for tally, gained in self.tallies:
            lost = {key: gained.get(verdict, 0) for verdict, key in _DROPPING.items()}
            for key, count in lost.items():
                yield _loss(key, ", ".join(tally.places), count, f"map verdicts of {tally.program}")
            if tally.mode == "generic":
                self._explained_by_generic(tally, sum(lost.values()))
        for where, change in self.interfaces.items():
            counted = sum(
                gained.get(verdict, 0)
                for tally, gained in self.tallies
                if tally.mode == "native" and tally.places == (where,)
                for verdict in _DROPPING
            )
            shared = any(
                tally.mode == "native" and where in tally.places and len(tally.places) > 1 for tally, _ in self.tallies
            )
            if shared:
                continue
            if counted:
                self.checks.append(
                    Check(f"dropped in XDP at {where}, by program and by driver", counted, change.xdp_drops)
                )
            if change.xdp_drops > counted:
                yield _loss("XDP drop (driver)", where, change.xdp_drops - counted, "driver: rx xdp_drops")

    def _explained_by_generic(self, tally: Tally, lost: int) -> None:
        """A generic XDP drop is a freed skb without a reason: take it off the stack's drops, it has its name already."""
        for key in list(self.drops):
            place = self.names.get((key.netns, key.ifindex))
            if reason_name(key.reason) in ("NOT_SPECIFIED", "XDP") and not key.transport and place in tally.places:
                known = min(lost, self.drops[key])
                self.drops[key] -= known
                lost -= known

    def driver_rows(self) -> Iterator[Row]:
        """Losses in the veth driver: full rings, and what it could not send or redirect."""
        for where, change in self.interfaces.items():
            full = change.stack_drops + change.xdp_xmit_errors
            yield _loss(
                "ring full", f"after {where}", full, "tx_dropped, xdp_xmit_errors or tracepoint xdp_devmap_xmit"
            )
            yield _loss("XDP_TX refused", where, change.xdp_tx_errors, "driver: rx xdp_tx_errors")
            yield _loss("rx drops (driver)", where, change.rx_drops, "driver: rx drops")

    def stack_rows(self) -> Iterator[Row]:
        """Losses in the stack by the kernel's drop reasons."""
        found: Counter[tuple[str, str]] = Counter()
        for key, count in self.drops.items():
            place = self.names.get((key.netns, key.ifindex)) or self._host(key.netns)
            found[(reason_name(key.reason), place)] += count
        for (reason, place), count in sorted(found.items()):
            yield _loss(reason, place, count, "tracepoint kfree_skb")

        for where, count in _gained(self.after.discarded, self.before.discarded).items():
            yield _loss("SOCKET_CLOSE", where, count, "the socket's own queue at its end")

    def _host(self, netns: int) -> str:
        return next((i.host for i in self.interfaces.values() if i.netns == netns), "?")

    def waiting_rows(self) -> Iterator[Row]:
        """Datagrams that wait in the lab's sockets."""
        for host in self.after.hosts:
            new, old = self.after.hosts[host].queued, self.before.hosts[host].queued
            for where in new:
                waiting = new[where] - old.get(where, 0)
                yield Row("in_flight", "in flight", "in flight: socket queue", where, waiting, "the socket's own queue")


def _gained(after: Mapping[K, int], before: Mapping[K, int]) -> dict[K, int]:
    return {key: value - before.get(key, 0) for key, value in after.items()}


def _delivered(name: str, where: str, packets: int, source: str) -> Row:
    return Row("delivered", "delivered", name, where, packets, source, "pass")


def _loss(key: str, where: str, packets: int, source: str) -> Row:
    words = words_of(key)
    return Row("loss", key, words.name, where, packets, source, words.role, words.explains)
