"""The threshold at work: metadata for the frames that it pays for, and for no others."""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from statistics import median
from typing import Any

from labkit.errors import TrafficError
from labkit.lesson.hints_cost import NEVER, SIZES, Burst, Composer, TimedWay
from labkit.lesson.hints_cost_checks import check_composers, check_threshold, checked_counts, checked_sizes
from labkit.lesson.hints_cost_pairs import Pairs
from labkit.lesson.page import Table
from labkit.lesson.pictures import Picture, bars
from labkit.traffic.frames import udp
from labkit.traffic.generator import Generator

__all__ = ["threshold_at_work", "threshold_under_traffic"]

_PACKETS, _PAIRS = 4_001, 15
_A_PHASE, _RATE_PPS, _PATIENCE_S = 2_003, 10_000, 20.0
NONE, ALWAYS, CHOSEN = "no metadata", "for every frame", "from the threshold on"


def threshold_at_work(
    threshold_bytes: int,
    *,
    composer: Composer = Composer.TIME,
    sizes: Sequence[int] = SIZES,
    packets: int | None = None,
    pairs: int | None = None,
) -> Picture:
    """What metadata saves for as many frames of each size: composed for every frame, and from ``threshold_bytes`` on.

    All on one CPU, GRO off; lab "threshold". By default 15 pairs of runs of 4,001 packets each, fewer where ``$LAB_SCALE``
    says so. Raises TrafficError where a packet is unaccounted for, or comes with metadata that should have none.
    """
    check_threshold(threshold_bytes)
    check_composers([composer])
    tried = checked_sizes(sizes)
    number, turns = checked_counts(packets, pairs, (_PACKETS, _PAIRS))
    rows: list[tuple[Any, ...]] = []
    gains = Counter[str]()
    with TimedWay("threshold", largest_bytes=max(tried)) as way:
        for size in tried:
            without = Burst(number, size)
            chosen = Burst(number, size, composer, threshold=threshold_bytes)
            chosen_pairs = Pairs.of(way.in_turn(turns, without, chosen))
            always_pairs = chosen_pairs  # above the threshold the program does the same for both
            if composer.here and not chosen.with_metadata:
                always_pairs = Pairs.of(way.in_turn(turns, without, replace(chosen, threshold=0)))
            ledger = way.ledger(chosen)
            saved = always_pairs.gain_ns, chosen_pairs.gain_ns
            rows.append((size, ledger.sent, chosen.with_metadata, *saved, ledger.unaccounted))
            gains.update({NONE: median(chosen_pairs.without_ns), ALWAYS: saved[0], CHOSEN: saved[1]})
    head = ("bytes", "packets", "with metadata", f"ns saved, {ALWAYS}", f"ns saved, {CHOSEN}", "unaccounted")
    mean = {name: total / len(rows) for name, total in gains.items()}
    rows.append(
        ("all", *(sum(row[i] for row in rows) for i in (1, 2)), mean[ALWAYS], mean[CHOSEN], sum(r[5] for r in rows))
    )
    title = f"ns a packet, as many of each size; the composer {composer.value}"
    takes = {name: round(mean[NONE] - (mean[name] if name != NONE else 0)) for name in (NONE, ALWAYS, CHOSEN)}
    return replace(bars(takes, "ns", title), table=Table(head, tuple(_whole(row) for row in rows)))


def _whole(row: tuple[object, ...]) -> tuple[object, ...]:
    """Times as whole nanoseconds, with their sign."""
    return tuple(f"{value:+.0f}".replace("-", "−") if isinstance(value, float) else value for value in row)


def threshold_under_traffic(threshold_bytes: int = 256, *, size: int = 200, packets: int | None = None) -> Table:
    """The threshold changed while frames of ``size`` bytes come by: how many had metadata, at the consumer, in each phase.

    Lab "switched"; each of four phases lasts until 2,003 packets more have come as they should, fewer where ``$LAB_SCALE``
    says so. Each packet is counted with metadata or without, and comes to the end, else TrafficError.
    """
    check_threshold(threshold_bytes)
    checked_sizes((size,))
    each, _ = checked_counts(packets, None, (_A_PHASE, 1))
    phases = (0, threshold_bytes, NEVER, 0)
    with TimedWay("switched") as way, contextlib.ExitStack() as opened:
        counts, ended_before = [way.seen], way.done
        way.open_for(phases[0])
        frame = udp(way.lab["client"], way.lab["server"], size=size)
        source = Generator(way.lab["client"]["eth0"], frame, seconds=_PATIENCE_S, rate_pps=_RATE_PPS, prepare=False)
        opened.callback(source.stop)
        source.start()
        for threshold in phases:
            way.open_for(threshold)
            _await_more(way, size >= threshold, each)
            counts.append(way.seen)
        sent = source.stop().sent
        _await(lambda: way.done >= ended_before + sent)
        counts[-1] = way.seen  # with those that were still under way
        ended = way.done - ended_before
    rows = [
        (_threshold(value), after[1] - before[1], after[0] - before[0])
        for value, (before, after) in zip(phases, pairwise(counts), strict=True)
    ]
    total = sum(row[1] + row[2] for row in rows)
    if not sent == total == ended:
        raise TrafficError(
            f"Of {sent:,} packets {total:,} came to TC and {ended:,} to the end.",
            tried="to change the threshold under traffic",
            remedy="run it again, and report it if it repeats",
        )
    caption = f"{sent:,} frames of {size} bytes, none lost: as the threshold changes, so does what comes with them"
    return Table(("threshold in the map", "with metadata", "without"), tuple(rows), caption)


def _await_more(way: TimedWay, with_metadata: bool, packets: int) -> None:
    """Until so many more have come to TC in that way."""
    wanted = way.seen[with_metadata] + packets
    _await(lambda: way.seen[with_metadata] >= wanted)


def _await(done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _PATIENCE_S
    while not done() and time.monotonic() < deadline:
        time.sleep(0.001)


def _threshold(value: int) -> str:
    return {0: "0: every frame", NEVER: f"{NEVER:,}: none"}.get(value, f"{value:,} bytes")
