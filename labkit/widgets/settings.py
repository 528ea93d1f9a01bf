"""What the panel's traffic controls are set to."""

from __future__ import annotations

from dataclasses import dataclass

from labkit.errors import TrafficError
from labkit.traffic.report import rate

__all__ = ["FASTEST", "FLOWS", "KINDS", "RATE_PPS", "SIZE_BYTES", "THREADS", "Settings", "threads_in_words"]

FASTEST = "as fast as it goes"
# What the controls on the page offer; from Python the limits are wider.
RATE_PPS = (1_000, 10_000_000)
SIZE_BYTES = (64, 1500)
THREADS = (1, 2)
FLOWS = (1, 10_000)
KINDS = {"UDP": ("UDP",), "TCP": ("TCP",), "ICMP": ("ICMP",), "mix": ("UDP", "TCP", "ICMP")}
_LIMITS = {"rate_pps": (1, 1e9), "size_bytes": (14, 9000), "threads": (1, 16), "flows": (1, 50_000)}


@dataclass(frozen=True)
class Settings:
    """The traffic asked for.

    ``rate_pps`` None for as fast as it goes, ``size_bytes`` of a frame, ``threads`` that send,
    ``flows`` the number of source ports they use (ICMP has none); ``kind`` UDP, TCP, ICMP or mix, a third of each.
    """

    rate_pps: float | None = None
    size_bytes: int = 64
    threads: int = 1
    flows: int = 1
    kind: str = "UDP"

    @property
    def kinds(self) -> tuple[str, ...]:
        """The protocols to send."""
        return KINDS[self.kind]

    def checked(self) -> Settings:
        """The same, or TrafficError where a value can't be."""
        for name, (low, high) in _LIMITS.items():
            value = getattr(self, name)
            optional = name == "rate_pps"
            if value is None and optional:
                continue
            number = isinstance(value, (int, float) if optional else int)
            if isinstance(value, bool) or not number or not low <= value <= high:
                raise TrafficError(
                    f"{name} can't be {value!r}.",
                    tried="to set the panel's traffic",
                    remedy=f"give a number from {low:,} to {high:,.0f}"
                    + (f", or None for {FASTEST}" if optional else ""),
                )
        if self.kind not in KINDS:
            raise TrafficError(
                f"kind can't be {self.kind!r}.",
                tried="to set the panel's traffic",
                remedy="use one of " + ", ".join(KINDS),
            )
        return self

    def __str__(self) -> str:
        pace = FASTEST if self.rate_pps is None else rate(self.rate_pps)
        return f"{pace}, {self.size_bytes} B, {threads_in_words(self.threads)}" + (
            "" if self.kind == "UDP" else f", {self.kind}"
        )


def threads_in_words(count: int) -> str:
    """``1 thread``, ``2 threads``."""
    return f"{count} thread{'s' if count != 1 else ''}"
