"""Balancing: from two samples to a ledger.

Every packet is made once and ends once. It is made by a generator or by a host's stack; it ends in a socket or a
protocol (delivered), or at a place that drops it (a loss with a name). What happens between (XDP_TX, a redirect, the
kernel's forwarding) moves it and counts as neither.
"""

from __future__ import annotations

import errno
from collections import Counter
from collections.abc import Iterator

from labkit.observe.change import Change, HostChange, InterfaceChange
from labkit.observe.counted import gained
from labkit.observe.drops import DropKey
from labkit.observe.ledger import Check, Ledger, Row
from labkit.observe.sample import Sample
from labkit.observe.verdicts import Tally
from labkit.observe.words import words_of

__all__ = ["balance"]

_DROPPING = {
    "XDP_DROP": "XDP_DROP",
    "XDP_ABORTED": "XDP_ABORTED",
    "unknown": "unknown verdict",
    "TC_ACT_SHOT": "TC_INGRESS",
}
_UNNAMED = ("NOT_SPECIFIED", "XDP")  # the reasons of a generic XDP drop, by kernel


def balance(before: Sample, after: Sample) -> Ledger:
    """The ledger of what happened between two samples of the same lab."""
    change = Change(before, after)
    unexplained = Counter(change.drops)
    rows = [
        *(row for host in change.hosts.values() for row in _sent(host)),
        *(row for host in change.hosts.values() for row in _delivered(host)),
        *_xdp_losses(change, unexplained),
        *(row for host in change.hosts.values() for row in _driver_losses(host)),
        *_stack_losses(change, unexplained),
        *_waiting(change),
    ]
    return Ledger(rows, after.time_s - before.time_s, _checks(change), after.notes)


def _sent(host: HostChange) -> Iterator[Row]:
    """What generators made for each interface, and what the host's own stack sent (by interface where there is one)."""
    source = "generator's report; tx_packets, tx_dropped"
    own = max(0, host.own)
    if len(host.interfaces) == 1:
        yield Row("sent", "sent", "sent", host.interfaces[0].where, host.interfaces[0].made + own, source)
        return
    for each in host.interfaces:
        if each.made:
            yield Row("sent", "sent", "sent", each.where, each.made, source)
    yield Row("sent", "sent", "sent", host.name, own, source)


def _delivered(host: HostChange) -> Iterator[Row]:
    """What sockets read and protocols took."""
    found = (
        ("delivered to sockets", "UDP", host.protocol("UdpInDatagrams"), "UdpInDatagrams"),
        ("delivered to TCP", "TCP", host.tcp, "TcpInSegs − drops in TCP + merged by GRO"),
        ("delivered to ICMP", "ICMP", host.icmp, "IcmpInMsgs − drops in ICMP"),
        ("delivered to ARP", "ARP", host.arp, "a socket for ARP − drops of ARP"),
    )
    for name, protocol, packets, source in found:
        yield Row("delivered", "delivered", name, f"{host.name} {protocol}", packets, source, "pass")
    absorbed, source = host.absorbed_fragments, "IpReasmReqds − IpReasmOKs"
    if host.reassembling:
        yield Row("in_flight", "in flight", "fragments joined, or waiting", f"{host.name} IP", absorbed, source)
    elif host.protocol("IpReasmOKs"):
        yield Row("delivered", "delivered", "fragments joined", f"{host.name} IP", absorbed, source, "pass")
    else:
        yield _loss("FRAG_REASM_TIMEOUT", f"{host.name} IP", absorbed, source)


def _xdp_losses(change: Change, unexplained: Counter[DropKey]) -> Iterator[Row]:
    """Losses by verdict: the programs' own counts, and where there are none the driver's."""
    for tally, gain in change.tallies:
        lost = {key: gain.get(verdict, 0) for verdict, key in _DROPPING.items()}
        for key, count in lost.items():
            yield _loss(key, ", ".join(tally.places), count, f"{tally.program}'s own count")
        if tally.mode == "generic":
            _explain(change, unexplained, tally, sum(lost.values()))
    for where, each in change.interfaces.items():
        if not _shared(change, where):
            silent = each.xdp_drops - _counted(change, where)
            yield _loss("XDP drop (driver)", where, max(0, silent), "driver: rx xdp_drops")


