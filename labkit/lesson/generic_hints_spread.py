"""Sharing out by a hash that came along, beside sharing out by parsing: the same CPUs for the same flows."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Mapping
from dataclasses import dataclass

from labkit.compile import compile_source
from labkit.compile.source import lesson_directory
from labkit.errors import TrafficError
from labkit.lesson.generic_hints_route import GenericRoute
from labkit.lesson.page import Table, block
from labkit.lesson.race import scaled
from labkit.lesson.turns import must_balance
from labkit.lesson.workshop import LONGEST_QUEUE, ONE_CPU, numbered_cpus
from labkit.observe.ledger import Ledger
from labkit.program.program import Program
from labkit.traffic.frames import udp
from labkit.traffic.generator import generate
from labkit.traffic.raw import frame_socket
from labkit.uapi import AttachType, XdpAction

__all__ = ["BY_HASH", "BY_PARSING", "Spreading", "Spreads", "spread_alike"]

BY_HASH, BY_PARSING = "spread_by_hash", "spread_by_parsing"
_FLOWS, _COPIES = 64, 3
_FIRST_PORT, _SOURCE_PORT, _CHECK = 10_000, 34, 40  # of UDP over IPv4: bytes from the frame's start
_PATIENCE_S = 20.0


@dataclass(frozen=True)
class Spreads:
    """What one program did: ``cpu_of`` flow → CPU, from a few packets each; ``by_cpu`` the packets of a whole run.

    ``torn``: flows whose packets went to several CPUs. ``parsed`` packets whose headers the program had to read.
    """

    name: str
    cpu_of: Mapping[int, int]
    torn: int
    by_cpu: Mapping[int, int]
    parsed: int
    ledger: Ledger


@dataclass(frozen=True)
class Spreading:
    """Both programs on the same packets."""

    packets: int
    ways: tuple[Spreads, ...]
    note: str = ""

    @property
    def alike(self) -> int:
        """Flows that both programs sent to the same CPU, whole."""
        first, *others = self.ways
        return sum(all(other.cpu_of.get(flow) == cpu for other in others) for flow, cpu in first.cpu_of.items())

    def table(self) -> Table:
        """One row a program."""
        rows = tuple(
            (
                way.name,
                ", ".join(f"CPU {cpu}: {packets:,}" for cpu, packets in sorted(way.by_cpu.items())),
                way.parsed,
                way.torn,
                f"{self.alike} of {_FLOWS}",
                way.ledger.unaccounted,
            )
            for way in self.ways
        )
        head = ("program", "packets", "parsed", "flows torn apart", "flows on the same CPU in both", "unaccounted")
        return Table(head, rows, f"{self.packets:,} packets of {_FLOWS} flows. {self.note}".strip())

    def __str__(self) -> str:
        return str(self.table())

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return block(self.table().html())


def spread_alike(packets: int | None = None) -> Spreading:
    """The same flows shared out over CPUs by the hash in the metadata, and by parsing; lab "alike".

    By default 300,007 packets a program, fewer where ``$LAB_SCALE`` says so; a program on each CPU drops them. Every
    packet of every run is accounted for, else TrafficError.
    """
    number = packets or scaled(300_007)
    with GenericRoute("alike") as route:
        ways = tuple(_spread(route, name, number) for name in (BY_HASH, BY_PARSING))
    return Spreading(number, ways, ONE_CPU if len(numbered_cpus()) < 2 else "")


def _spread(route: GenericRoute, name: str, packets: int) -> Spreads:
    program = load_spread(route, name)
    route.attach(program)
    with frame_socket(route.client) as out:  # one for all: to close one takes the kernel some 10 ms
        cpus = [_cpus_of(route, program, out, flow) for flow in range(_FLOWS)]
    before = _meant(program), program.maps["hashes"][1]
    route.lab.reset()
    generate(route.client, udp(route.lab["client"], route.router["eth0"]), packets, flows=_FLOWS)
    ledger = route.lab.ledger()
    must_balance(name, ledger, packets)
    by_cpu = {cpu: count - before[0].get(cpu, 0) for cpu, count in _meant(program).items()}
    whole = {flow: min(found) for flow, found in enumerate(cpus) if len(found) == 1}
    return Spreads(name, whole, _FLOWS - len(whole), by_cpu, program.maps["hashes"][1] - before[1], ledger)


def load_spread(route: GenericRoute, name: str) -> Program:
    """One of the two programs, with a long queue and a program that drops on each CPU that may be used."""
    bpf, lab = lesson_directory(), route.lab
    witness = lab.load(compile_source(path=bpf / "on_cpu.c"), expected_attach_type=AttachType.XDP_CPUMAP)
    witness.maps["action"][0] = XdpAction.DROP
    program = lab.load(compile_source(path=bpf / "generic_spread.c"), name)
    for cpu in numbered_cpus():
        program.maps["cpus"][cpu] = LONGEST_QUEUE, witness
    program.maps["cpus_in_use"][0] = len(numbered_cpus())
    return program


def _meant(program: Program) -> dict[int, int]:
    return {cpu: count for cpu, count in program.maps["packets_to_cpu"].read().items() if count}


def _cpus_of(route: GenericRoute, program: Program, out: socket.socket, flow: int) -> set[int]:
    """The CPUs that a few packets of a flow are sent to."""
    frame = bytearray(udp(route.lab["client"], route.router["eth0"]))
    struct.pack_into("!H", frame, _SOURCE_PORT, _FIRST_PORT + flow)
    struct.pack_into("!H", frame, _CHECK, 0)  # RFC 768: none
    before = _meant(program)
    for _ in range(_COPIES):
        out.send(frame)
    until = time.monotonic() + _PATIENCE_S
    while True:
        found = {
            cpu: count - before.get(cpu, 0) for cpu, count in _meant(program).items() if count > before.get(cpu, 0)
        }
        if sum(found.values()) >= _COPIES:
            return set(found)
        if time.monotonic() > until:
            raise TrafficError(
                f"Of {_COPIES} packets of a flow {sum(found.values())} came to {program.name}.",
                tried="to see where a flow goes",
                on=route.server.where,
                remedy="run it again, and report it if it repeats",
            )
        time.sleep(0.0002)
