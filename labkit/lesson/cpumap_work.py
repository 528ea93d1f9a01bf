"""Where the work of a packet is done: in the driver, on the same CPU by way of its queue, on another, on all of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from html import escape
from statistics import median

from labkit.errors import LessonError, TrafficError
from labkit.lesson.page import Table, block
from labkit.lesson.pictures import Picture, bars
from labkit.lesson.race import runs_scaled, scaled
from labkit.lesson.workshop import LONGEST_QUEUE, ONE_CPU, Workshop
from labkit.observe.ledger import Ledger
from labkit.program.program import Program

__all__ = ["ALL", "IN_DRIVER", "OTHER", "OWN", "Division", "Share", "queue_lengths", "ran_on", "who_works"]

IN_DRIVER, OWN, OTHER, ALL = "in the driver", "its own CPU's queue", "another CPU", "all CPUs in turn"


@dataclass(frozen=True)
class Share:
    """One way to divide the work: the time of each run in ms, who worked in the last run, and that run's ledger."""

    name: str
    runs_ms: tuple[float, ...]
    packets_by_cpu: Mapping[int, int]
    ledger: Ledger

    @property
    def ms(self) -> float:
        """The median of the runs."""
        return median(self.runs_ms)


@dataclass(frozen=True)
class Division:
    """The same packets and the same work, divided in several ways. Times until the last packet was done."""

    packets: int
    work_us: float
    shares: tuple[Share, ...]
    notes: tuple[str, ...] = ()

    def __getitem__(self, name: str) -> Share:
        for share in self.shares:
            if share.name == name:
                return share
        raise LessonError(
            f"There is no way {name!r}.",
            tried="to look at a division of work",
            remedy="it has " + ", ".join(share.name for share in self.shares),
        )

    def __contains__(self, name: str) -> bool:
        return any(share.name == name for share in self.shares)

    def times_as_long(self, name: str, as_in: str = IN_DRIVER) -> float:
        """How many times as long as in the way ``as_in`` the way ``name`` took."""
        return self[name].ms / self[as_in].ms

    @property
    def soonest(self) -> str:
        """The name of the way that was done first."""
        return min(self.shares, key=lambda share: share.ms).name

    def table(self) -> Table:
        """One row a way."""
        rows = tuple(
            (
                share.name,
                share.ms,
                f"{min(share.runs_ms):.3g} – {max(share.runs_ms):.3g}",
                1e3 * share.ms / self.packets,
                ", ".join(f"CPU {cpu}: {packets:,}" for cpu, packets in share.packets_by_cpu.items()),
                share.ledger.unaccounted,
            )
            for share in self.shares
        )
        head = ("who works", "ms", "shortest – longest", "µs a packet", "packets worked on", "unaccounted")
        return Table(head, rows, self._caption())

    def _caption(self) -> str:
        work = f"about {self.work_us:.2g} µs of work a packet" if self.work_us else "no work to do"
        return f"{self.packets:,} packets, {work}: until the last one is done, median of {len(self.shares[0].runs_ms)}"

    def __str__(self) -> str:
        return "\n".join([str(self.table()), *self.notes])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        picture = bars({share.name: share.ms for share in self.shares}, "ms", self._caption())
        notes = "".join(f'<p class="soft">{escape(note)}</p>' for note in self.notes)
        return block(f"{picture.svg}{self.table().html()}{notes}")


def who_works(work_us: float = 2.0, *, packets: int | None = None, runs: int | None = None) -> Division:
    """Time the same packets with the work done in the driver, and by way of CPU queues; lab "work".

    By default 8,009 packets (fewer where ``$LAB_SCALE`` says so, never more than a queue holds) and 5 runs, which take
    turns. Every packet of every run must be done and accounted for, else TrafficError.
    """
    number, rounds = min(packets or scaled(8_009), LONGEST_QUEUE), runs or runs_scaled(5)
    with Workshop("work", work_ns=1e3 * work_us) as shop:
        ways: dict[str, tuple[int, ...]] = {IN_DRIVER: (), OWN: (shop.here,)}
        if shop.others:
            ways |= {OTHER: (shop.others[0],), ALL: (shop.here, *shop.others)}
        found: dict[str, list[float]] = {name: [] for name in ways}
        last: dict[str, Share] = {}
        for turn in range(rounds):
            for name, cpus in ways.items() if turn % 2 == 0 else reversed(ways.items()):
                ledger = shop.run(number, cpus)
                _must_be_done(name, ledger, shop.done, number)
                found[name].append(1e3 * shop.seconds)
                last[name] = Share(name, tuple(found[name]), shop.done, ledger)
        note = f"The traffic is made on CPU {shop.here}, which receives it too: its time is in every row."
    shares = tuple(Share(name, tuple(found[name]), last[name].packets_by_cpu, last[name].ledger) for name in ways)
    return Division(number, work_us, shares, (note,) if len(ways) > 2 else (note, ONE_CPU))


def _must_be_done(name: str, ledger: Ledger, done: Mapping[int, int], packets: int) -> None:
    if ledger.unaccounted or sum(done.values()) != packets:
        raise TrafficError(
            f"{name}: of {packets:,} packets {sum(done.values()):,} were worked on.",
            tried="to measure",
            detail=str(ledger),
            remedy="a time for less than all would mislead: run it again, and report it if it repeats",
        )


def queue_lengths(
    lengths: tuple[int, ...] = (8, 64, 512, 4_096, 16_384), *, packets: int | None = None, work_us: float = 1.0
) -> Picture:
    """What a burst loses at a CPU's queue, by the queue's length; lab "queues".

    ``packets`` (10,007 by default, fewer where ``$LAB_SCALE`` says so) are sent at full speed to another CPU, or to
    the only one. Lost is what was sent to the queue and never worked on; the last column is the ledger's own count, "–"
    where it has another name for them, or none.
    """
    number = packets or scaled(10_007)
    rows = []
    with Workshop("queues", work_ns=1e3 * work_us) as shop:
        target = (shop.others or [shop.here])[0]
        for length in lengths:
            shop.set_queue(length)
            ledger = shop.run(number, (target,))
            done = sum(shop.done.values())
            lost = number - done
            named = ledger.losses.get("cpumap queue full", 0)
            rows.append((length, number, done, lost, f"{100 * lost / number:.1f} %", named if named == lost else None))
    head = ("queue (packets)", "sent to it", "worked on", "lost", "share", "in the ledger: queue was full")
    title = f"A burst to CPU {target}'s queue, about {work_us:.2g} µs of work a packet: what is lost"
    in_percent = {f"{row[0]:,} packets": 100 * row[3] / number for row in rows}
    return replace(bars(in_percent, "%", title), table=Table(head, tuple(rows)))


def ran_on(*programs: Program) -> Table:
    """On which CPU each program ran how often, by its own count of verdicts; CPUs where none did are left out."""
    counts = {}
    for program in programs:
        held = program.maps["verdicts"]
        counts[program.name] = [sum(column) for column in zip(*(held.per_cpu(slot) for slot in held), strict=True)]
    used = [cpu for cpu, column in enumerate(zip(*counts.values(), strict=True)) if any(column)]
    rows = tuple((name, *(found[cpu] for cpu in used)) for name, found in counts.items())
    return Table(("program", *(f"packets on CPU {cpu}" for cpu in used)), rows)
