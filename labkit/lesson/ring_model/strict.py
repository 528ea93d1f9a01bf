"""Half pages as a driver that looks at one page at a time has them: the next one in the ring, or a new one."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from labkit.models import Knobs
from labkit.models.pages import Pages

__all__ = ["StrictHalfPages"]


@dataclass
class _Page:
    """``out`` of its two halves are under way; ``kept`` by the receive ring, or given up until both are back."""

    out: int = 0
    kept: bool = True


class StrictHalfPages(Pages):
    """Entry after entry: its page stays where no half of it is under way, however many other pages are free.

    The model's own rule is softer: it counts halves, and doesn't ask whose.
    """

    def __init__(self, knobs: Knobs) -> None:
        super().__init__(knobs)
        self._entries = [_Page() for _ in range(self.ring)]
        self._next = 0
        self._under_way: deque[_Page] = deque()

    def replace(self, wanted: int, under_way: int) -> tuple[int, int]:
        fresh = gone = 0
        for _ in range(wanted):
            page = self._entries[self._next]
            if page.out:
                if self.held >= self.memory:
                    break
                self._give_up(page)
                fresh += 1
            page.out += 1
            self._under_way.append(page)
            self._next = (self._next + 1) % self.ring
            gone += 1
        self.recycled += gone - fresh
        return gone, fresh

    def _give_up(self, page: _Page) -> None:
        """Both halves are under way: a new page takes its place in the ring."""
        page.kept = False
        self._entries[self._next] = _Page()
        self.allocated += 1
        self.away += 1

    def dropped(self, packets: int) -> int:
        self._next = (self._next + packets) % self.ring
        return super().dropped(packets)

    def came_home(self, packets: int) -> None:
        for _ in range(packets):
            page = self._under_way.popleft()
            page.out -= 1
            if not page.kept and not page.out:
                self.away -= 1
                self.freed += 1
