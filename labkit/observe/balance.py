"""Balancing: from two samples to a ledger.

Every packet is made once and ends once. It is made by a generator, by a host's stack, or as a copy by an XDP broadcast;
it ends in a socket or a protocol (delivered), or at a place that drops it (a loss with a name). What happens between
(XDP_TX, a redirect, another CPU's queue, the kernel's forwarding) moves it and counts as neither.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from labkit.observe.change import Change
from labkit.observe.counted import gained
from labkit.observe.drops import UNNAMED, DropKey
from labkit.observe.elsewhere import copies, driver_losses, flow_checks, loss, slot_losses
from labkit.observe.flow import lost_in_slots
from labkit.observe.host_change import HostChange
from labkit.observe.interface_change import InterfaceChange
from labkit.observe.ledger import Check, Ledger, Row
from labkit.observe.sample import Sample
from labkit.observe.socket_rows import delivered_to_sockets, in_rings, socket_losses

__all__ = ["balance"]

_DROPPING = {
    "XDP_DROP": "XDP_DROP",
    "XDP_ABORTED": "XDP_ABORTED",
    "unknown": "unknown verdict",
    "TC_ACT_SHOT": "TC_INGRESS",
}


def balance(before: Sample, after: Sample) -> Ledger:
    """The ledger of what happened between two samples of the same lab."""
    change = Change(before, after)
    unexplained = Counter(change.drops)
    rows = [
        *(row for host in change.hosts.values() for row in _sent(host)),
        *copies(change),
        *(row for host in change.hosts.values() for row in _delivered(host)),
        *delivered_to_sockets(change),
        *_xdp_losses(change, unexplained),
        *slot_losses(change),
        *socket_losses(change),
        *(row for host in change.hosts.values() for row in driver_losses(change, host)),
        *_stack_losses(change, unexplained),
        *_waiting(change),
        *in_rings(change),
    ]
    return Ledger(rows, after.time_s - before.time_s, _checks(change), after.notes)


def _sent(host: HostChange) -> Iterator[Row]:
    """What generators made for each interface, and what the host's own stack sent (by interface where there is one)."""
    source = "generator's report; tx_packets, tx_dropped" + ("; TcpOutSegs, as TSO is on" if host.left_together else "")
    # What a socket gave is sent, also where no driver has counted it: then it is missing, and the ledger has to show that.
    own = max(0, host.own, host.handed) + host.never_sent + host.left_together
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
        yield loss("FRAG_REASM_TIMEOUT", f"{host.name} IP", absorbed, source)


def _xdp_losses(change: Change, unexplained: Counter[DropKey]) -> Iterator[Row]:
    """Losses by verdict: the programs' own counts, and where there are none the driver's."""
    for tally, gain in change.tallies:
        lost = {key: gain.get(verdict, 0) for verdict, key in _DROPPING.items()}
        for key, count in lost.items():
            yield loss(key, ", ".join(tally.places), count, f"{tally.program}'s own count")
        native = sum(change.interfaces[where].xdp_drops for where in tally.native)
        _explain(change, unexplained, tally.generic_places, sum(lost.values()) - native)
    for each in change.interfaces.values():
        not_sent = change.hosts[each.host].stack_drops(each) if change.sends_generically(each) else 0
        _explain(change, unexplained, (each.where,), change.failed_generic(each) + not_sent)
        if not _shared(change, each.where):
            silent = each.xdp_drops - _counted(change, each.where)
            yield loss("XDP drop (driver)", each.where, max(0, silent), "driver: rx xdp_drops")
    if change.generic:  # frames that a program in a slot dropped: it has their names
        places = tuple(place for tally, _ in change.tallies for place in tally.generic_places)
        _explain(change, unexplained, places, lost_in_slots(change.slots, "devmap") - change.flow.egress)
        _explain(change, unexplained, places, lost_in_slots(change.slots, "cpumap"))


def _explain(change: Change, unexplained: Counter[DropKey], places: tuple[str, ...], lost: int) -> None:
    """A generic XDP drop is a freed skb without a reason: take it off the stack's drops, it has its name already."""
    for key in list(unexplained):
        if key.reason in UNNAMED and not key.transport and change.place(key) in places:
            known = max(0, min(lost, unexplained[key]))
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
    return any(where in tally.native_places and len(tally.places) > 1 for tally, _ in change.tallies)


def _stack_losses(change: Change, unexplained: Counter[DropKey]) -> Iterator[Row]:
    """Losses in the stack by the kernel's drop reasons, and what went down with a closed socket."""
    source = "tracepoint kfree_skb" if change.after.drops is not None else "the kernel's counters of errors"
    found: Counter[tuple[str, str]] = Counter()
    for key, count in unexplained.items():
        place, reason = change.place(key), key.reason
        at = change.interfaces.get(place)
        if reason in UNNAMED and not key.transport and at is not None and at.mode == "generic":
            reason = "XDP drop (generic)"
        found[(reason, place)] += count
    for (reason, place), count in sorted(found.items()):
        yield loss(reason, place, count, source)
    for where, count in gained(change.after.discarded, change.before.discarded).items():
        yield loss("SOCKET_CLOSE", where, count, "the socket's own queue at its end")


def _waiting(change: Change) -> Iterator[Row]:
    """What waits: datagrams in the lab's sockets, frames in a ring that nobody empties or in a CPU's queue."""
    for name, host in change.hosts.items():
        new, old = change.after.hosts[name].queued, change.before.hosts[name].queued
        for where in new:
            waiting = new[where] - old.get(where, 0)
            yield _in_flight("in flight: socket queue", where, waiting, "the socket's own queue")
        yield _in_flight("in flight: a ring nobody empties", f"after {name}", host.stuck, "driver, tx_packets")
    for where, queue in change.queues.items():
        source = "tracepoints xdp_cpumap_enqueue, xdp_cpumap_kthread"
        yield _in_flight("in flight: a CPU's queue", where, queue.waiting, source)


def _in_flight(name: str, where: str, packets: int, source: str) -> Row:
    return Row("in_flight", "in flight", name, where, packets, source)


def _checks(change: Change) -> Iterator[Check]:
    """Second opinions: two independent counters of the same packets."""
    for where, each in change.interfaces.items():
        if each.made and change.after.failures is not None and not change.redirected:
            yield _generated_check(change.hosts[each.host], each)
        counted = _counted(change, where)
        if counted and not _shared(change, where):
            yield Check(f"dropped in XDP at {where}, by program and by driver", counted, each.xdp_drops)
    yield from flow_checks(change)


def _generated_check(host: HostChange, each: InterfaceChange) -> Check:
    seen = each.taken + host.refused(each) + host.failures.total()
    return Check(f"generated at {each.where}, and seen by its driver", each.made, seen)
