"""The exercise of lesson 03, spreading and moving work between CPUs: a flow always to the same CPU, all CPUs used."""

from __future__ import annotations

import struct
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from labkit.compile import compile_source
from labkit.compile.source import lesson_directory
from labkit.errors import LessonError
from labkit.lesson import odd_frames
from labkit.lesson.practice import Exercise, Row, register
from labkit.lesson.trial import Trial
from labkit.lesson.workshop import LONGEST_QUEUE, numbered_cpus
from labkit.traffic.raw import frame_socket
from labkit.uapi import AttachType, MapType, XdpAction

__all__ = ["SPREAD_FLOWS", "Landing", "Spread", "missing_maps"]

_COPIES, _FLOWS = 7, 64
_PATIENCE_S = 5.0
_IDENTIFICATION, _SOURCE_ADDRESS, _SOURCE_PORT = 18, 26, 34  # bytes from the frame's beginning
_SPLIT = "what is the same in all packets of a flow? Addresses, protocol and ports are; a counter, an IP ID or a checksum isn't"
_OPTIONS = "IPv4 options: the ports are behind the whole header, ip->ihl * 4 bytes; next_ipv4 moves the cursor there"
_FRAGMENTS = (
    "fragments: later ones have no ports, so the first must not use its own; ip->frag_off & htons(0x3fff) tells all"
)
_ICMP = "ICMP has no ports: what stands in their place is different in each packet"
_UNUSED = (
    "which bits of your number decide? Fields are in network byte order, so a port's low byte is not the number's: multiply "
    "by a large odd number and take the upper bits, (u64)hash * count >> 32"
)
_PORTS = "the ports are part of a flow: many flows may have the same addresses"
_ADDRESSES = "the addresses are part of a flow: many flows may have the same ports"
_PASSES = "what is not IPv4, or too short to tell, passes"
_RANGE = "the CPU's number: cpus_in_use says how many there are, counted from 0; the slots behind are empty"


@dataclass(frozen=True)
class Landing:
    """Where ``sent`` frames came out: packets by CPU; ``rest`` did not come out on any."""

    sent: int
    by_cpu: Mapping[int, int]
    rest: int

    @property
    def places(self) -> int:
        """How many places they came to; those that came out nowhere count as one."""
        return len(self.by_cpu) + bool(self.rest)

    def words(self, rest: str) -> str:
        """The same for people."""
        named = [f"CPU {cpu}: {packets}" for cpu, packets in self.by_cpu.items()]
        return ", ".join([*named, *([f"{rest}: {self.rest}"] if self.rest else [])])


class Spread:
    """The program on trial with a witness on each CPU that it may use, which counts what comes and drops it.

    A program can't be seen to choose where there is one CPU only: then it is told of two, and the second slot is empty.
    """

    def __init__(self, trial: Any) -> None:
        self._trial = trial
        self._cpus = numbered_cpus()
        self.count = max(2, len(self._cpus))
        self.rest = "empty slot of CPU 1" if len(self._cpus) == 1 else "on no CPU"
        spec = compile_source(path=lesson_directory() / "on_cpu.c")
        self._witness = trial.lab.load(spec, expected_attach_type=AttachType.XDP_CPUMAP)
        self._witness.maps["action"][0] = int(XdpAction.DROP)
        for cpu in self._cpus:
            trial.program.maps["cpus"][cpu] = LONGEST_QUEUE, self._witness
        self.use(self.count)
        self._out = frame_socket(trial.client)  # one for all: to close a packet socket takes the kernel some 10 ms

    @property
    def single(self) -> bool:
        """Whether there is one CPU only."""
        return len(self._cpus) == 1

    def use(self, cpus: int) -> None:
        """Tell the program how many CPUs to use."""
        self._trial.program.maps["cpus_in_use"][0] = cpus

    def send(self, frames: Sequence[bytes]) -> Landing:
        """Send the frames, and wait until they have come out. Raises LessonError where the driver doesn't see them."""
        before, arrived = self._by_cpu(), self._driver()
        for frame in frames:
            self._out.send(frame)
        deadline = time.monotonic() + _PATIENCE_S
        while True:
            seen, sent_on = (new - old for new, old in zip(self._driver(), arrived, strict=True))
            found = {cpu: n - before[cpu] for cpu, n in self._by_cpu().items() if n > before[cpu]}
            if seen == len(frames) and sum(found.values()) == sent_on:
                return Landing(len(frames), found, len(frames) - sum(found.values()))
            if time.monotonic() > deadline:
                raise LessonError(
                    f"Of {len(frames)} frames sent, {seen} reached the program; it sent {sent_on} to CPUs, and "
                    f"{sum(found.values())} came out there.",
                    tried="to show frames to the program",
                    remedy="check again; if it repeats, restart the kernel of the notebook",
                )
            time.sleep(0.0005)

    def __enter__(self) -> Spread:
        return self

    def __exit__(self, *_: object) -> None:
        self._out.close()

    def _by_cpu(self) -> dict[int, int]:
        return dict(enumerate(self._witness.maps["verdicts"].per_cpu(int(XdpAction.DROP))))

    def _driver(self) -> tuple[int, int]:
        """(frames the program saw, frames it redirected), by the driver."""
        found = self._trial.server.driver_statistics()
        return found.get("rx_queue_0_xdp_packets", 0), found.get("rx_queue_0_xdp_redirect", 0)


