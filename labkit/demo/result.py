"""What a demo gives back: the sender's report and the ledger."""

from __future__ import annotations

import errno
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # the command's help need not wait for them
    from labkit.buffers import Buffers
    from labkit.observe.ledger import Ledger
    from labkit.traffic.report import TrafficReport

__all__ = ["DemoResult"]

_ERRNOS = {"EOPNOTSUPP", *errno.errorcode.values()}  # of two names for one number Python lists the other


@dataclass(frozen=True)
class DemoResult:
    """The demo's name, what the sender says, and what became of every packet.

    Where a demo has a consumer of metadata: ``decoded`` packets whose metadata it read and found right, ``foreign`` those
    that came without metadata that it knows; else None, and not shown.
    Where it watches page pools: ``parked`` while ``waiting`` datagrams kept their pages, ``buffers`` at the end.
    """

    demo: str
    report: TrafficReport
    ledger: Ledger
    decoded: int | None = None
    foreign: int | None = None
    buffers: Buffers | None = None
    parked: Buffers | None = None
    waiting: int = 0

    def as_dict(self) -> dict[str, Any]:
        """For JSON; ``seconds`` and ``pps`` are the sender's. What the kernel refused is in ``losses`` by its errno's name."""
        ledger = self.ledger
        return {
            "demo": self.demo,
            "sent": ledger.sent,
            "copies": ledger.copies,
            "delivered": ledger.delivered,
            "losses": _by_errno(ledger.losses),
            "in_flight": ledger.in_flight,
            "unaccounted": ledger.unaccounted,
            "rows": [asdict(row) for row in ledger.rows],
            "seconds": round(self.report.seconds, 6),
            "pps": round(self.report.pps),
            **self._consumed(),
            **self._pages(),
        }

    def _consumed(self) -> dict[str, int]:
        """What the consumer of metadata counted, where there is one."""
        counts = {"decoded": self.decoded, "foreign": self.foreign}
        return {name: packets for name, packets in counts.items() if packets is not None}

    def _pages(self) -> dict[str, int | float]:
        """Pages of page pools at the end, and how many were out before, where the demo watches them."""
        if self.buffers is None or self.parked is None:
            return {}
        return {
            "pages_held": self.buffers.held,
            "pages_released": self.buffers.released,
            "pages_in_flight": self.buffers.in_flight,
            "recycle_ratio": round(self.buffers.recycle_ratio or 0.0, 6),
            "pages_parked": self.parked.out,
            "datagrams_waiting": self.waiting,
        }

    def __str__(self) -> str:
        counts = ", ".join(f"{packets:,} {name}" for name, packets in self._consumed().items())
        metadata = f"\n\nmetadata, by its consumer: {counts}" if counts else ""
        return f"{self.report}\n\n{self.ledger}{metadata}{self._page_story()}"

    def _page_story(self) -> str:
        if self.buffers is None or self.parked is None:
            return ""
        return (
            f"\n\nWhile {self.waiting:,} datagrams wait in a socket, {self.parked.out:,} pages are out:\n{self.parked}"
            f"\n\nAfter the last was read:\n{self.buffers}"
        )


def _by_errno(losses: Mapping[str, int]) -> dict[str, int]:
    """The ledger's losses, with ``redirect EOPNOTSUPP`` and ``XDP_TX ENXIO`` as the errno alone: the rows tell which."""
    found: Counter[str] = Counter()
    for key, packets in losses.items():
        word = key.rpartition(" ")[2]
        found[word if word in _ERRNOS else key] += packets
    return dict(found)
