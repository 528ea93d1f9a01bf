"""A bench for metadata: a program that leaves a note in front of each packet, and readers for it along every way."""

from __future__ import annotations

import contextlib
import secrets
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum
from struct import Struct

from labkit.compile import compile_source
from labkit.compile.source import lesson_directory
from labkit.errors import TrafficError
from labkit.interface import Interface
from labkit.lab import Lab
from labkit.lesson.turns import must_balance
from labkit.lesson.workshop import LONGEST_QUEUE, usable_cpus
from labkit.observe.ledger import Ledger
from labkit.program.classifier import at_tc
from labkit.program.link import Mode
from labkit.topology import Topology
from labkit.traffic.frames import udp
from labkit.traffic.generator import generate
from labkit.traffic.raw import send_frames
from labkit.uapi import AttachType, ProgType
from labkit.xsk import XskSocket

__all__ = ["Post", "Reading", "Way"]

_PATIENCE_S = 20.0
_NOTE = Struct("=II")  # struct note, bpf/common/note.h
_MOST_TO_SOCKET = 1021  # packets: half of the socket's memory, and a prime


class Way(IntEnum):
    """Where the writer sends a packet, by its number in bpf/meta_write.c."""

    TO_STACK = 0
    BACK = 1
    TO_DEVICE = 2
    TO_CPU = 3
    TO_SOCKET = 4


@dataclass(frozen=True)
class Reading:
    """What a reader found in front of ``sent`` packets, each with a note of its own when it left the writer.

    ``right`` had theirs, ``none`` had nothing, ``other`` had something else. ``numbers`` is the sum of the notes'
    numbers: where every packet had its own note it is that of 0, 1 … ``sent`` - 1.
    """

    sent: int
    right: int
    none: int
    other: int
    numbers: int
    ledger: Ledger

    @property
    def carried(self) -> bool:
        """Whether every note arrived, each once."""
        return self.right == self.sent and self.numbers == self.sent * (self.sent - 1) // 2

    @property
    def words(self) -> str:
        """The same for people."""
        found = [f"{self.right:,} of {self.sent:,}"]
        found += [f"{self.other:,} others"] if self.other else []
        return ", ".join(found)


