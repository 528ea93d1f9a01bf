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
    """The demo's name, what the sender says, and what became of every packet."""

    demo: str
    report: TrafficReport
    ledger: Ledger

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
        }

    def __str__(self) -> str:
        return f"{self.report}\n\n{self.ledger}"


def _by_errno(losses: Mapping[str, int]) -> dict[str, int]:
    """The ledger's losses, with ``redirect EOPNOTSUPP`` and ``XDP_TX ENXIO`` as the errno alone: the rows tell which."""
    found: Counter[str] = Counter()
    for key, packets in losses.items():
        word = key.rpartition(" ")[2]
        found[word if word in _ERRNOS else key] += packets
    return dict(found)
