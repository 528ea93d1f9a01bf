"""Two senders against one slow receiver: the ring between them overruns, and a program that holds back."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from html import escape
from statistics import median

from labkit.compile import compile_source
from labkit.compile.source import lesson_directory
from labkit.lab import Lab
from labkit.lesson.overrun_picture import shares_picture
from labkit.lesson.page import Table, block
from labkit.lesson.pictures import Picture
from labkit.lesson.race import runs_scaled, scaled
from labkit.lesson.star import star
from labkit.lesson.tracing import untraced
from labkit.lesson.turns import must_balance
from labkit.observe.ledger import Ledger
from labkit.observe.statistics import WhatChanged, what_changed
from labkit.program.program import Program
from labkit.program.spec import ProgramSpec
from labkit.topology import Topology
from labkit.traffic.frames import udp
from labkit.traffic.generator import Generator
from labkit.uapi import ProgType

__all__ = ["Fate", "Overrun", "overrun", "two_to_one"]

_SENDERS = ("left", "right")
_PACKETS, _RUNS = 100_003, 5  # packets of each sender


def two_to_one() -> Topology:
    """left and right, each with a link to the router, and the receiver behind the router's eth2."""
    return star("router", *_SENDERS, "receiver")


@dataclass(frozen=True)
class Fate:
    """One run: of ``sent`` packets so many ``arrived``, found a ``full`` ring, or were held back ``early``; in ``seconds``."""

    sent: int
    arrived: int
    full: int
    early: int
    seconds: float
    unaccounted: int = 0

    @property
    def arrived_mpps(self) -> float:
        """Million packets a second that the receiver took."""
        return self.arrived / self.seconds / 1e6


@dataclass(frozen=True)
class Overrun:
    """Runs by lane: without hold_back and with it, for each time it held back after a loss.

    ``changed`` are the statistics of the first lane's last run; ``notes`` what couldn't be shown.
    """

    packets: int
    lanes: dict[str, tuple[Fate, ...]]
    changed: WhatChanged = field(repr=False)
    notes: tuple[str, ...] = ()

    def share(self, lane: str, what: str) -> float:
        """The share of ``sent`` that is "arrived", "full" or "early" in the lane: 0 to 1, median over runs."""
        return float(median(getattr(run, what) / run.sent for run in self.lanes[lane]))

    @property
    def effect(self) -> str:
        """Whether "more", "about as many" or "fewer" packets a second arrive in the second lane: median over pairs."""
        if len(self.lanes) < 2:
            return "it can't be shown here"
        first, second = list(self.lanes.values())[:2]
        ratio = median(mine.arrived_mpps / before.arrived_mpps for mine, before in zip(second, first, strict=True))
        return "more" if ratio > 1.25 else "fewer" if ratio < 0.8 else "about as many"

    @property
    def unaccounted(self) -> int:
        """Packets that the ledgers could not account for, all together."""
        return sum(abs(run.unaccounted) for runs in self.lanes.values() for run in runs)

    @property
    def table(self) -> Table:
        """One row a lane."""
        rows = []
        for name, runs in self.lanes.items():
            shares = (f"{self.share(name, what):.1%}".replace("%", " %") for what in ("arrived", "full", "early"))
            rates = [run.arrived_mpps for run in runs]
            spread = f"{min(rates):.3g} – {max(rates):.3g}"
            rows.append((name, *shares, median(rates), spread, sum(run.unaccounted for run in runs)))
        head = (
            "lane",
            "arrived",
            "lost: ring full",
            "dropped early",
            "arrived, Mpps",
            "slowest – fastest",
            "unaccounted",
        )
        return Table(head, tuple(rows), self._caption)

    @property
    def _caption(self) -> str:
        runs = len(next(iter(self.lanes.values())))
        return f"Two senders of {self.packets:,} packets each, one receiver: medians of {runs} runs"

    @property
    def picture(self) -> Picture:
        """A bar for each lane: arrived, lost late, dropped early."""
        shares = {
            name: (self.share(name, "arrived"), self.share(name, "full"), self.share(name, "early"))
            for name in self.lanes
        }
        return shares_picture(shares, ("arrived", "lost: ring full", "dropped early"), self._caption, self.table)

    def __str__(self) -> str:
        return "\n".join([str(self.table), *self.notes])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        notes = "".join(f'<p class="soft">{escape(note)}</p>' for note in self.notes)
        return self.picture._repr_html_() + (block(notes) if notes else "")


