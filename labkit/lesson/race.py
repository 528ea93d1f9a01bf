"""The same packets through several arrangements, in turn and several times: rates that may be compared."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from html import escape
from statistics import median

from labkit.errors import LessonError, TrafficError
from labkit.interface import Interface
from labkit.lab import Lab
from labkit.lesson.page import Table, block
from labkit.lesson.pictures import bars
from labkit.observe.ledger import Ledger
from labkit.traffic.generator import generate

__all__ = ["Lane", "Race", "race", "runs_scaled", "scaled"]

Arrangement = Callable[[], AbstractContextManager[object]]


@dataclass(frozen=True)
class Lane:
    """One arrangement: the rate of each timed run in Mpps, and the ledger of one more run with the same packets.

    ``elsewhere`` is another source's figure for it in Mpps (None: it has none).
    """

    name: str
    runs_mpps: tuple[float, ...]
    ledger: Ledger
    elsewhere: float | None = None

    @property
    def mpps(self) -> float:
        """The median of the runs, in million packets a second."""
        return median(self.runs_mpps)

    @property
    def packet_ns(self) -> float:
        """Nanoseconds a packet, from the median."""
        return 1e3 / self.mpps


@dataclass(frozen=True)
class Race:
    """Lanes that took turns with the same frames. The first lane is what the others are compared with."""

    title: str
    packets: int
    lanes: tuple[Lane, ...]
    source: str = ""
    notes: tuple[str, ...] = ()

    def __getitem__(self, name: str) -> Lane:
        for lane in self.lanes:
            if lane.name == name:
                return lane
        raise LessonError(
            f"There is no lane {name!r}.",
            tried="to look at a race",
            remedy="it has " + ", ".join(x.name for x in self.lanes),
        )

    @property
    def mpps(self) -> dict[str, float]:
        """The median rate of each lane in Mpps."""
        return {lane.name: lane.mpps for lane in self.lanes}

    @property
    def unaccounted(self) -> int:
        """Packets that the lanes' ledgers could not account for, all together."""
        return sum(abs(lane.ledger.unaccounted) for lane in self.lanes)

    def ratio(self, name: str, to: str | None = None) -> float:
        """How many times as fast as the lane ``to`` (by default the first) the lane ``name`` is."""
        return self[name].mpps / (self[to] if to else self.lanes[0]).mpps

    def table(self) -> Table:
        """One row a lane."""
        first = self.lanes[0]
        head = ["lane", "Mpps", "slowest – fastest", "ns a packet", "of the first", "unaccounted"]
        rows = []
        for lane in self.lanes:
            spread = f"{min(lane.runs_mpps):.3g} – {max(lane.runs_mpps):.3g}"
            row: list[object] = [
                lane.name,
                lane.mpps,
                spread,
                lane.packet_ns,
                _share(lane.mpps, first.mpps),
                lane.ledger.unaccounted,
            ]
            if self.source:
                row += [lane.elsewhere, _share(lane.elsewhere, first.elsewhere)]
            rows.append(tuple(row))
        if self.source:
            head += [f"{self.source}, Mpps", "of its first"]
        return Table(tuple(head), tuple(rows), self._caption())

    def _caption(self) -> str:
        return f"{self.title}: median of {len(self.lanes[0].runs_mpps)} runs of {self.packets:,} packets"

    def _shares(self, *, elsewhere: bool = False) -> dict[str, float]:
        """Each lane's rate in percent of the first lane's, here or in the other source."""
        rates = {lane.name: lane.elsewhere if elsewhere else lane.mpps for lane in self.lanes}
        first = next(iter(rates.values()))
        return {name: 100 * rate / first for name, rate in rates.items() if rate is not None and first}

    def __str__(self) -> str:
        return "\n".join([str(self.table()), *self.notes])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        if self.source:
            picture = bars(
                self._shares(), "%", self._caption(), beside=self._shares(elsewhere=True), beside_name=self.source
            )
        else:
            picture = bars(self.mpps, "Mpps", self._caption())
        notes = "".join(f'<p class="soft">{escape(note)}</p>' for note in self.notes)
        return block(f"{picture.svg}{self.table().html()}{notes}")


def race(
    lab: Lab,
    arrangements: Mapping[str, Arrangement],
    frame: bytes,
    *,
    packets: int = 500_009,
    runs: int = 5,
    title: str = "Rates",
    elsewhere: Mapping[str, float] | None = None,
    source: str = "",
    notes: tuple[str, ...] = (),
) -> Race:
    """Send the same frames through each arrangement in turn, ``runs`` times, from the first link's first end.

    An arrangement is a function that sets something up and returns what takes it away again, as
    ``lambda: program.attach(interface)``. Every other round goes backwards, so that noise hits all alike. Runs are
    timed without the ledger's probe of drop reasons, which would cost the slower lanes more than the faster ones. A
    further run of each lane has the probe: its ledger must account for every packet, else TrafficError.
    """
    if not arrangements or runs < 1:
        raise LessonError("A race needs lanes and runs.", tried="to measure")
    link = lab.topology.links[0]
    out = lab[link.a.host][link.a.interface]
    rates: dict[str, list[float]] = {name: [] for name in arrangements}
    ledgers: dict[str, Ledger] = {}
    for number in range(runs):
        turns = list(arrangements.items())
        for name, arrange in turns if number % 2 == 0 else reversed(turns):
            with arrange():
                with lab.observer.without_drop_reasons():
                    rates[name].append(_timed(lab, out, frame, packets))
                if number == runs - 1:
                    lab.reset()
                    generate(out, frame, packets)
                    ledgers[name] = lab.ledger(settle_s=2.0)
                    _must_balance(name, ledgers[name], packets)
    other = elsewhere or {}
    lanes = tuple(Lane(name, tuple(rates[name]), ledgers[name], other.get(name)) for name in arrangements)
    return Race(title, packets, lanes, source, notes)


def _timed(lab: Lab, out: Interface, frame: bytes, packets: int) -> float:
    """The rate of one run in Mpps, of those packets that no full ring lost before their end."""
    lab.reset()
    report = generate(out, frame, packets)
    ledger = lab.ledger(settle_s=0.0)
    return (ledger.sent - ledger.losses.get("ring full", 0)) / report.seconds / 1e6


def _must_balance(name: str, ledger: Ledger, packets: int) -> None:
    if ledger.unaccounted or ledger.sent < packets:
        raise TrafficError(
            f"In the lane {name!r}, {ledger.unaccounted:,} of {packets:,} packets are unaccounted for.",
            tried="to measure",
            detail=str(ledger),
            remedy="a rate that isn't accounted for would mislead: run it again, and report it if it repeats",
        )


def _share(value: float | None, first: float | None) -> str | None:
    return None if value is None or not first else f"{value / first:.0%}".replace("%", " %")


def scaled(packets: int) -> int:
    """``packets`` times ``$LAB_SCALE`` (1 where unset), and on to the next prime: a prime count can't come about by chance."""
    number = max(101, int(packets * _scale()))
    while any(number % divisor == 0 for divisor in range(2, int(number**0.5) + 1)):
        number += 1
    return number


def runs_scaled(runs: int) -> int:
    """``runs``, or 2 where ``$LAB_SCALE`` asks for less than everything."""
    return runs if _scale() >= 1 else min(runs, 2)


def _scale() -> float:
    try:
        return min(max(float(os.environ.get("LAB_SCALE", "1")), 1e-4), 100.0)
    except ValueError:
        return 1.0
