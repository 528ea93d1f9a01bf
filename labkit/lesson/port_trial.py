"""A program on trial between several hosts: attached to every port of the host in the middle, shown real packets there.

Each end has a program that lets everything through, so that it can take redirected frames, and a tap that sees what
arrives; a tap at each port of the middle sees what the program passes to the stack there.
"""

from __future__ import annotations

import os
import socket
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import TracebackType

from labkit.compile import compile_source
from labkit.compile.source import lesson_directory
from labkit.errors import LessonError
from labkit.interface import Interface
from labkit.lab import Lab
from labkit.lesson.trial import raw_socket
from labkit.program.program import Program
from labkit.program.spec import ProgramSpec
from labkit.topology import Topology
from labkit.traffic.sink import UdpSink

__all__ = ["STACK", "Passage", "PortTrial"]

STACK = "the stack"
"""The place of what the program passed, in ``Passage.came``."""

_PACKET_IGNORE_OUTGOING, _SOL_PACKET = 23, 263  # include/uapi/linux/if_packet.h, include/linux/socket.h
_PROTOCOL = 23  # byte of an IPv4 frame that holds its protocol, RFC 791
_PATIENCE_S = 2.0
_FLUSH_S = 0.005  # the driver counts a frame some µs before it hands it on
_PORT = 9999


@dataclass(frozen=True)
class Passage:
    """What became of ``sent`` copies of a frame.

    ``came``: place (a host's name, or STACK) → copies that came there; ``frames`` the same with their bytes, ``shown``
    the frame as it was sent; ``altered`` counts copies that are not as it was.
    ``verdicts`` what the program said meanwhile (empty where it keeps no count); ``refused`` redirects that the kernel
    could not do.
    """

    sent: int
    came: Mapping[str, int]
    verdicts: Mapping[str, int] = field(default_factory=dict)
    refused: int = 0
    altered: int = 0
    frames: Mapping[str, tuple[bytes, ...]] = field(default_factory=dict)
    shown: bytes = b""

    def only(self, expected: Mapping[str, int]) -> bool:
        """Whether these and no others came, unaltered."""
        return dict(self.came) == dict(expected) and not self.altered

    @property
    def words(self) -> str:
        """The same for people."""
        said = [f"{copies} to {place}" for place, copies in self.came.items()]
        said += [f"{self.verdicts[name]} {name}" for name in ("XDP_ABORTED", "XDP_DROP", "unknown") if self._said(name)]
        if self.refused:
            said.append(f"{self.refused} refused by the kernel")
        if self.altered:
            said.append(f"{self.altered} altered")
        return ", ".join(said) or "none came anywhere"

    def _said(self, name: str) -> bool:
        return bool(self.verdicts.get(name))