def _copies(frame: bytes, copies: int = _COPIES, changing: int = _IDENTIFICATION) -> list[bytes]:
    """The frame several times, with another number each at byte ``changing``."""
    found = []
    for number in range(copies):
        made = bytearray(frame)
        struct.pack_into("!H", made, changing, 0x1357 * (number + 1) & 0xFFFF)
        found.append(bytes(made))
    return found


@cache
def _one_flow_each() -> tuple[tuple[str, tuple[bytes, ...], str], ...]:
    """Kinds of flow: what, its packets, and where to look if they go to several CPUs."""
    first, later = odd_frames.udp(flags="MF"), odd_frames.later_fragment()
    pieces = [*_copies(first), *_copies(later, changing=_SOURCE_PORT)]
    return (
        ("UDP", tuple(_copies(odd_frames.udp())), _SPLIT),
        ("TCP, the sequence number counting", tuple(_copies(odd_frames.tcp(80), changing=40)), _SPLIT),
        (
            "UDP behind IPv4 options that change",
            tuple(_copies(odd_frames.udp(options=odd_frames.nops()), changing=34)),
            _OPTIONS,
        ),
        ("fragments, first and later ones", tuple(pieces), _FRAGMENTS),
        ("ping (ICMP echo)", tuple(_copies(odd_frames.ping(), changing=36)), _ICMP),
    )


@cache
def _flow(number: int, at: int) -> bytes:
    """UDP from port 10,000 + ``number``, or from address 10.0.1.(1 + ``number``)."""
    made = bytearray(odd_frames.udp())
    if at == _SOURCE_PORT:
        struct.pack_into("!H", made, at, 10_000 + number)
    else:
        made[at + 3] = 1 + number
    return bytes(made)


def _run_spread(trial: Trial) -> list[Row]:
    missing = missing_maps(trial)
    if missing:
        return missing
    with Spread(trial) as spread:
        rows = _each_flow(spread)
        rows += _looks_added(
            [
                _many_flows(spread, "source ports", _SOURCE_PORT),
                _many_flows(spread, "source addresses", _SOURCE_ADDRESS),
            ]
        )
        spread.use(1)
        landing = spread.send([_flow(number, _SOURCE_PORT) for number in range(_FLOWS)])
        spread.use(spread.count)
    good = landing.by_cpu == {0: _FLOWS}
    rows.append(Row(f"{_FLOWS} flows, cpus_in_use is 1", f"CPU 0: {_FLOWS}", landing.words("on no CPU"), good, _RANGE))
    for what, frame in (("ARP, 42 bytes", odd_frames.arp()), ("bare Ethernet header, 14 bytes", odd_frames.udp()[:14])):
        seen = trial.send(frame, _COPIES, ask=False)
        rows.append(Row(f"{_COPIES} × {what}", "passed", seen.words, seen.passed == _COPIES, _PASSES))
    return rows


