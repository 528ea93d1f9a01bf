"""The kernel's list of XDP programs that it calls directly: its length, by a stopwatch; and what a call without it costs."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from math import log
from pathlib import Path
from statistics import median
from time import perf_counter

from labkit.interface import Interface
from labkit.lab import Lab
from labkit.lesson.fast_path_rig import Difference, Rig, Timed, checked_turns
from labkit.lesson.page import Table
from labkit.lesson.pictures import Picture, label_at, svg_of
from labkit.program.link import Link
from labkit.program.program import Program
from labkit.topology import End, LinkSpec, Topology
from labkit.traffic.frames import udp

__all__ = ["SLOTS", "Slots", "dispatcher_slots", "edge", "mitigation", "took_long"]

SLOTS = 48
"""BPF_DISPATCHER_MAX, include/linux/bpf.h: programs that the XDP dispatcher calls directly, on the whole machine."""

_PAIRS = 28  # spare veth pairs: 56 interfaces, more than there are slots
_FEWEST = 5  # on either side of the edge: a few that took long by chance are none
_UNSURE, _AGAIN = 4, 2  # programs on either side of the edge that are attached again, and how often
_CLIFF = 3.0  # times as long: attaching with a slot waits for all CPUs, without one it doesn't
_SPECTRE = Path("/sys/devices/system/cpu/vulnerabilities/spectre_v2")
_LEFT, _STEP, _BASE, _HIGH = 60, 12, 150, 110
_IN_SLOT, _WITHOUT = "in a slot: called directly", "no slot left: called through a pointer"


def mitigation() -> str:
    """What this kernel does about indirect calls that are guessed wrong: its own words, or that it doesn't say."""
    try:
        return _SPECTRE.read_text(encoding="utf-8").strip()
    except OSError:
        return "the kernel doesn't say"


def edge(times: tuple[float, ...]) -> int:
    """How many of the first ``times`` belong together, before those that are much shorter; all where none are."""
    logs = [log(max(each, 1e-6)) for each in times]

    def spread(part: list[float]) -> float:
        middle = median(part)
        return sum(abs(each - middle) for each in part)

    at = min(range(_FEWEST, len(times) - _FEWEST + 1), key=lambda k: spread(logs[:k]) + spread(logs[k:]))
    return at if median(times[:at]) > _CLIFF * median(times[at:]) else len(times)


def took_long(times: tuple[float, ...]) -> tuple[bool, ...]:
    """Which of ``times`` are nearer to those before the edge than to those behind it, as ratios; all where there is no edge."""
    at = edge(times)
    if at == len(times):
        return (True,) * len(times)
    limit = (median(times[:at]) * max(median(times[at:]), 1e-6)) ** 0.5
    return tuple(each > limit for each in times)


