"""Two programs on trial, one that writes metadata and one that reads it: together, and each against the lab's own."""

from __future__ import annotations

import contextlib
import struct
import time
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from labkit.compile import compile_source
from labkit.compile.source import lesson_directory
from labkit.interface import Interface
from labkit.lab import Lab
from labkit.lesson.metadata_post import Way
from labkit.lesson.trial import await_driver, raw_socket, without_tag
from labkit.program.classifier import at_tc
from labkit.program.program import Program
from labkit.program.ring import RingMap
from labkit.program.spec import ProgramSpec
from labkit.topology import Topology
from labkit.traffic.frames import udp
from labkit.traffic.sink import UdpSink
from labkit.uapi import AttachType, ProgType

__all__ = ["COPIES", "NOTE_BYTES", "SPARE", "Arrival", "Note", "NoteTrial", "Room"]

COPIES = 7
"""Of each frame."""

NOTE_BYTES = 8
_SEEN = struct.Struct("=III")  # bpf/meta_seen.c
_PATIENCE_S = 20.0
_FLUSH_S = 0.05  # a tap sees a frame some µs before traffic control and the socket do
_PACKET_IGNORE_OUTGOING, _SOL_PACKET = 23, 263  # include/uapi/linux/if_packet.h, include/linux/socket.h


class Room(Enum):
    """What a frame has in front of it when it comes to the programs on trial."""

    USUAL = "headroom as usual"
    NONE = "no headroom left"
    FULL = "252 bytes of somebody's metadata"


_FEEDERS = {Room.USUAL: "redirect_devmap", Room.NONE: "meta_no_room", Room.FULL: "meta_full"}
SPARE = bytes(48)
"""Behind a frame of 64 bytes that is to come with ``Room.FULL``: bpf/meta_full.c."""


@dataclass(frozen=True)
class Note:
    """Metadata as traffic control found it: its length, and the two fields where it is long enough for them."""

    bytes: int
    mark: int
    number: int


@dataclass(frozen=True)
class Arrival:
    """Of ``sent`` copies of a frame: ``passed`` the XDP program, ``altered`` among them; the notes they had at TC.

    ``delivered`` counts those that came to a socket behind TC (only for frames that are meant for one).
    """

    sent: int
    passed: int
    altered: int
    notes: tuple[Note, ...]
    delivered: int

    @property
    def untouched(self) -> bool:
        """Whether all passed, as they were."""
        return self.passed == self.sent and not self.altered


