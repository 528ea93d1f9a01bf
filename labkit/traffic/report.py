"""What a burst of traffic was: the sender's own word, which the ledger then follows to its end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = ["TrafficReport"]


@dataclass(frozen=True)
class TrafficReport:
    """``sent`` packets were handed over at ``interface``, ``failed`` were refused, in ``seconds``.

    ``failures`` names the refusals; ``received`` is what came back to the sender (replies), None
    where that is not known.
    """

    kind: str
    interface: str
    sent: int
    failed: int
    seconds: float
    frame_bytes: int = 0
    failures: Mapping[str, int] = field(default_factory=dict)
    received: int | None = None

    @property
    def pps(self) -> float:
        """Packets a second, 0 where nothing was sent."""
        return self.sent / self.seconds if self.seconds > 0 else 0.0

    def __str__(self) -> str:
        text = f"{self.kind}: {self.sent:,} packets from {self.interface} in {self.seconds:.3f} s ({rate(self.pps)})"
        if self.failed:
            names = ", ".join(f"{name}: {count:,}" for name, count in self.failures.items())
            text += f"; {self.failed:,} refused" + (f" ({names})" if names else "")
        if self.received is not None:
            text += f"; {self.received:,} answers"
        return text

    __repr__ = __str__


def rate(pps: float) -> str:
    """A rate for people: ``5.02 Mpps``."""
    for divisor, unit in ((1e6, "Mpps"), (1e3, "kpps")):
        if pps >= divisor:
            return f"{pps / divisor:.3g} {unit}"
    return f"{pps:.0f} pps"
