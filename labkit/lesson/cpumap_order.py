"""Do the packets of a flow arrive in the order they were sent? Numbered datagrams through several programs."""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import replace

from labkit.compile import compile_source
from labkit.compile.source import lesson_directory
from labkit.errors import TrafficError
from labkit.lab import Lab
from labkit.lesson.page import Table
from labkit.lesson.pictures import Picture, bars
from labkit.lesson.race import scaled
from labkit.lesson.workshop import LONGEST_QUEUE, ONE_CPU, numbered_cpus
from labkit.program.program import Program
from labkit.program.spec import ProgramSpec
from labkit.topology import Topology
from labkit.traffic.capture import Capture
from labkit.traffic.frames import udp
from labkit.traffic.raw import send_frames

__all__ = ["DIRECT", "FLOW_BY_FLOW", "PACKET_BY_PACKET", "arrival_order", "late"]

DIRECT, PACKET_BY_PACKET, FLOW_BY_FLOW = "no CPU map", "packet by packet", "flow by flow"
_SOURCE_PORT, _UDP_CHECK, _NUMBER = 34, 40, 42  # bytes from the frame's beginning: Ethernet, IPv4, UDP
_FIRST_PORT = 20_000
_PATIENCE_S = 20.0


def numbered(frame: bytes, packets: int, flows: int) -> list[bytes]:
    """``frame`` (UDP over IPv4) so many times, in turn from ``flows`` ports, with a number that counts up as payload."""
    found = []
    for number in range(packets):
        made = bytearray(frame)
        struct.pack_into("!H", made, _SOURCE_PORT, _FIRST_PORT + number % flows)
        struct.pack_into("!H", made, _UDP_CHECK, 0)  # no checksum, RFC 768
        struct.pack_into("!I", made, _NUMBER, number)
        found.append(bytes(made))
    return found


def late(frames: Iterable[bytes]) -> int:
    """How many frames come after a later one of their flow (the reordered packets of RFC 4737)."""
    newest: dict[int, int] = {}
    count = 0
    for frame in frames:
        (port,), (number,) = struct.unpack_from("!H", frame, _SOURCE_PORT), struct.unpack_from("!I", frame, _NUMBER)
        count += number < newest.get(port, -1)
        newest[port] = max(number, newest.get(port, -1))
    return count


def spreading(lab: Lab, spec: ProgramSpec) -> Program:
    """A program that fills ``cpus_in_use`` CPUs from 0: loaded, with a long queue for each CPU that may be used."""
    program = lab.load(spec)
    for cpu in numbered_cpus():
        program.maps["cpus"][cpu] = LONGEST_QUEUE
    program.maps["cpus_in_use"][0] = len(numbered_cpus())
    return program


def arrival_order(*, packets: int | None = None, flows: int = 7) -> Picture:
    """Send numbered datagrams of several flows through each way of spreading, and count those that come late.

    10,007 packets by default, fewer where ``$LAB_SCALE`` says so; lab "order". A tap at the server's stack takes them
    down in the order of their arrival. Raises TrafficError where one is missing.
    """
    number = packets or scaled(10_007)
    with Lab(Topology.pair(), name="order") as lab:
        server = lab["server"]["eth0"]
        ways: dict[str, Callable[[], AbstractContextManager[object]]] = {DIRECT: contextlib.nullcontext}
        for name, file in ((PACKET_BY_PACKET, "spread_packets.c"), (FLOW_BY_FLOW, "spread_cpus.c")):
            program = spreading(lab, compile_source(path=lesson_directory() / file))
            ways[name] = lambda program=program: program.attach(server)  # type: ignore[misc]
        frames = numbered(udp(lab["client"], lab["server"]), number, flows)
        rows = []
        for name, arrange in ways.items():
            with arrange(), Capture(server, most=number) as tap:
                send_frames(lab["client"]["eth0"], frames)
                tap.wait(number, _PATIENCE_S)
                came = tap.frames
            if len(came) != number:
                raise TrafficError(
                    f"{name}: of {number:,} datagrams {len(came):,} arrived.",
                    tried="to look at their order",
                    on=server.where,
                    detail=str(lab.ledger()),
                    remedy="run it again, and report it if it repeats",
                )
            rows.append((name, number, flows, late(came), f"{100 * late(came) / number:.1f} %"))
    title = "Numbered datagrams, overtaken on their way to the server's stack"
    title += f". {ONE_CPU}" if len(numbered_cpus()) < 2 else ""
    table = Table(("spread", "packets", "flows", "overtaken", "share"), tuple(rows))
    return replace(bars({row[0]: 100 * row[3] / number for row in rows}, "%", title), table=table)
