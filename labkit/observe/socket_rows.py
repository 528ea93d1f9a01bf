"""The ledger's rows for AF_XDP sockets: what programs took, what found no place, what waits in the rings."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from typing import TYPE_CHECKING

from labkit.observe.ledger import Check, Row
from labkit.observe.words import words_of

if TYPE_CHECKING:
    from labkit.observe.change import Change
    from labkit.observe.host_change import HostChange

__all__ = ["delivered_to_sockets", "in_rings", "not_by_sockets", "refusal_checks", "socket_losses"]

_KERNEL, _RINGS = "XDP_STATISTICS", "the ring's positions"
# What a redirect to a socket fails with: no place in its receive ring; no buffer, or too long a packet (net/xdp/xsk.c).
_REFUSALS = (errno.ENOBUFS, errno.ENOMEM, errno.ENOSPC)


def delivered_to_sockets(change: Change) -> Iterator[Row]:
    """What programs took out of receive rings."""
    for where, each in change.sockets.items():
        yield Row("delivered", "delivered", "delivered to AF_XDP", where, each.taken, _RINGS, "pass")


def socket_losses(change: Change) -> Iterator[Row]:
    """What sockets had no place for, what can't be sent, and what went down with a closed socket."""
    for where, each in change.sockets.items():
        for key, packets, source in (
            ("xsk rx_ring_full", each.ring_full, _KERNEL),
            ("xsk rx_fill_ring_empty_descs", each.no_buffer, _KERNEL),
            ("xsk rx_dropped", each.too_long, _KERNEL),
            ("xsk tx_invalid_descs", each.invalid, _KERNEL),
            ("SOCKET_CLOSE", each.unread + each.discarded, _RINGS),
        ):
            words = words_of(key)
            yield Row("loss", key, words.name, where, packets, source, words.role, words.explains)


def in_rings(change: Change) -> Iterator[Row]:
    """What waits for the program, and what for the kernel."""
    for where, each in change.sockets.items():
        yield Row("in_flight", "in flight", "in flight: receive ring", where, each.waiting, _RINGS)
        yield Row("in_flight", "in flight", "in flight: transmit ring", where, each.unsent, _RINGS)


def not_by_sockets(change: Change, host: HostChange) -> Iterator[tuple[str, int, int]]:
    """Redirects that failed, but for those that sockets refused: place, errno, packets."""
    known = dict(change.refused_by_sockets)
    for (where, number), count in host.failed.items():
        by_sockets = min(count, known.get(where, 0)) if number in _REFUSALS else 0
        known[where] = known.get(where, 0) - by_sockets
        yield where, number, count - by_sockets


def refusal_checks(change: Change) -> Iterator[Check]:
    """Second opinions: what sockets refused, by the tracepoint and by their own count."""
    for where, refused in change.refused_by_sockets.items():
        failed = change.hosts[change.interfaces[where].host].failed
        seen = sum(count for (place, number), count in failed.items() if place == where and number in _REFUSALS)
        if refused and change.after.failures is not None:
            yield Check(f"refused by AF_XDP sockets at {where}, by tracepoint and by the sockets", seen, refused)
