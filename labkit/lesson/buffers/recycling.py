"""Millions of frames on a handful of pages: the generator's own pool."""

from __future__ import annotations

from statistics import median

from labkit.buffers import one_cpu
from labkit.compile import compile_source
from labkit.compile.source import lesson_directory
from labkit.errors import TrafficError
from labkit.lab import Lab
from labkit.lesson.buffers.counted import Counted, Look, looking
from labkit.lesson.page import Table
from labkit.lesson.pictures import bars
from labkit.lesson.race import runs_scaled, scaled
from labkit.observe.ledger import Ledger
from labkit.topology import Topology
from labkit.traffic.frames import udp
from labkit.traffic.generator import generate

__all__ = ["batches_and_pages", "handful_of_pages", "must_account"]

_MANY, _SOME = 5_000_011, 100_003
_BATCHES = (1, 16, 64, 256)


def handful_of_pages(packets: int | None = None) -> Counted:
    """Frames of one page each, dropped by the receiver's program: the pages that were taken for them. Lab "pages".

    5,000,011 frames by default, fewer where ``$LAB_SCALE`` says so.
    """
    number = packets or scaled(_MANY)
    with Lab(Topology.pair(), name="pages") as lab:
        _dropping(lab)
        with one_cpu(), looking(lab) as look:
            pages, runs = _sent(lab, look, number)
            ratio = look.pools.read().recycle_ratio if look.pools else None
    head = ("frames", "runs of the generator", "pages taken from the allocator", "pages a run", "recycled")
    pages_a_run = pages / runs if pages and runs else None
    row = (number, runs, pages, pages_a_run, None if ratio is None else f"{100 * ratio:.2f} %")
    picture = None
    if pages is not None:
        picture = bars({"frames": number, "pages taken for them": pages}, "", "Frames, and pages taken for them")
    return Counted(Table(head, (row,)), {"pool-pages": pages}, picture, look.notes)


def batches_and_pages(
    batches: tuple[int, ...] = _BATCHES, *, packets: int | None = None, runs: int | None = None
) -> Counted:
    """How many pages a run's pool takes, and what a frame costs, by the frames that are made at a time. Lab "pages".

    100,003 frames and 5 turns by default, fewer where ``$LAB_SCALE`` says so; a cost is the median of the turns.
    """
    number, turns = packets or scaled(_SOME), runs or runs_scaled(5)
    costs_ns: dict[int, list[float]] = {batch: [] for batch in batches}
    pages: dict[int, float | None] = dict.fromkeys(batches)
    with Lab(Topology.pair(), name="pages") as lab, one_cpu(), looking(lab) as look:
        _dropping(lab)
        for turn in range(turns):
            for batch in batches if turn % 2 == 0 else reversed(batches):
                pages[batch], cost_ns = _batched(lab, look, number, batch)
                costs_ns[batch].append(cost_ns)
    rows = tuple((batch, number, pages[batch], median(costs_ns[batch])) for batch in batches)
    head = ("frames at a time", "frames", "pages a run", "ns a frame")
    title = f"What a frame costs, by how many are made at a time: median of {turns} turns"
    picture = bars({f"{batch} at a time": float(cost) for batch, _, _, cost in rows}, "ns", title)
    return Counted(Table(head, rows), {"pool-batch": pages.get(1)}, picture, look.notes)


def _batched(lab: Lab, look: Look, number: int, batch: int) -> tuple[float | None, float]:
    """Pages a run, and ns a frame."""
    before = look.pools.read().ended if look.pools else None
    lab.reset()
    report = generate(lab["client"]["eth0"], udp(lab["client"], lab["server"]), number, batch=batch)
    must_account(lab.ledger(), number)
    after = look.pools.read().ended if look.pools else None
    runs = after.pools - before.pools if after and before else 0
    return (after.held - before.held) / runs if after and before and runs else None, report.seconds * 1e9 / number


def must_account(ledger: Ledger, packets: int) -> None:
    """Raise TrafficError where a packet is missing: pages counted beside would mislead."""
    if ledger.unaccounted or ledger.sent < packets:
        raise TrafficError(
            f"{ledger.unaccounted:,} of {packets:,} packets are unaccounted for.",
            tried="to count pages",
            detail=str(ledger),
            remedy="run it again, and report it if it repeats",
        )


def _dropping(lab: Lab) -> None:
    lab.load(compile_source(path=lesson_directory() / "drop_all.c")).attach(lab["server"]["eth0"])


def _sent(lab: Lab, look: Look, number: int) -> tuple[int | None, int | None]:
    """Pages taken, and pools that were made for it."""
    generate(lab["client"]["eth0"], udp(lab["client"], lab["server"]), number)
    must_account(lab.ledger(), number)
    if look.pools is None:
        return None, None
    found = look.pools.read()
    return found.run_taken, found.ended.pools
