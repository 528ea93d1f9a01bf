"""Runs that take turns: each pair of runs side by side in time, so that what disturbs one disturbs the other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median

from labkit.errors import LessonError, TrafficError
from labkit.interface import Interface
from labkit.lesson.page import Table
from labkit.lesson.race import Arrangement, Lane, Race
from labkit.observe.ledger import Ledger
from labkit.traffic.generator import generate

__all__ = ["Paired", "Turn", "must_balance", "take_turns"]


@dataclass(frozen=True)
class Turn:
    """A lane: ``arrange`` sets something up and returns what takes it away; ``batch`` frames go at a time."""

    arrange: Arrangement
    batch: int = 64


@dataclass(frozen=True, repr=False)
class Paired(Race):
    """A race whose ratios are medians over pairs: run 1 of a lane is compared with run 1 of the other, and so on."""

    def ratio(self, name: str, to: str | None = None) -> float:
        """How many times as fast as the lane ``to`` (by default the first) the lane ``name`` is."""
        base = self[to] if to else self.lanes[0]
        return median(mine / theirs for mine, theirs in zip(self[name].runs_mpps, base.runs_mpps, strict=True))

    def more_ns(self, name: str, to: str | None = None) -> float:
        """By how many nanoseconds a packet costs more in lane ``name`` than in ``to``: the median over pairs."""
        base = self[to] if to else self.lanes[0]
        pairs = zip(self[name].runs_mpps, base.runs_mpps, strict=True)
        return median(1e3 / mine - 1e3 / theirs for mine, theirs in pairs)

    def table(self) -> Table:
        """One row a lane."""
        head = ("lane", "Mpps", "slowest – fastest", "ns a packet", "of the first", "ns more", "unaccounted")
        rows = [
            (
                lane.name,
                lane.mpps,
                f"{min(lane.runs_mpps):.3g} – {max(lane.runs_mpps):.3g}",
                lane.packet_ns,
                f"{self.ratio(lane.name):.0%}".replace("%", " %"),
                round(self.more_ns(lane.name)) if lane is not self.lanes[0] else None,
                lane.ledger.unaccounted,
            )
            for lane in self.lanes
        ]
        return Table(head, tuple(rows), f"{self._caption()}; ratios are medians over pairs of runs")


def take_turns(
    out: Interface,
    frame: bytes,
    lanes: Mapping[str, Turn],
    *,
    packets: int,
    runs: int,
    title: str,
    notes: tuple[str, ...] = (),
) -> Paired:
    """Send ``packets`` out of ``out`` through each lane in turn, ``runs`` times; every other round goes backwards.

    Each run has a ledger of its own. Raises TrafficError where one doesn't account for every packet.
    """
    if not lanes or runs < 1:
        raise LessonError("A race needs lanes and runs.", tried="to measure")
    rates: dict[str, list[float]] = {name: [] for name in lanes}
    ledgers: dict[str, Ledger] = {}
    lab = out.host.lab
    for number in range(runs):
        order = list(lanes.items())
        for name, turn in order if number % 2 == 0 else reversed(order):
            with turn.arrange():
                lab.reset()
                report = generate(out, frame, packets, batch=turn.batch)
                ledgers[name] = lab.ledger()
                must_balance(name, ledgers[name], packets)
                rates[name].append(report.pps / 1e6)
    return Paired(title, packets, tuple(Lane(name, tuple(rates[name]), ledgers[name]) for name in lanes), "", notes)


def must_balance(name: str, ledger: Ledger, packets: int) -> None:
    """Raise TrafficError unless ``ledger`` has ``packets`` sent at least, and none unaccounted for."""
    if ledger.unaccounted or ledger.sent < packets:
        raise TrafficError(
            f"In the lane {name!r}, {ledger.unaccounted:,} of {ledger.sent:,} packets are unaccounted for.",
            tried="to measure",
            detail=str(ledger),
            remedy="a rate that isn't accounted for would mislead: run it again, and report it if it repeats",
        )
