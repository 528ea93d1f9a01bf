"""What can be set at the model, and what its steps cost."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from enum import Enum
from typing import Any

from labkit.errors import ModelError

__all__ = ["ADAPTIVE", "Costs", "Knobs", "Scheme"]

ADAPTIVE = 0.0
"""``rx_usecs``: the driver chooses how long interrupts wait, as it does by default."""

_RINGS = (16, 32_768)
_MOST_MEMORY = 1 << 24  # pages


class Scheme(Enum):
    """Who gives a buffer back, once the other card has sent it."""

    HALF_PAGES = "half pages"
    """The driver of 2017: two buffers a page; a page is used again while few enough of its halves are under way."""
    FREE = "free the page"
    """A page reference is dropped, the page goes back to the allocator; each packet needs a new one."""
    RETURN = "return to the owner"
    """The sending driver calls the receiving one, which keeps page and DMA mapping for the next packet."""
    POOL = "page pool"
    """One pool for both: what is sent goes into it, and the receive ring is filled from it."""
    NOBODY = "nobody tells"
    """Two drivers that know nothing of each other's buffers: what was sent never comes home."""


@dataclass(frozen=True)
class Costs:
    """Nanoseconds of one CPU for each packet. The defaults are what ``fitted()`` finds; see labkit.models.fit.

    ``receive_ns``: a descriptor read, the program run, the redirect; ``send_ns``: a descriptor written, and later its
    completion; ``page_ns``: a page from the allocator, mapped for the card, and freed again. ``return_ns``, ``pool_ns``: a
    buffer handed back by a call, or through a pool: assumed, nobody published them. ``dma_ns``: what an IOMMU adds to each
    mapping of a buffer for a card, the unmapping included; the machine of 2017 is taken to have none.
    """

    receive_ns: float = 56.3
    send_ns: float = 20.1
    page_ns: float = 105.2
    return_ns: float = 4.0
    pool_ns: float = 6.0
    adaptive_us: float = 86.9
    dma_ns: float = 0.0

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            if not _is_number(value) or value < 0:
                raise _refused(f"{each.name} can't be {value!r}", "give a time of 0 or more")
        if self.adaptive_us < 1:
            raise _refused(f"adaptive_us can't be {self.adaptive_us!r}", "give a time of 1 or more")
        if self.receive_ns <= 0:
            raise _refused(f"receive_ns can't be {self.receive_ns!r}", "give a time of more than 0")


@dataclass(frozen=True)
class Knobs:
    """Two cards, one CPU. ``offered_pps`` packets arrive at the first; what it receives is sent by the second.

    ``rx_ring`` and ``tx_ring`` in entries; ``rx_usecs``: how long a card waits at least between two interrupts (ADAPTIVE:
    the driver's own choice); ``budget`` packets are received a poll; ``line_pps``: what the second card sends at most;
    ``memory_pages``: all the memory there is for buffers, in pages of 4 KiB. Raises ModelError.
    """

    rx_ring: int = 512
    tx_ring: int = 512
    rx_usecs: float = ADAPTIVE
    scheme: Scheme = Scheme.HALF_PAGES
    offered_pps: float = 14.88e6
    line_pps: float = 14.88e6
    budget: int = 64
    memory_pages: int = 262_144
    costs: Costs = field(default_factory=Costs)

    def __post_init__(self) -> None:
        for name, low, high in (
            ("rx_ring", *_RINGS),
            ("tx_ring", *_RINGS),
            ("budget", 1, 4_096),
            ("memory_pages", 2 * self.rx_ring if isinstance(self.rx_ring, int) else 1, _MOST_MEMORY),
        ):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
                raise _refused(f"{name} can't be {value!r}", f"give a whole number from {low:,} to {high:,}")
        for name, least, most in (("rx_usecs", 0, 1_000), ("offered_pps", 1_000, 1e9), ("line_pps", 1_000, 1e9)):
            value = getattr(self, name)
            if not _is_number(value) or not least <= value <= most:
                raise _refused(f"{name} can't be {value!r}", f"give a number from {least:,} to {most:,.0f}")
        if 0 < self.rx_usecs < 1:
            raise _refused(
                f"rx_usecs can't be {self.rx_usecs!r}", "give ADAPTIVE, or 1 or more: cards count microseconds"
            )
        if not isinstance(self.costs, Costs):
            raise _refused(f"costs can't be {self.costs!r}", "give a labkit.models.Costs")
        if not isinstance(self.scheme, Scheme):
            raise _refused(
                f"scheme can't be {self.scheme!r}", "use " + ", ".join(f"Scheme.{each.name}" for each in Scheme)
            )

    @property
    def interval_us(self) -> float:
        """Microseconds between two interrupts of a card, at least."""
        return self.rx_usecs or self.costs.adaptive_us


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and value == value


def _refused(message: str, remedy: str) -> ModelError:
    return ModelError(f"{message}.", tried="to set up the ring model", remedy=remedy)
