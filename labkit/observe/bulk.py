"""What drivers took from redirects, counted by the tracepoint xdp_devmap_xmit: once a bulk, exact on any number of CPUs.

veth keeps such counts itself, with plain additions: two CPUs that send into one receive queue lose some of them (1 bulk
in some thousands). One sender is counted right, so the watch starts with the first traffic of more than one thread.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from labkit.observe.tracepoint import TracepointCounter

__all__ = ["BulkWatch", "Bulks"]

_OFFSETS = {
    "dev_net": ("net_device", "nd_net"),
    "dev_ifindex": ("net_device", "ifindex"),
    "net_inum": ("net", "ns", "inum"),
}


@dataclass(frozen=True)
class Bulks:
    """Frames that an interface's driver took from redirects (``sent``), that met a full ring (``dropped``), or that it
    refused altogether (``refused``: the peer is down, or can't take frames; known only while the watch runs).
    """

    sent: int = 0
    dropped: int = 0
    refused: int = 0

    def __add__(self, other: Bulks) -> Bulks:
        return Bulks(self.sent + other.sent, self.dropped + other.dropped, self.refused + other.refused)

    def at_least(self, other: Bulks) -> Bulks:
        """The greater of two counts of the same frames, for neither ever counts too many.

        The driver's lose some where several CPUs send; the watch's very rarely do, some bulks in a row.
        """
        return Bulks(max(self.sent, other.sent), max(self.dropped, other.dropped), max(self.refused, other.refused))

    def __sub__(self, other: Bulks) -> Bulks:
        return Bulks(self.sent - other.sent, self.dropped - other.dropped, self.refused - other.refused)


class BulkWatch:
    """Counts the bulks of the namespaces given. ``before`` is what the drivers had counted when the watch began."""

    def __init__(self, namespaces: Iterable[int], before: dict[tuple[int, int], Bulks]) -> None:
        self._before = before
        self._counter = TracepointCounter("xdp_devmap_xmit", "bulk_transmit.c", "count_bulk", _OFFSETS, namespaces)

    def read(self) -> dict[tuple[int, int], Bulks]:
        """(inode of the namespace, ifindex) → all bulks of the interface, those before the watch included."""
        seen = {key: Bulks(**value) for key, value in self._counter.map("bulks").read().items()}
        return {key: before + seen.get(key, Bulks()) for key, before in self._before.items()}

    def close(self) -> None:
        """Detach. Safe to call again."""
        self._counter.close()
