"""Where buffers are: the pages of page pools, held, released and in flight, counted by the kernel's tracepoints.

    with lk.buffers.watch(lab) as pools:
        lk.generate(client["eth0"], frame, packets=100_003)
        print(pools.read())      # Buffers: each pool, sums, recycle ratio
        print(pools.where())     # Places: where the pages in flight are now

A page pool takes pages from the page allocator (*held*), hands them out with frames, takes them back and hands them out
again without asking the allocator; what it gives back for good is *released*.
"""

from __future__ import annotations

from labkit.buffers.buffers import Buffers, Ended
from labkit.buffers.one_cpu import one_cpu
from labkit.buffers.places import Place, Places
from labkit.buffers.pool import Pool
from labkit.buffers.watch import BufferWatch, watch

__all__ = ["BufferWatch", "Buffers", "Ended", "Place", "Places", "Pool", "one_cpu", "watch"]