class NoteTrial:
    """client, router, server: frames are redirected by the router to the server's eth0, where both programs are.

    ``with NoteTrial(spec, "leave_note", "read_note") as trial``. The lab is called "check".
    """

    def __init__(self, spec: ProgramSpec, writes: str, reads: str) -> None:
        self.lab = Lab(Topology.router(), name="check")
        self._stack = contextlib.ExitStack()
        self._stack.callback(self.lab.close)
        try:
            self.writer = self.lab.load(spec, writes)
            self.reader = self.lab.load(
                spec,
                reads,
                type=ProgType.SCHED_CLS,
                expected_attach_type=AttachType.TCX_INGRESS,
                maps=self.writer.maps,
            )
            self._prepare()
        except BaseException:
            self._stack.close()
            raise

    def _prepare(self) -> None:
        """The lab's own programs and sockets: feeders, other writers, another reader, a tap, a sink."""
        self.client, self.router, self.server = self.lab["client"], self.lab["router"], self.lab["server"]
        self._port = self.server["eth0"]
        self._feeders = {room: self._own(name) for room, name in _FEEDERS.items()}
        for feeder in self._feeders.values():
            feeder.maps["ports"][0] = self.router["eth1"]
        self.own_writer, self.short_writer = self._own("meta_write"), self._own("meta_short")
        self.own_reader = self.lab.load(
            compile_source(path=lesson_directory() / "meta_seen.c"),
            type=ProgType.SCHED_CLS,
            expected_attach_type=AttachType.TCX_INGRESS,
        )
        self._out = self._stack.enter_context(self.client["eth0"].run(raw_socket, "eth0"))
        self._tap = self._stack.enter_context(self._port.run(raw_socket, "eth0"))
        self._tap.setsockopt(_SOL_PACKET, _PACKET_IGNORE_OUTGOING, 1)
        self._tap.setblocking(False)
        self._sink = self._stack.enter_context(UdpSink(self.server, read=False))

    def _own(self, name: str) -> Program:
        return self.lab.load(compile_source(path=lesson_directory() / f"{name}.c"))

    def datagram(self) -> bytes:
        """A frame that the server's stack takes, for the sink's port; 64 bytes."""
        mac = bytes.fromhex(self._port.mac.replace(":", ""))
        return mac + bytes(udp(self.client, self.server))[6:]

    @contextlib.contextmanager
    def arranged(self, writer: Program, reader: Program, *, room: Room = Room.USUAL) -> Iterator[None]:
        """While it lasts, these two are at the server, and frames come there with this much room in front."""
        self._put(self._feeders[room], self.router["eth0"])
        self._put(writer, self._port)
        with at_tc(reader, self._port):
            yield

    def _put(self, program: Program, interface: Interface) -> None:
        """Attach it, unless it is there; it stays, as each change takes the kernel some 20 ms."""
        if all(link.program is not program or link.interface is not interface for link in self.lab.attached):
            program.attach(interface)

    @contextlib.contextmanager
    def given(self, mark: int | None, *, short: bool = False) -> Iterator[None]:
        """While it lasts, the reader on trial gets packets with this mark from the lab's own writer; None: no metadata."""
        writer = self.short_writer if short else self.own_writer
        if short:
            writer.maps["mark"][0] = mark
        else:
            writer.maps["plan"][0] = {"mark": mark or 0, "way": Way.TO_STACK, "cpu": 0, "same": 0}
        with self.arranged(writer, self.reader):
            yield

    @property
    def filled(self) -> int:
        """Frames that came with all the metadata there can be; none where this machine has no room for so much."""
        return int(self._feeders[Room.FULL].maps["filled"][0])

    def send(self, frame: bytes, copies: int = COPIES, *, spare: bytes = b"") -> Arrival:
        """Send ``copies`` of ``frame``, with ``spare`` behind it that the router takes off, and wait until each has come
        to rest. Raises LessonError where they get lost.
        """
        self._catch()
        self._sink.drain()
        self._notes()
        before = self._counters()
        for _ in range(copies):
            self._out.send(frame + spare)
        after = await_driver(self._counters, before, copies, self._port.where)
        expected = copies - (after[1] - before[1])
        frames, notes, delivered = self._await(expected)
        altered = sum(each not in (frame, without_tag(frame)) for each in frames)
        return Arrival(copies, len(frames), altered, tuple(notes), delivered)

    def _await(self, expected: int) -> tuple[list[bytes], list[Note], int]:
        """What the tap, traffic control and the socket saw; the last two may see fewer, if the reader ends packets."""
        frames: list[bytes] = []
        notes: list[Note] = []
        delivered, quiet = 0, time.monotonic() + _FLUSH_S
        deadline = time.monotonic() + _PATIENCE_S
        while time.monotonic() < (deadline if len(frames) < expected else quiet):
            caught, read, taken = self._catch(), self._notes(), self._sink.drain()
            frames, notes, delivered = frames + caught, notes + read, delivered + taken
            if caught or read or taken:
                quiet = time.monotonic() + _FLUSH_S
            if len(frames) == expected and expected in (delivered, len(notes)):
                break
            time.sleep(0.0005)
        return frames, notes, delivered

    def _counters(self) -> tuple[int, int]:
        """(frames the XDP program saw, frames dropped for any reason), by the driver."""
        found = self._port.driver_statistics()
        return found.get("rx_queue_0_xdp_packets", 0), found.get("rx_queue_0_xdp_drops", 0)

    def _catch(self) -> list[bytes]:
        caught = []
        with contextlib.suppress(BlockingIOError):
            while True:
                caught.append(self._tap.recv(65536))
        return caught

    def _notes(self) -> list[Note]:
        ring = self.own_reader.maps["seen"]
        assert isinstance(ring, RingMap)
        return [Note(*_SEEN.unpack(line[: _SEEN.size])) for line in ring.drain()]

    def __enter__(self) -> NoteTrial:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()
