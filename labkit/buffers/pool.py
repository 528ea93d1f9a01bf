"""One page pool, as events, its own counters and the kernel's last word tell it."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["KINDS", "Pool"]

KINDS = {1: "queue", 2: "run"}  # enum pool_owner, bpf/lab/page_pools.h


@dataclass(frozen=True)
class Pool:
    """A pool of pages of 4 KiB. ``held``: pages it ever took from the page allocator, ``released``: gave back to it.

    ``number`` counts the pools in the order a watch met them; ``ident`` is the kernel's own number (netlink's
    page-pool-get shows the same where a driver registers its pools). ``kind`` is ``queue`` (a receive queue's pool) or
    ``run`` (of one run of the generator: each burst has one). ``held`` and ``released`` are the pool's own
    counters (once it has ended: the kernel's last word). ``taken`` and ``returned`` are events since the watch began, and
    ``counted_held``, ``counted_released`` the same numbers as ``held`` and ``released`` by these events.
    ``cached`` and ``ring`` are pages that wait in the pool to be used again; ``open`` is 1 while it has a page that it
    cuts into pieces for several packets, some of which may be out already. ``closing``: asked to end; it does when its
    last page is back. Until then the kernel tries once a second: ``tries``, and ``last_in_flight`` by the last of
    them, None before the first.
    """

    number: int
    ident: int
    what: str
    kind: str
    host: str
    interface: str
    queue: int | None
    held: int
    released: int
    taken: int
    returned: int
    counted_held: int
    counted_released: int
    cached: int
    ring: int
    open: int
    closing: bool
    tries: int
    last_in_flight: int | None
    alive: bool
    seconds: float
    memory: str = "page pool"

    @property
    def in_flight(self) -> int:
        """Pages held and not released. Those that wait in the pool itself are among them: see ``out``."""
        return self.held - self.released

    @property
    def home(self) -> int:
        """Pages that wait in the pool, the one it cuts pieces from included."""
        return self.cached + self.ring + self.open

    @property
    def out(self) -> int:
        """Pages that are really away: with frames, in rings, in sockets."""
        return self.in_flight - self.home

    @property
    def retries(self) -> int:
        """How often the kernel tried again to end the pool."""
        return max(0, self.tries - 1)

    @property
    def missed(self) -> int:
        """Events that no probe saw: pages by the pool's own counters less pages by events. 0, or nearly: see Buffers."""
        return self.held - self.counted_held + self.released - self.counted_released