class PortTrial:
    """``with PortTrial(spec, None, topology, "switch") as trial: trial.send("h1", frame)``. The lab is called "check"."""

    def __init__(self, spec: ProgramSpec, function: str | None, topology: Topology, middle: str) -> None:
        self.lab = Lab(topology, name="check")
        self._taps: dict[Interface, socket.socket] = {}
        self._out: dict[Interface, socket.socket] = {}
        try:
            self.middle = self.lab[middle]
            self.ports = tuple(self.middle.interfaces.values())
            self.ends = {port.peer.host.name: port.peer for port in self.ports}
            self.receivers: dict[str, Program] = {}
            self.sinks: dict[str, UdpSink] = {}
            for name, end in self.ends.items():
                self.receivers[name] = self.lab.load(compile_source(path=lesson_directory() / "pass.c"))
                self.receivers[name].attach(end)
                self.sinks[name] = UdpSink(end.host, _PORT)  # else the stack would answer that nobody is there
                self._out[end] = end.run(raw_socket, end.name)
            self.program = self.lab.load(spec, function)
            for port in self.ports:
                self.program.attach(port)
            for each in (*self.ports, *self.ends.values()):
                self._taps[each] = _tap(each)
        except BaseException:
            self.close()
            raise

    def send(self, end: str, frame: bytes, copies: int = 7) -> Passage:
        """Send ``copies`` of ``frame`` from an end, and wait until each has come to rest. Raises LessonError."""
        out, port = self._out[self.ends[end]], self.ends[end].peer
        self._catch()
        before, said = self._read(), self.program.verdicts() or {}
        ticket = os.urandom(8) if len(frame) >= 60 else b""  # at its end: it marks the frame whoever rewrites its head
        shown = frame[: len(frame) - len(ticket)] + ticket
        for _ in range(copies):
            out.send(shown)
        self._await(port, before, copies)
        caught = self._catch(before)
        now = self.program.verdicts() or {}
        after = self._read()
        frames = {
            place: tuple(each for each in found if _is_copy(each, shown, ticket)) for place, found in caught.items()
        }
        return Passage(
            copies,
            {place: len(found) for place, found in frames.items() if found},
            {name: count - said.get(name, 0) for name, count in now.items() if count > said.get(name, 0)},
            after[port]["rx_queue_0_drops"] - before[port]["rx_queue_0_drops"],
            sum(each != shown for found in frames.values() for each in found),
            frames,
            shown,
        )

    def _read(self) -> dict[Interface, dict[str, int]]:
        return {each: each.driver_statistics() for each in (*self.ports, *self.ends.values())}

    def _await(self, port: Interface, before: Mapping[Interface, Mapping[str, int]], copies: int) -> None:
        """Until the program has seen all, and every ring behind it is empty again."""

        def seen(counts: Mapping[Interface, Mapping[str, int]]) -> int:
            return counts[port]["rx_queue_0_xdp_packets"] - before[port]["rx_queue_0_xdp_packets"]

        deadline = time.monotonic() + _PATIENCE_S
        while seen(now := self._read()) < copies:
            if time.monotonic() > deadline:
                raise LessonError(
                    f"Of {copies} frames sent, the driver of {port.where} saw {seen(now)}.",
                    tried="to show frames to the program",
                    remedy="check again; if it repeats, restart the kernel of the notebook",
                )
            time.sleep(0.0005)
        time.sleep(_FLUSH_S)
        while any(map(self._on_the_way, self.ports)) and time.monotonic() < deadline:
            time.sleep(0.0005)

    def _on_the_way(self, port: Interface) -> bool:
        """Whether redirected frames wait in the ring of the port's other end."""
        arrived = port.peer.driver_statistics()["rx_queue_0_xdp_packets"]
        return arrived < port.driver_statistics()["tx_queue_0_xdp_xmit"]

    def _catch(self, before: Mapping[Interface, Mapping[str, int]] | None = None) -> dict[str, list[bytes]]:
        """What the taps hold, by place; with ``before`` after all that was passed since then has come to them."""
        found: dict[str, list[bytes]] = {}
        for each, tap in self._taps.items():
            place = STACK if each in self.ports else each.host.name
            now = each.driver_statistics()
            due = _passed(now) - _passed(before[each]) if before else 0
            found.setdefault(place, []).extend(_drained(tap, due))
        return found

    def __enter__(self) -> PortTrial:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Take the lab down. Safe to call again."""
        for each in (*self._out.values(), *self._taps.values()):
            each.close()
        self.lab.close()


def _passed(counts: Mapping[str, int]) -> int:
    """Frames that the program of an interface let through to the stack, by the driver."""
    others = Counter({name: counts[f"rx_queue_0_{name}"] for name in ("drops", "xdp_redirect", "xdp_drops", "xdp_tx")})
    return counts["rx_queue_0_xdp_packets"] - others.total()


def _drained(tap: socket.socket, due: int) -> list[bytes]:
    """Everything in the tap, as soon as ``due`` frames have come; an arrival may lag behind the driver's count."""
    found: list[bytes] = []
    deadline = time.monotonic() + _PATIENCE_S / 4
    while True:
        try:
            found.append(tap.recv(65536))
        except BlockingIOError:
            if len(found) >= due or time.monotonic() > deadline:
                return found
            time.sleep(0.0005)


def _is_copy(found: bytes, sent: bytes, ticket: bytes) -> bool:
    """Whether ``found`` is ``sent``, its head perhaps rewritten, and no answer that quotes it."""
    if not ticket:
        return found == sent
    return found.endswith(ticket) and found[_PROTOCOL] == sent[_PROTOCOL]


def _tap(interface: Interface) -> socket.socket:
    tap = interface.run(raw_socket, interface.name)
    tap.setsockopt(_SOL_PACKET, _PACKET_IGNORE_OUTGOING, 1)
    tap.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
    tap.setblocking(False)
    return tap
