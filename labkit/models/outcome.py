"""What came of a run of the ring model: rates, every loss by its name, pages, and how it went."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["Moment", "Outcome"]


@dataclass(frozen=True)
class Moment:
    """How things stood at ``at_us``: packets in the rings, buffers under way in the sending card, pages taken, asleep or not."""

    at_us: float
    in_rx_ring: int
    in_tx_ring: int
    pages: int
    asleep: bool


@dataclass(frozen=True)
class Outcome:
    """Packets since the beginning, and rates since the warm-up ended.

    ``offered = received + lost["receive ring full"] + waiting``, ``received = sent + the other losses + in_flight``: exactly.
    ``allocated`` pages came from the allocator, ``recycled`` buffers didn't need one; ``pages_held`` are taken at the end.
    ``idle``: share of the time that the CPU slept.
    """

    offered: int
    received: int
    sent: int
    waiting: int
    in_flight: int
    lost: Mapping[str, int]
    allocated: int
    recycled: int
    pages_held: int
    most_pages: int
    in_pps: float
    out_pps: float
    idle: float
    seconds: float
    history: tuple[Moment, ...]

    @property
    def unaccounted(self) -> int:
        """Packets that are nowhere: 0, or the model is wrong."""
        return self.offered - self.sent - self.in_flight - self.waiting - sum(self.lost.values())

    @property
    def recycle_ratio(self) -> float:
        """Buffers that needed no new page, of all."""
        return self.recycled / max(1, self.recycled + self.allocated)

    @property
    def out_of_memory(self) -> bool:
        """Whether packets were lost because there was no page left."""
        return self.lost["no memory"] > 0