def missing_maps(trial: Any) -> list[Row]:
    """A row for each map of ``Spread`` that the program on trial doesn't have, or has as another kind."""
    rows = []
    for name, kind in (("cpus", MapType.CPUMAP), ("cpus_in_use", MapType.ARRAY)):
        held = trial.program.maps.get(name)
        if held is None or held.spec.type != kind:
            look = f"the maps as the stub has them: the check fills in {name}, and the program has to use it"
            seen = "not used by the program" if held is None else held.spec.type.name.lower()
            rows.append(Row(f"the map {name}", kind.name.lower(), seen, False, look))
    return rows


def _each_flow(spread: Spread) -> list[Row]:
    """A row for each kind of flow; where even plain UDP is torn apart, that is what to look at, and nothing else."""
    rows = [_one_place(spread, *each) for each in _one_flow_each()]
    return rows if rows[0].good else [replace(row, look=rows[0].look) for row in rows]


def _one_place(spread: Spread, what: str, frames: tuple[bytes, ...], look: str) -> Row:
    landing = spread.send(frames)
    good = landing.places == 1 and (spread.single or not landing.rest)
    look = _RANGE if landing.rest and not spread.single else look
    return Row(f"one flow, {len(frames)} × {what}", "all on one CPU", landing.words(spread.rest), good, look)


def _looks_added(many: list[tuple[Row, Row]]) -> list[Row]:
    """Where to look if flows of another port, or of another address, all end up on one CPU; if both do, at the bits."""
    uneven = [not fair.good and not fair.look and torn.good for torn, fair in many]
    looks = (_UNUSED, _UNUSED) if all(uneven) else (_PORTS, _ADDRESSES)
    rows = []
    for (torn, fair), look, bad in zip(many, looks, uneven, strict=True):
        rows += [torn, replace(fair, look=look) if bad else fair]
    return rows


def _many_flows(spread: Spread, what: str, at: int) -> tuple[Row, Row]:
    """Whether each of many flows stays on one CPU, and whether each CPU has its share of them."""
    landings = [spread.send(_copies(_flow(number, at))) for number in range(_FLOWS)]
    torn = sum(landing.places > 1 for landing in landings)
    flows_by_cpu = dict.fromkeys(range(spread.count), 0)
    for landing in landings:
        if landing.places == 1:
            cpu = next(iter(landing.by_cpu), 1 if spread.single else -1)
            flows_by_cpu[cpu] = flows_by_cpu.get(cpu, 0) + 1
    nowhere = flows_by_cpu.pop(-1, 0)
    least = _FLOWS // spread.count // 4
    words = ", ".join(f"CPU {cpu}: {flows}" for cpu, flows in sorted(flows_by_cpu.items()))
    words += f", on no CPU: {nowhere}" if nowhere else ""
    fair = all(flows >= least for flows in flows_by_cpu.values()) and not nowhere
    return (
        Row(f"{_FLOWS} {what}: flows on several CPUs", "0", str(torn), not torn, _SPLIT),
        Row(f"{_FLOWS} {what}: flows by CPU", f"{least} or more on each", words, fair, _RANGE if nowhere else ""),
    )


SPREAD_FLOWS = register(
    Exercise(
        "spread-flows",
        "A flow always to the same CPU",
        "Input: any frame. Send IPv4 to one of the first cpus_in_use CPUs of the map cpus, so that all packets of a flow "
        "(same addresses, same protocol, and for UDP and TCP same ports) go to the same CPU, and many flows use all CPUs. "
        "Fragments stay together: those of one pair of hosts and one protocol count as one flow. Pass what is not IPv4.",
        "spread_flows",
        (
            "A counter knows nothing of flows. Make a number of what all packets of a flow have in common, and no more, and "
            "choose the CPU by that.",
            "Find the IPv4 header with the cursor of bpf/common/parse.h, then the ports: UDP and TCP both begin with them, so "
            "next_udp(&at) does for both. Whatever has no ports does with addresses and protocol.",
            "Fragments: only the first has ports, so use none of any fragment: ip->frag_off & htons(0x3fff) is not 0 for all "
            "of them, the first among them.",
            "hash = (saddr ^ daddr ^ protocol ^ ports) * 0x9e3779b1 stirs the bits upwards; (u64)hash * *count >> 32 is a "
            "number below *count that all of them have a part in.",
        ),
        _run_spread,
    )
)