@dataclass(frozen=True, repr=False)
class Slots:
    """``attach_ms``: what attaching each of some programs took, in order; ``timed``: a lane with a slot, one without."""

    attach_ms: tuple[float, ...]
    timed: Timed

    @property
    def slotted(self) -> tuple[bool, ...]:
        """Whether each program got a slot, in order: where another's program leaves, a late one may get its place."""
        return took_long(self.attach_ms)

    @property
    def had_slot(self) -> int:
        """How many of the programs got a slot."""
        return sum(self.slotted)

    @property
    def more(self) -> Difference:
        """What the call of a program without a slot takes more, in ns."""
        return self.timed.more(_WITHOUT, _IN_SLOT)

    def table(self) -> Table:
        """Both kinds of programs, what attaching them took, and a packet's time at one of each."""
        with_it, without = self._parted()
        rows = (
            (_IN_SLOT, len(with_it), _ms(with_it), round(self.timed.ns(_IN_SLOT), 1)),
            (_WITHOUT, len(without), _ms(without), round(self.timed.ns(_WITHOUT), 1)),
        )
        caption = f"Through a pointer: {self.more} ns more a packet. This kernel on Spectre v2: {mitigation()}"
        return Table(("a program", "attached", "ms for attaching it", "ns a packet, in turn"), rows, caption)

    def _parted(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Milliseconds of those with a slot, and of those without."""
        each = tuple(zip(self.attach_ms, self.slotted, strict=True))
        return tuple(took for took, slot in each if slot), tuple(took for took, slot in each if not slot)

    def picture(self) -> Picture:
        """A bar for each program that was attached, in order."""
        most, slotted = max(self.attach_ms), self.slotted
        parts = [label_at(2, 18, "Attaching one XDP program after another: how long each took", "strong")]
        for i, took in enumerate(self.attach_ms):
            height, x = max(1.5, _HIGH * took / most), _LEFT + i * _STEP
            colour = "--lab-accent" if slotted[i] else "--lab-bad"
            place = f'x="{x}" y="{_BASE - height:.1f}" width="{_STEP - 3}" height="{height:.1f}"'
            parts.append(f'<rect {place} rx="2" fill="var({colour})"/>')
        parts += _axes(len(slotted), edge(self.attach_ms), self.had_slot, most)
        title = "Slots of the kernel's dispatcher, counted with a stopwatch"
        with_it, without = self._parted()
        said = f"{len(with_it)} took {_ms(with_it)} ms, the other {len(without)} took {_ms(without)}"
        svg = svg_of(title, said, _LEFT + len(self.attach_ms) * _STEP + 40, _BASE + 28, "".join(parts))
        return Picture(title, said, svg, self.table())

    def __str__(self) -> str:
        return str(self.picture())

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return self.picture()._repr_html_()


class _SlotsRig(Rig):
    """Client and server, and 56 interfaces beside those between which the packets go."""

    def __init__(self) -> None:
        self.lab = Lab(Topology(("client", "server"), tuple(map(_pair, range(_PAIRS + 1)))), name="slots")
        client, server = self.lab["client"], self.lab["server"]
        self.entry, self.frame = server["eth0"], udp(client, server)
        self.spares = [host[f"eth{number}"] for number in range(1, _PAIRS + 1) for host in (client, server)]


def _pair(number: int) -> LinkSpec:
    def end(host: str, last: int) -> End:
        return End(host, f"eth{number}", f"10.9.{number}.{last}/24", f"02:00:00:09:{number:02x}:{last:02x}")

    return LinkSpec(end("client", 1), end("server", 2))


def dispatcher_slots(*, packets: int | None = None, turns: int | None = None) -> Slots:
    """Attach 56 programs, more than there are slots, in the lab "slots"; then packets to one that has one, and to another.

    The first of the 56 stays where it is while it takes turns at another interface, so it keeps its slot; the one that it
    takes turns with comes when there is none. Other programs on this machine have slots, too. Counts as in ``redirect_cost``.
    """
    packets, turns = checked_turns(packets, turns)
    with _SlotsRig() as rig, ExitStack() as attached:
        many = [rig.load("skip_cost.c", "skip_drop") for _ in rig.spares]
        times = _attach_timed(many, rig.spares, attached)
        lanes = {_IN_SLOT: many[0], _WITHOUT: rig.load("skip_cost.c", "skip_drop")}
        return Slots(times, rig.take_turns(lanes, packets, turns))


def _attach_timed(many: list[Program], spares: list[Interface], attached: ExitStack) -> tuple[float, ...]:
    """Milliseconds for attaching each program to its interface. All stay until ``attached`` ends.

    Attaching waits for others as well (the lock of all network settings, a busy CPU), which may look like a slot. So those
    around the edge are detached and attached again: with a slot it takes long each time, as it gets the one it gave back.
    """
    links: list[Link] = []
    times: list[float] = []
    attached.callback(_close_all, links)
    for program, spare in zip(many, spares, strict=True):
        link, took = _timed(program, spare)
        links.append(link)
        times.append(took)
    around = edge(tuple(times))
    for number in range(max(1, around - _UNSURE), min(len(many), around + _UNSURE)):
        for _ in range(_AGAIN):
            links[number].close()
            links[number], took = _timed(many[number], spares[number])
            times[number] = min(times[number], took)
    return tuple(times)


def _close_all(links: list[Link]) -> None:
    for link in links:
        link.close()


def _timed(program: Program, spare: Interface) -> tuple[Link, float]:
    began = perf_counter()
    link = program.attach(spare)
    return link, (perf_counter() - began) * 1e3


def _ms(times: tuple[float, ...]) -> str:
    return f"{median(times):.2g}" if times else "–"


def _axes(bars: int, at: int, had: int, most: float) -> list[str]:
    middle = _LEFT + at * _STEP - 2
    return [
        f'<path d="M{_LEFT - 4} {_BASE}h{bars * _STEP + 4}" stroke="var(--lab-line)" stroke-width="1.5"/>',
        f'<path d="M{middle} {_BASE + 8}v-{_HIGH + 8}" stroke="currentColor" stroke-dasharray="4 3"/>',
        label_at(middle - 6, _BASE + 18, f"{had} got a slot", "", "end"),
        label_at(middle + 6, _BASE + 18, f"{bars - had} did not"),
        label_at(_LEFT - 8, _BASE - _HIGH + 8, f"{most:.0f} ms", "soft", "end"),
        label_at(_LEFT - 8, _BASE, "0", "soft", "end"),
    ]
