"""Where buffers come from and where they go: one class a scheme, with every page counted.

A receive ring always holds a buffer an entry. When packets leave it with their buffers, others must come in their place.
"""

from __future__ import annotations

from labkit.models.knobs import Knobs, Scheme

__all__ = ["Pages", "pages_of"]


class Pages:
    """Counts pages. ``allocated``, ``freed`` since the beginning; ``stock``: buffers at rest; ``away``: pages that left.

    ``allocated - freed == ring + stock + away`` at every moment: see ``balanced``.
    """

    def __init__(self, knobs: Knobs) -> None:
        self.ring = knobs.rx_ring
        self.memory = knobs.memory_pages
        self.allocated = self.ring  # the ring is filled before the first packet comes
        self.freed = self.recycled = self.stock = self.away = 0

    @property
    def held(self) -> int:
        """Pages taken from the allocator and not given back."""
        return self.allocated - self.freed

    @property
    def balanced(self) -> bool:
        """Whether every page is somewhere."""
        return self.held == self.ring + self.stock + self.away and min(self.stock, self.away) >= 0

    def replace(self, wanted: int, under_way: int) -> tuple[int, int]:
        """``wanted`` buffers are to leave while ``under_way`` are: (how many can, how many new pages that took)."""
        kept = min(wanted, self._free_of_charge(wanted, under_way))
        fresh = min(wanted - kept, self.memory - self.held)
        self.allocated += fresh
        self.recycled += kept
        self._left(kept, fresh)
        return kept + fresh, fresh

    def dropped(self, packets: int) -> int:
        """Packets were thrown away on the way out, their buffers are used again at once: how many new pages that took."""
        self.recycled += packets
        return 0

    def came_home(self, packets: int) -> None:
        """So many were sent, oldest first."""
        raise NotImplementedError

    def _free_of_charge(self, wanted: int, under_way: int) -> int:
        raise NotImplementedError

    def _left(self, kept: int, fresh: int) -> None:
        raise NotImplementedError


class _HalfPages(Pages):
    """Two buffers a page. The ring's pages have as many other halves: so many may be under way, and no page is needed."""

    def __init__(self, knobs: Knobs) -> None:
        super().__init__(knobs)
        self._away_in_order: list[
            tuple[int, int]
        ] = []  # (halves of pages that the ring kept, pages given away), as they left

    def _free_of_charge(self, wanted: int, under_way: int) -> int:
        return max(0, self.ring - under_way)

    def _left(self, kept: int, fresh: int) -> None:
        self.away += fresh
        self._away_in_order.append((kept, fresh))

    def came_home(self, packets: int) -> None:
        while packets:
            kept, fresh = self._away_in_order.pop(0)
            first, then = min(kept, packets), min(fresh, max(0, packets - kept))
            packets -= first + then
            self.away -= then
            self.freed += then
            if first < kept or then < fresh:
                self._away_in_order.insert(0, (kept - first, fresh - then))


class _Free(Pages):
    """Each packet takes its page along, and the page goes back to the allocator."""

    def _free_of_charge(self, wanted: int, under_way: int) -> int:
        return 0

    def _left(self, kept: int, fresh: int) -> None:
        self.away += fresh

    def dropped(self, packets: int) -> int:
        self.allocated += packets
        self.freed += packets
        return packets

    def came_home(self, packets: int) -> None:
        self.away -= packets
        self.freed += packets


class _Return(Pages):
    """What was sent is called back to its owner, and waits there for the next packet."""

    def _free_of_charge(self, wanted: int, under_way: int) -> int:
        return self.stock

    def _left(self, kept: int, fresh: int) -> None:
        self.stock -= kept
        self.away += kept + fresh

    def came_home(self, packets: int) -> None:
        self.away -= packets
        self.stock += packets


class _Pool(_Return):
    """The same through a pool of limited size: what doesn't fit goes back to the allocator."""

    def came_home(self, packets: int) -> None:
        super().came_home(packets)
        over = max(0, self.stock - 2 * self.ring)
        self.stock -= over
        self.freed += over


class _Nobody(Pages):
    """The sending card's driver doesn't know whose the buffer is, and nobody gives it back."""

    def _free_of_charge(self, wanted: int, under_way: int) -> int:
        return 0

    def _left(self, kept: int, fresh: int) -> None:
        self.away += fresh

    def came_home(self, packets: int) -> None:
        pass  # it doesn't


_KINDS: dict[Scheme, type[Pages]] = {
    Scheme.HALF_PAGES: _HalfPages,
    Scheme.FREE: _Free,
    Scheme.RETURN: _Return,
    Scheme.POOL: _Pool,
    Scheme.NOBODY: _Nobody,
}


def pages_of(knobs: Knobs) -> Pages:
    """The pages of a scheme, the receive ring filled."""
    return _KINDS[knobs.scheme](knobs)