class Post:
    """client, router, server; the writer is at the router's eth0. The lab is called ``name``.

    ``with Post("notes") as post: post.carry(…)``. Readers share their counts, so one at a time is attached.
    """

    def __init__(self, name: str) -> None:
        self.lab = Lab(Topology.router(), name=name)
        try:
            self._load()
        except BaseException:
            self.lab.close()
            raise

    def _load(self) -> None:
        bpf = lesson_directory()
        lab, reading = self.lab, compile_source(path=bpf / "meta_read.c")
        self.client, self.router, self.server = lab["client"], lab["router"], lab["server"]
        self.writer = lab.load(compile_source(path=bpf / "meta_write.c"))
        self.reader = lab.load(reading, "meta_read")
        shared = self.reader.maps
        self.on_cpu = lab.load(reading, "meta_read", maps=shared, expected_attach_type=AttachType.XDP_CPUMAP)
        self.at_egress = lab.load(reading, "meta_read", maps=shared, expected_attach_type=AttachType.XDP_DEVMAP)
        self._at_tc = {
            direction: lab.load(
                reading, "meta_read_tc", maps=shared, type=ProgType.SCHED_CLS, expected_attach_type=direction
            )
            for direction in (AttachType.TCX_INGRESS, AttachType.TCX_EGRESS)
        }
        self.passing = lab.load(compile_source(path=bpf / "pass.c"))
        self.dropping = lab.load(compile_source(path=bpf / "drop_all.c"))
        self.mark = 1 + secrets.randbelow((1 << 32) - 1)
        self.cpu = usable_cpus()[-1]
        self._mode: Mode = "native"

    @contextlib.contextmanager
    def in_mode(self, mode: Mode) -> Iterator[None]:
        """While it lasts, the writer is attached in ``mode``, and every other XDP program will be."""
        self._mode = mode
        with self.writer.attach(self.router["eth0"], mode=mode):
            yield

    def carry(self, way: Way, packets: int, *, from_socket: bool = False, take: bool = True) -> Reading:
        """Send ``packets`` through the writer by ``way``; what the reader that is attached found.

        ``take``: the reader ends them. Raises TrafficError where they don't come to it.
        """
        self.reader.maps["wanted"][0] = {"mark": self.mark, "take": int(take)}
        self.reader.maps["found"][0] = dict.fromkeys(("right", "numbers", "none", "other"), 0)
        self._send(way, packets, from_socket)
        deadline = time.monotonic() + _PATIENCE_S
        while sum((found := self._found()).values()) < packets:
            if time.monotonic() > deadline:
                raise _lost(packets, sum(found.values()))
            time.sleep(0.0005)
        return self._reading(way, packets, found, self.reader.maps["found"][0]["numbers"])

    def carry_to_socket(self, packets: int, *, from_socket: bool = False) -> Reading:
        """The same to an AF_XDP socket at the router's eth0, which looks at the eight bytes before each packet.

        1,021 packets at the most: nothing is read before all are there. Nobody tells a socket how much metadata there
        is, so it can't tell none from another's.
        """
        count = min(packets, _MOST_TO_SOCKET)
        with XskSocket(self.router["eth0"], transmit_ring=0) as socket:
            self.writer.maps["sockets"][0] = socket
            self._send(Way.TO_SOCKET, count, from_socket)
            frames = socket.receive(count, _PATIENCE_S, _NOTE.size)
            if len(frames) < count:
                raise _lost(count, len(frames))
            notes = [_NOTE.unpack(frame.meta) for frame in frames]
            numbers = [number for mark, number in notes if mark == self.mark]
            found = {"right": len(numbers), "none": 0, "other": count - len(numbers)}
            return self._reading(Way.TO_SOCKET, count, found, sum(numbers))

    def _send(self, way: Way, packets: int, from_socket: bool) -> None:
        """Notes count from 0, and so does the ledger."""
        self.writer.maps["plan"][0] = {"mark": self.mark, "way": way, "cpu": self.cpu, "same": 0}
        self.writer.maps["written"][0] = 0
        self.lab.reset()
        out, frame = self.client["eth0"], udp(self.client, self.server)
        send_frames(out, frame, packets) if from_socket else generate(out, frame, packets)

    def _reading(self, way: Way, packets: int, found: Mapping[str, int], numbers: int) -> Reading:
        ledger = self.lab.ledger()
        must_balance(way.name.lower(), ledger, packets)
        return Reading(packets, found["right"], found["none"], found["other"], numbers, ledger)

    def _found(self) -> dict[str, int]:
        found = self.reader.maps["found"][0]
        return {name: found[name] for name in ("right", "none", "other")}

    # ---- Readers, each while the context lasts -------------------------------------------------------------------------

    @contextlib.contextmanager
    def reading(self, interface: Interface) -> Iterator[None]:
        """By an XDP program at ``interface``."""
        with self.reader.attach(interface, mode=self._mode):
            yield

    @contextlib.contextmanager
    def reading_at_tc(self, interface: Interface, *, egress: bool = False) -> Iterator[None]:
        """By a classifier at ``interface``."""
        direction = AttachType.TCX_EGRESS if egress else AttachType.TCX_INGRESS
        with at_tc(self._at_tc[direction], interface, direction):
            yield

    @contextlib.contextmanager
    def next_host(self, *, at_tc: bool = False, at_egress: bool = False) -> Iterator[None]:
        """By the server, to which the writer redirects: its XDP program, its TC, or a program at the way out to it."""
        far = self.server["eth0"]
        self.writer.maps["ports"][0] = (self.router["eth1"], self.at_egress) if at_egress else self.router["eth1"]
        with contextlib.ExitStack() as stack:
            stack.enter_context((self.passing if at_tc or at_egress else self.reader).attach(far, mode=self._mode))
            if at_tc:
                stack.enter_context(self.reading_at_tc(far))
            yield

    @contextlib.contextmanager
    def on_another_cpu(self, *, at_tc: bool = False) -> Iterator[None]:
        """Behind a CPU map: by the slot's program, or by TC after that."""
        self.writer.maps["cpus"][self.cpu] = LONGEST_QUEUE if at_tc else (LONGEST_QUEUE, self.on_cpu)
        with self.reading_at_tc(self.router["eth0"]) if at_tc else contextlib.nullcontext():
            yield

    @contextlib.contextmanager
    def on_the_way_out(self) -> Iterator[None]:
        """By TC at the router's eth1, where its stack sends the packets on; the server drops them."""
        with self.dropping.attach(self.server["eth0"]), self.reading_at_tc(self.router["eth1"], egress=True):
            yield

    def __enter__(self) -> Post:
        return self

    def __exit__(self, *_: object) -> None:
        self.lab.close()


def _lost(packets: int, found: int) -> TrafficError:
    return TrafficError(
        f"Of {packets:,} packets, {found:,} came to the reader.", tried="to carry notes", remedy="run the cell again"
    )
