"""Rows for what XDP sends elsewhere: copies, redirects that fail, full rings, programs in slots, CPUs' queues."""

from __future__ import annotations

import errno
from collections.abc import Iterator, Mapping

from labkit.observe.change import Change
from labkit.observe.flow import lost_in_slots
from labkit.observe.host_change import HostChange
from labkit.observe.interface_change import InterfaceChange
from labkit.observe.ledger import Check, Row
from labkit.observe.socket_rows import not_by_sockets, refusal_checks
from labkit.observe.verdicts import Tally
from labkit.observe.words import words_of

__all__ = ["copies", "driver_losses", "flow_checks", "loss", "slot_losses"]

_BY_DRIVERS = "drivers: rx xdp_redirect, tx xdp_xmit"


def loss(key: str, where: str, packets: int, source: str) -> Row:
    """A row for a loss, with the words for its key."""
    words = words_of(key)
    return Row("loss", key, words.name, where, packets, source, words.role, words.explains)


def errno_name(number: int) -> str:
    """``ENXIO`` for 6; the number where it has no name."""
    return "EOPNOTSUPP" if number == errno.EOPNOTSUPP else errno.errorcode.get(number, str(number))


def copies(change: Change) -> Iterator[Row]:
    """What broadcasts made more of, and what they sent to nobody."""
    where = {mode: ", ".join(sorted(h for h, m in change.after.ways.broadcasts if m == mode)) for mode in _MODES}
    generic = {name: host.generic_copies for name, host in change.hosts.items()}
    source = "tx_packets, tx_dropped − IpOutRequests"
    words = words_of("copied by broadcast")
    for place, count, by in [
        (where["native"], change.flow.copies, _BY_DRIVERS),
        *((name, max(0, count), source) for name, count in generic.items()),
    ]:
        yield Row("copies", "copies", words.name, place, count, by, words.role, words.explains)
    yield loss("broadcast to nobody", where["native"], change.flow.nowhere, _BY_DRIVERS)
    for name, count in generic.items():
        yield loss("broadcast to nobody", name, max(0, -count), source)


_MODES = ("native", "generic")


def slot_losses(change: Change) -> Iterator[Row]:
    """What programs in the slots of maps dropped, and what found a CPU's queue full."""
    for tally, gain in change.slots:
        for key, count in _slot_verdicts(tally, gain).items():
            yield loss(f"{tally.mode} {key}", ", ".join(tally.places), count, f"{tally.program}'s own count")
    if change.after.ways.silent_egress:
        yield loss("devmap drop", "on the way out", max(0, change.flow.left), _BY_DRIVERS)
    told = ", ".join(change.queues)
    yield loss("cpumap queue full", told, change.queues_full, "driver: rx xdp_redirect − the programs' own counts")
    silent = sum(queue.dropped for queue in change.queues.values()) - _told_on_cpus(change)
    for where, queue in change.queues.items():
        yield loss("cpumap queue full", where, queue.full, "tracepoint xdp_cpumap_enqueue")
        yield loss("cpumap ENOMEM", where, queue.no_memory, "tracepoint xdp_cpumap_kthread")
        uncounted = max(0, min(silent, queue.dropped))
        silent -= uncounted
        yield loss("cpumap drop", where, uncounted, "tracepoint xdp_cpumap_kthread")


def _slot_verdicts(tally: Tally, gain: Mapping[str, int]) -> dict[str, int]:
    """Losses by verdict: in a slot XDP_TX is none, and in a devmap's XDP_REDIRECT isn't either."""
    strange = gain.get("unknown", 0) + gain.get("XDP_TX", 0)
    if tally.mode == "devmap":
        strange += gain.get("XDP_REDIRECT", 0)
    return {
        "XDP_DROP": gain.get("XDP_DROP", 0),
        "XDP_ABORTED": gain.get("XDP_ABORTED", 0),
        "unknown verdict": strange,
    }


def _told_on_cpus(change: Change) -> int:
    """What CPUs dropped and has a name: by the program's own count, or as a redirect failed there."""
    return lost_in_slots(change.slots, "cpumap") + change.failed_on_cpus


def driver_losses(change: Change, host: HostChange) -> Iterator[Row]:
    """Losses in the driver: full rings, and what it could not take, send or redirect."""
    source = "tracepoint xdp_redirect_err"
    for number, count in host.failures.items():
        yield loss(f"redirect {errno_name(number)}", host.name, count, source)
    for where, number, count in not_by_sockets(change, host):
        yield loss(f"redirect {errno_name(number)}", where, count, source)
    yield loss("redirect refused", host.name, change.refused_unseen(host), "generator's report − xdp_xmit, tx_dropped")
    queueless = host.lost_without_queue
    for each in host.interfaces:
        by_stack = host.stack_drops(each)
        named = min(by_stack, queueless)
        queueless -= named
        source = "tx_dropped, xdp_xmit_errors or xdp_devmap_xmit"
        yield loss(each.full_or, f"after {each.where}", by_stack - named + each.ring_full, source)
        yield loss("redirect ENXIO", each.where, host.refused(each), "tx_dropped, or tracepoint xdp_devmap_xmit")
        yield from _not_sent_back(change, each)
        yield from _not_redirected(change, host, each)


def _not_sent_back(change: Change, each: InterfaceChange) -> Iterator[Row]:
    """Frames that XDP_TX lost: why, the tracepoint tells; else only a ring that ever took one can be full."""
    left = each.xdp_tx_errors
    for key, count in change.unsent.items():
        if (key.netns, key.ifindex) == (each.netns, each.ifindex):
            word = errno_name(key.errno) if key.errno else "ring full"
            yield loss(f"XDP_TX {word}", each.where, count, "tracepoint xdp_bulk_tx")
            left -= count
    key_left = "XDP_TX refused" if each.ever_sent_back else "XDP_TX ENXIO"
    yield loss(key_left, each.where, max(0, left), "driver: rx xdp_tx_errors")


def _not_redirected(change: Change, host: HostChange, each: InterfaceChange) -> Iterator[Row]:
    """What the driver dropped as it received, and no probe named: by the program's count, a redirect that failed."""
    left = max(0, each.rx_drops - host.failed_at(each))
    wanted = sum(gain.get("XDP_REDIRECT", 0) for tally, gain in change.tallies if tally.native_places == (each.where,))
    refused = max(0, min(left, wanted - each.xdp_redirect)) if change.after.failures is None else 0
    yield loss("redirect refused", each.where, refused, "the program's own count − driver: rx xdp_redirect")
    yield loss("rx drops (driver)", each.where, left - refused, "driver: rx drops")


def flow_checks(change: Change) -> Iterator[Check]:
    """Second opinions on what was sent elsewhere: by who sent it, and by where it came out."""
    flow, ways = change.flow, change.after.ways
    if change.redirected and not (ways.broadcasts or ways.sockets or ways.silent_egress) and change.knows_failures:
        yield Check("sent on by XDP, and seen where it went", flow.into, flow.into - flow.left)
    for where, each in change.interfaces.items():
        failed = change.hosts[each.host].failed_at(each)
        if failed and not change.queues and not change.failed_generic(each):
            yield Check(f"redirects that failed at {where}, by tracepoint and by driver", failed, each.rx_drops)
    yield from refusal_checks(change)
    if change.queues and lost_in_slots(change.slots, "cpumap"):
        by_thread = sum(queue.dropped for queue in change.queues.values())
        yield Check("dropped on CPUs, by programs and by the CPUs' threads", _told_on_cpus(change), by_thread)
