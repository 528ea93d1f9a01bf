"""What a demo gives back: the sender's report and the ledger."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # the command's help need not wait for them
    from labkit.observe.ledger import Ledger
    from labkit.traffic.report import TrafficReport

__all__ = ["DemoResult"]


@dataclass(frozen=True)
class DemoResult:
    """The demo's name, what the sender says, and what became of every packet."""

    demo: str
    report: TrafficReport
    ledger: Ledger

    def as_dict(self) -> dict[str, Any]:
        """For JSON; ``seconds`` and ``pps`` are the sender's."""
        ledger = self.ledger
        return {
            "demo": self.demo,
            "sent": ledger.sent,
            "copies": ledger.copies,
            "delivered": ledger.delivered,
            "losses": dict(ledger.losses),
            "in_flight": ledger.in_flight,
            "unaccounted": ledger.unaccounted,
            "rows": [asdict(row) for row in ledger.rows],
            "seconds": round(self.report.seconds, 6),
            "pps": round(self.report.pps),
        }

    def __str__(self) -> str:
        return f"{self.report}\n\n{self.ledger}"
