"""A program on trial before AF_XDP sockets: a server with two receive queues, and a socket at each, or at the first alone."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import TracebackType

from labkit.errors import LessonError
from labkit.lab import Lab
from labkit.lesson.trial import raw_socket, without_tag
from labkit.program.spec import ProgramSpec
from labkit.topology import Topology
from labkit.xsk import Umem, XskSocket

__all__ = ["COPIES", "SocketTrial", "Went"]

COPIES = 7
"""Of each frame."""

_PACKET_IGNORE_OUTGOING, _SOL_PACKET = 23, 263  # include/uapi/linux/if_packet.h, include/linux/socket.h
_PATIENCE_S = 2.0
_ARRIVAL_S = 0.5  # what the driver has counted arrives within microseconds, on a crowded machine a little later
_FRAMES = 64
_FLOWS = range(40_000, 40_064)  # source ports: with 64 flows some come by each of two queues


@dataclass(frozen=True)
class Went:
    """Where ``COPIES`` of a frame went: to the socket, to the stack; ``altered`` of these were not as sent.

    ``dropped``: by the program's verdict, an illegal one and XDP_ABORTED included; ``refused``: redirects that the kernel
    could not do.
    """

    to_socket: int
    to_stack: int
    altered: int = 0
    dropped: int = 0
    refused: int = 0

    @property
    def words(self) -> str:
        """The same for people."""
        said = [f"{self.to_socket} to the socket"] * bool(self.to_socket)
        said += [f"{self.to_stack} to the stack"] * bool(self.to_stack)
        said += [f"{self.dropped} dropped or aborted"] * bool(self.dropped)
        said += [f"{self.refused} redirects that the kernel refused"] * bool(self.refused)
        said += [f"{self.altered} altered"] * bool(self.altered)
        return ", ".join(said) or "none came anywhere"


class SocketTrial:
    """``with SocketTrial(spec, None) as trial: trial.send(frame)``. The lab is called "check"."""

    def __init__(self, spec: ProgramSpec, function: str | None) -> None:
        self.lab = Lab(Topology.pair(queues=2), name="check")
        try:
            self.client, self.server = self.lab["client"]["eth0"], self.lab["server"]["eth0"]
            self.program = self.lab.load(spec, function)
            self.program.attach(self.server)
            self._sockets = [XskSocket(self.server, queue, umem=Umem(_FRAMES), transmit_ring=0) for queue in (0, 1)]
            if "sockets" in self.program.maps:
                self.program.maps["sockets"][0] = self._sockets[0]
            self._out = self.client.run(raw_socket, self.client.name)
            self._in = self.server.run(raw_socket, self.server.name)
            self._in.setsockopt(_SOL_PACKET, _PACKET_IGNORE_OUTGOING, 1)
            self._in.setblocking(False)
        except BaseException:
            self.lab.close()
            raise

    @contextmanager
    def both_queues(self) -> Iterator[None]:
        """Have a socket in queue 1's slot, too: who knows by which queue a frame without ports comes."""
        sockets = self.program.maps["sockets"]
        sockets[1] = self._sockets[1]
        try:
            yield
        finally:
            del sockets[1]

    def by_queue(self, made: Callable[[int], bytes], queue: int) -> bytes:
        """A frame, made with some source port, that comes by ``queue``. Raises LessonError where none of 64 does."""
        self._drain()
        for port in _FLOWS:
            before, lost = self._seen(), self._lost()
            self._out.send(frame := made(port))
            self._await(before, 1)
            self._drain(1 - sum(self._lost()) + sum(lost))
            if self._seen()[queue] > before[queue]:
                return frame
        raise LessonError(
            f"None of {len(_FLOWS)} flows came by queue {queue} of {self.server.where}.",
            tried="to find packets for each queue",
            remedy="check again; if it repeats, this kernel spreads packets in another way, and the exercise can't be checked",
        )

    def send(self, frame: bytes) -> Went:
        """Send ``COPIES`` of a frame, and wait until each has come to rest."""
        self._drain()
        before, lost = self._seen(), self._lost()
        for _ in range(COPIES):
            self._out.send(frame)
        self._await(before, COPIES)
        dropped, refused = (now - then for now, then in zip(self._lost(), lost, strict=True))
        at_socket, in_stack = self._drain(COPIES - dropped - refused)
        fitting = (frame, without_tag(frame))
        altered = sum(each not in fitting for each in (*at_socket, *in_stack))
        return Went(len(at_socket), len(in_stack), altered, dropped, refused)

    def _seen(self) -> tuple[int, int]:
        counts = self.server.driver_statistics()
        return counts["rx_queue_0_xdp_packets"], counts["rx_queue_1_xdp_packets"]

    def _lost(self) -> tuple[int, int]:
        """What the program dropped or aborted, and redirects that led nowhere, by the driver."""
        counts = self.server.driver_statistics()
        dropped, refused = (
            sum(counts[f"rx_queue_{queue}_{kind}"] for queue in (0, 1)) for kind in ("xdp_drops", "drops")
        )
        return dropped, refused

    def _await(self, before: tuple[int, int], copies: int) -> None:
        deadline = time.monotonic() + _PATIENCE_S
        while (came := sum(self._seen()) - sum(before)) < copies:
            if time.monotonic() > deadline:
                raise LessonError(
                    f"Of {copies} frames sent, the driver of {self.server.where} saw {came}.",
                    tried="to show frames to the program",
                    remedy="check again; if it repeats, restart the kernel of the notebook",
                )
            time.sleep(0.0005)

    def _drain(self, due: int = 0) -> tuple[list[bytes], list[bytes]]:
        """What lies in the socket and what came to the stack; arrivals may lag behind the driver's count by a moment."""
        at_socket: list[bytes] = []
        in_stack: list[bytes] = []
        source = bytes.fromhex(self.client.mac.replace(":", ""))  # the server's own answers are not among what came
        deadline = time.monotonic() + (_ARRIVAL_S if due else 0.002)
        while True:
            at_socket += [each.frame for xsk in self._sockets for each in xsk.receive(timeout_s=0)]
            try:
                while True:
                    if (found := self._in.recv(65536))[6:12] == source:
                        in_stack.append(found)
            except BlockingIOError:
                pass
            if time.monotonic() > deadline or (due and len(at_socket) + len(in_stack) >= due):
                return at_socket, in_stack
            time.sleep(0.0005)

    def __enter__(self) -> SocketTrial:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._out.close()
        self._in.close()
        self.lab.close()
