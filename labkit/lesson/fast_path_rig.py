"""A client, a router that redirects, and a server that drops: short volleys through one program after the other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from statistics import median, quantiles
from typing import Self

from labkit.compile import compile_source
from labkit.compile.source import lesson_directory
from labkit.errors import LessonError, TrafficError
from labkit.lab import Lab
from labkit.lesson.hints_cost_checks import checked_counts
from labkit.lesson.page import Table
from labkit.lesson.turns import must_balance
from labkit.lesson.workshop import usable_cpus
from labkit.observe.ledger import Ledger
from labkit.program.link import Mode
from labkit.program.program import Program
from labkit.topology import Topology
from labkit.traffic.frames import udp
from labkit.traffic.volleys import Volleys
from labkit.uapi import AttachType

__all__ = ["Difference", "Rig", "Timed", "checked_turns"]

_VOLLEYS = 5  # a turn: the quickest of so many counts, as others use the CPU too
_TRIES = 5
_USUAL = (4_001, 41)  # packets a volley, turns


@dataclass(frozen=True)
class Difference:
    """What one lane takes more than another, in ns a packet: the median over pairs of turns, and the middle half of them."""

    ns: float
    low_ns: float
    high_ns: float

    def __str__(self) -> str:
        return f"{self.ns:.1f} ({self.spread})"

    @property
    def spread(self) -> str:
        """The middle half of the turns, for people."""
        return f"{self.low_ns:.1f} to {self.high_ns:.1f}"

    def named(self, name: str) -> dict[str, float]:
        """The same as figures of a benchmark: ``name_ns``, ``name_low_ns``, ``name_high_ns``."""
        return {f"{name}_ns": self.ns, f"{name}_low_ns": self.low_ns, f"{name}_high_ns": self.high_ns}


@dataclass(frozen=True)
class Timed:
    """Lanes that took turns: ns a packet of each turn, and the ledger of one more volley of each.

    The half of the rounds in which all lanes together were quickest counts: in the others somebody else had a part of the
    CPU. What is left out is left out of every lane, so none is favoured.
    """

    packets: int
    turns_ns: Mapping[str, tuple[float, ...]]
    ledgers: Mapping[str, Ledger]

    def ns(self, name: str) -> float:
        """The median of a lane, in nanoseconds a packet. Raises LessonError where there is no such lane."""
        return median(self._turns(name))

    def more(self, name: str, than: str) -> Difference:
        """What lane ``name`` takes more than lane ``than``: turn 1 is compared with turn 1, and so on."""
        gaps = [a - b for a, b in zip(self._turns(name), self._turns(than), strict=True)]
        low, _, high = quantiles(gaps, n=4) if len(gaps) >= 4 else (min(gaps), 0.0, max(gaps))
        return Difference(median(gaps), low, high)

    @property
    def turns(self) -> int:
        """How many turns each lane had."""
        return len(next(iter(self.turns_ns.values())))

    @property
    def unaccounted(self) -> int:
        """Packets that the lanes' ledgers could not account for, all together."""
        return sum(abs(ledger.unaccounted) for ledger in self.ledgers.values())

    def lanes(self, base: str, otherwise: str = "") -> Table:
        """One row a lane, beside the lane ``base``; ``otherwise`` says where packets are that nobody lost or received."""
        rows = []
        for name in self.turns_ns:
            more, ledger = self.more(name, base), self.ledgers[name]
            fate = ", ".join(ledger.losses) or otherwise
            rows.append(
                (name, round(self.ns(name), 1), round(more.ns, 1), more.spread, fate, ledger.unaccounted),
            )
        head = (
            "lane",
            "ns a packet",
            f"more than {base}",
            "half of the turns",
            "what became of the packets",
            "unaccounted",
        )
        caption = (
            f"Medians of the quieter half of {self.turns} turns, in each the quickest of {_VOLLEYS} volleys of "
            f"{self.packets:,} packets"
        )
        return Table(head, tuple(rows), caption)

    def _turns(self, name: str) -> list[float]:
        if name not in self.turns_ns:
            raise LessonError(
                f"There is no lane {name!r}.",
                tried="to look at a measurement",
                remedy="it has " + ", ".join(self.turns_ns),
            )
        return [self.turns_ns[name][turn] for turn in self._quiet]

    @cached_property
    def _quiet(self) -> list[int]:
        """Turns that count, by number: those with the smallest sum over the lanes, each in parts of its own median."""
        usual = {name: median(values) for name, values in self.turns_ns.items()}

        def slowness(turn: int) -> float:
            return sum(values[turn] / usual[name] for name, values in self.turns_ns.items())

        return sorted(sorted(range(self.turns), key=slowness)[: max(1, (self.turns + 1) // 2)])


def checked_turns(packets: int | None, turns: int | None) -> tuple[int, int]:
    """Packets a volley, and turns: 4,001 and 41 where None is given, less where ``$LAB_SCALE`` says so. Raises LessonError."""
    return checked_counts(packets, turns, _USUAL, "turns")


class Rig:
    """The lab ``name``: client, router, server. Programs are loaded for the router's eth0, and send out of its eth1."""

    mode: Mode = "native"

    def __init__(self, name: str) -> None:
        self.lab = Lab(Topology.router(), name=name)
        try:
            self.entry, self.out = self.lab["router"]["eth0"], self.lab["router"]["eth1"]
            self.frame = udp(self.lab["client"], self.lab["server"])
            self.load("drop_all.c").attach(self.lab["server"]["eth0"])
        except BaseException:
            self.lab.close()
            raise

    def load(self, file: str, function: str | None = None, *, at_the_way_out: bool = False) -> Program:
        """A program of ``bpf/``."""
        kind = AttachType.XDP_DEVMAP if at_the_way_out else AttachType.XDP
        return self.lab.load(compile_source(path=lesson_directory() / file), function, expected_attach_type=kind)

    def take_turns(self, programs: Mapping[str, Program], packets: int, turns: int) -> Timed:
        """Volleys through each program in turn, every other round in reverse order; the first round warms up.

        A turn is 5 volleys of ``packets``, of which the quickest counts. Raises TrafficError where a packet of them all
        didn't come to its program, or isn't accounted for.
        """
        order = list(programs.items())
        found: dict[str, list[float]] = {name: [] for name in programs}
        ledgers: dict[str, Ledger] = {}
        with (
            order[0][1].attach(self.entry, mode=self.mode) as link,
            Volleys(self.lab["client"]["eth0"], self.frame, cpu=usable_cpus()[0]) as volleys,
        ):
            for turn in range(-1, turns):
                for name, program in order if turn % 2 else reversed(order):
                    link.replace(program)
                    packet_ns = self._turn(volleys, packets)
                    if turn >= 0:
                        found[name].append(packet_ns)
            for name, program in order:
                link.replace(program)
                self._ready()
                self.lab.reset()
                volleys.send(packets)
                ledgers[name] = self.lab.ledger()
                must_balance(name, ledgers[name], packets)
        return Timed(packets, {name: tuple(values) for name, values in found.items()}, ledgers)

    def _turn(self, volleys: Volleys, packets: int) -> float:
        """Nanoseconds a packet. A turn of which a packet never came to the program is no measurement, and is taken again."""
        for _ in range(_TRIES):
            before = self._seen()
            quickest_s = min(self._volley_s(volleys, packets) for _ in range(_VOLLEYS))
            came = self._seen() - before
            if came == _VOLLEYS * packets:
                return quickest_s * 1e9 / packets
        raise TrafficError(
            f"Of {_VOLLEYS * packets:,} packets {came:,} came to a program, {_TRIES} times over.",
            tried="to time a redirect",
            on=self.entry.where,
            remedy="a time for less than all would mislead: run it again, and report it if it repeats",
        )

    def _volley_s(self, volleys: Volleys, packets: int) -> float:
        self._ready()
        return volleys.send(packets)

    def _ready(self) -> None:
        """Make ready what has to be before each volley, outside of its time."""

    def _seen(self) -> int:
        """Packets that the driver of the interface with the programs has had so far."""
        return self.entry.driver_statistics()["rx_queue_0_xdp_packets"]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.lab.close()