def overrun(
    receiver: ProgramSpec, hold_us: Sequence[int] = (20, 200), *, packets: int | None = None, runs: int | None = None
) -> Overrun:
    """Send from two CPUs at once to ``receiver``, a program that is slow, by way of a router; with hold_back and without.

    ``hold_us``: for how many microseconds hold_back holds back after each loss, a lane for each. By default some 100,000
    packets a sender and 5 runs a lane, less where ``$LAB_SCALE`` says so. In a lab of its own. Where tracing programs
    don't run there is nobody to tell hold_back: the first lane alone, and a note.
    """
    number, rounds = packets or scaled(_PACKETS), runs or runs_scaled(_RUNS)
    with Lab(two_to_one(), name="overrun") as lab:
        lab.load(receiver).attach(lab["receiver"]["eth0"])
        lab.count_bulks()
        gates, times = _gates(lab), {"as it is": 0}
        notes: list[str] = []
        if reason := untraced(lab):
            notes.append(
                f"{reason}: hold_back would not learn of a loss, and can't be shown. Counts of two senders into one ring "
                "may be some packets off here.",
            )
        else:
            times |= {f"hold back {each} µs": 1000 * each for each in hold_us}
        if len(os.sched_getaffinity(0)) < 2:
            notes.append("This machine has one CPU: the senders take turns, and the ring may never be full.")
        lanes: dict[str, list[Fate]] = {name: [] for name in times}
        changed = what_changed(lab)
        for turn in range(rounds):
            for name, hold_ns in times.items() if turn % 2 == 0 else reversed(times.items()):
                with _watch(lab, gates, hold_ns), what_changed(lab) as seen:
                    lanes[name].append(_run(lab, name, number, exact=not reason))
                changed = changed if hold_ns else seen
    return Overrun(number, {name: tuple(runs) for name, runs in lanes.items()}, changed, tuple(notes))


def _gates(lab: Lab) -> tuple[Program, ...]:
    """hold_back at the router's interfaces towards the senders, with maps that both share."""
    spec = compile_source(path=lesson_directory() / "hold_back.c")
    first = lab.load(spec, "hold_back")
    gates = (first, lab.load(spec, "hold_back", maps=first.maps))
    first.maps["ports"][0] = lab["router"]["eth2"]
    for port, gate in zip(("eth0", "eth1"), gates, strict=True):
        gate.attach(lab["router"][port])
    return gates


@contextlib.contextmanager
def _watch(lab: Lab, gates: Sequence[Program], hold_ns: int) -> Iterator[None]:
    """see_drops at the tracepoint, if anything is to be held back."""
    if not hold_ns:
        yield
        return
    out = lab["router"]["eth2"]
    watch = lab.load(gates[0].spec, "see_drops", maps=gates[0].maps, type=ProgType.RAW_TRACEPOINT)
    watch.maps["watched"][{"netns": out.host.inode, "ifindex": out.ifindex}] = 1
    watch.maps["hold_ns"][0] = hold_ns
    with watch.watch("xdp_devmap_xmit"):
        yield
    watch.maps["hold_ns"][0] = watch.maps["until_ns"][0] = 0


def _run(lab: Lab, name: str, packets: int, exact: bool) -> Fate:
    """Both senders at once, each on a CPU of its own where there are two."""
    lab.reset()
    senders = [
        Generator(lab[each]["eth0"], udp(lab[each], lab["router"][f"eth{port}"]), packets)
        for port, each in enumerate(_SENDERS)
    ]
    cpus = os.sched_getaffinity(0)
    try:
        for turn, sender in enumerate(senders):
            os.sched_setaffinity(0, {sorted(cpus)[turn % len(cpus)]})  # a generator starts where its caller is
            sender.start()
    finally:
        os.sched_setaffinity(0, cpus)
    seconds = max(sender.wait().seconds for sender in senders)
    ledger = lab.ledger(settle_s=2.0 if exact else 0.1)
    if exact:
        must_balance(name, ledger, len(senders) * packets)
    return _fate(ledger, seconds)


def _fate(ledger: Ledger, seconds: float) -> Fate:
    at_router = sum(row.packets for row in ledger.rows if row.kind == "loss" and row.where.startswith("router "))
    full = sum(ledger.losses.get(key, 0) for key in ("ring full", "ring full or EMSGSIZE"))
    arrived = sum(row.packets for row in ledger.rows if row.kind in ("loss", "delivered") and "receiver" in row.where)
    return Fate(ledger.sent, arrived, full, at_router, seconds, ledger.unaccounted)
