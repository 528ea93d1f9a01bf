"""What a demo gives back: the sender's report and the ledger."""

from __future__ import annotations

import errno
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # the command's help need not wait for them
    from labkit.observe.ledger import Ledger
    from labkit.traffic.report import TrafficReport

__all__ = ["DemoResult"]

_ERRNOS = {"EOPNOTSUPP", *errno.errorcode.values()}  # of two names for one number Python lists the other


@dataclass(frozen=True)
class DemoResult:
    """The demo's name, what the sender says, and what became of every packet.

    Where a demo has a consumer of metadata: ``decoded`` packets whose metadata it read and found right, ``foreign`` those
    that came without metadata that it knows; else None, and not shown.
    """

    demo: str
    report: TrafficReport
    ledger: Ledger
    decoded: int | None = None
    foreign: int | None = None

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
        }

    def _consumed(self) -> dict[str, int]:
        """What the consumer of metadata counted, where there is one."""
        counts = {"decoded": self.decoded, "foreign": self.foreign}
        return {name: packets for name, packets in counts.items() if packets is not None}

    def __str__(self) -> str:
        counts = ", ".join(f"{packets:,} {name}" for name, packets in self._consumed().items())
        metadata = f"\n\nmetadata, by its consumer: {counts}" if counts else ""
        return f"{self.report}\n\n{self.ledger}{metadata}"


def _by_errno(losses: Mapping[str, int]) -> dict[str, int]:
    """The ledger's losses, with ``redirect EOPNOTSUPP`` and ``XDP_TX ENXIO`` as the errno alone: the rows tell which."""
    found: Counter[str] = Counter()
    for key, packets in losses.items():
        word = key.rpartition(" ")[2]
        found[word if word in _ERRNOS else key] += packets
    return dict(found)
