"""A CPU map's queue as a place where pages are parked."""

from __future__ import annotations

from labkit.lesson.buffers.counted import Counted, looking
from labkit.lesson.page import Table
from labkit.lesson.pictures import bars
from labkit.lesson.race import scaled
from labkit.lesson.workshop import Workshop

__all__ = ["pages_in_a_queue"]

_FRAMES = 4_001  # no more than the generator makes in one run


def pages_in_a_queue(lengths: tuple[int, ...] = (64, 512, 4_096), *, work_us: float = 2.0) -> Counted:
    """A burst to another CPU that is slower than it comes: the pages that the burst's pool had to take, by the queue's
    length. Lab "parking".

    What a pool took is the most that was out of it at one time, and up to a batch more: it takes none while one is at home.
    """
    frames = scaled(_FRAMES)
    rows: list[tuple[object, ...]] = []
    with Workshop("parking", work_ns=1e3 * work_us) as shop, looking(shop.lab) as look:
        target = (shop.others or [shop.here])[0]
        for length in lengths:
            shop.set_queue(length)
            before = look.pools.read().run_taken if look.pools else 0
            shop.run(frames, (target,))
            pages = look.pools.read().run_taken - before if look.pools else None
            worked_on = sum(shop.done.values())
            rows.append((length, frames, worked_on, frames - worked_on, pages))
    head = ("queue (packets)", "frames", "worked on", "lost: no room", "pages taken")
    title = f"Pages that a burst of {frames:,} frames takes, by the length of CPU {target}'s queue"
    shown = {f"{row[0]:,} packets": float(str(row[4])) for row in rows if row[4] is not None}
    answers = {"pool-queue": next((int(str(row[4])) for row in reversed(rows) if row[4] is not None), None)}
    return Counted(Table(head, tuple(rows)), answers, bars(shown, "pages", title) if shown else None, look.notes)