def _explain(change: Change, unexplained: Counter[DropKey], tally: Tally, lost: int) -> None:
    """A generic XDP drop is a freed skb without a reason: take it off the stack's drops, it has its name already."""
    for key in list(unexplained):
        if key.reason in _UNNAMED and not key.transport and change.place(key) in tally.places:
            known = min(lost, unexplained[key])
            unexplained[key] -= known
            lost -= known


def _counted(change: Change, where: str) -> int:
    """Drops that native programs at ``where`` counted themselves."""
    return sum(
        gain.get(verdict, 0)
        for tally, gain in change.tallies
        if tally.mode == "native" and tally.places == (where,)
        for verdict in _DROPPING
    )


def _shared(change: Change, where: str) -> bool:
    """Whether a counting map serves ``where`` and another interface: then neither's part is known."""
    return any(t.mode == "native" and where in t.places and len(t.places) > 1 for t, _ in change.tallies)


def _driver_losses(host: HostChange) -> Iterator[Row]:
    """Losses in the driver: full rings, and what it could not take, send or redirect."""
    for number, count in host.failures.items():
        word = "EOPNOTSUPP" if number == errno.EOPNOTSUPP else errno.errorcode.get(number, str(number))
        yield _loss(f"redirect {word}", host.name, count, "tracepoint xdp_redirect_err")
    yield _loss("redirect refused", host.name, host.refused_unseen, "generator's report − xdp_xmit, tx_dropped")
    for each in host.interfaces:
        full = host.stack_drops(each) + each.bulks.dropped
        yield _loss("ring full", f"after {each.where}", full, "tx_dropped, xdp_xmit_errors or xdp_devmap_xmit")
        yield _loss("redirect ENXIO", each.where, host.refused(each), "tx_dropped, or tracepoint xdp_devmap_xmit")
        yield _loss("XDP_TX refused", each.where, each.xdp_tx_errors, "driver: rx xdp_tx_errors")
        yield _loss("rx drops (driver)", each.where, each.rx_drops, "driver: rx drops")


def _stack_losses(change: Change, unexplained: Counter[DropKey]) -> Iterator[Row]:
    """Losses in the stack by the kernel's drop reasons, and what went down with a closed socket."""
    source = "tracepoint kfree_skb" if change.after.drops is not None else "the kernel's counters of errors"
    found: Counter[tuple[str, str]] = Counter()
    for key, count in unexplained.items():
        place, reason = change.place(key), key.reason
        at = change.interfaces.get(place)
        if reason in _UNNAMED and not key.transport and at is not None and at.mode == "generic":
            reason = "XDP drop (generic)"
        found[(reason, place)] += count
    for (reason, place), count in sorted(found.items()):
        yield _loss(reason, place, count, source)
    for where, count in gained(change.after.discarded, change.before.discarded).items():
        yield _loss("SOCKET_CLOSE", where, count, "the socket's own queue at its end")


def _waiting(change: Change) -> Iterator[Row]:
    """What waits: datagrams in the lab's sockets, frames in a ring that nobody empties."""
    for name, host in change.hosts.items():
        new, old = change.after.hosts[name].queued, change.before.hosts[name].queued
        for where in new:
            waiting = new[where] - old.get(where, 0)
            yield Row("in_flight", "in flight", "in flight: socket queue", where, waiting, "the socket's own queue")
        yield Row(
            "in_flight",
            "in flight",
            "in flight: a ring nobody empties",
            f"after {name}",
            host.stuck,
            "driver, tx_packets",
        )


def _checks(change: Change) -> Iterator[Check]:
    """Second opinions: two independent counters of the same packets."""
    for where, each in change.interfaces.items():
        if each.made and change.after.failures is not None:
            yield _generated_check(change.hosts[each.host], each)
        counted = _counted(change, where)
        if counted and not _shared(change, where):
            yield Check(f"dropped in XDP at {where}, by program and by driver", counted, each.xdp_drops)


def _generated_check(host: HostChange, each: InterfaceChange) -> Check:
    seen = each.taken + host.refused(each) + host.failures.total()
    return Check(f"generated at {each.where}, and seen by its driver", each.made, seen)


def _loss(key: str, where: str, packets: int, source: str) -> Row:
    words = words_of(key)
    return Row("loss", key, words.name, where, packets, source, words.role, words.explains)
