"""How fast a program gets packets, forwards them and sends its own: by AF_XDP, and by AF_PACKET sockets."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable, Iterator

from labkit.bench.measure import Progress, paired
from labkit.bench.result import BenchResult
from labkit.compile import compile_source
from labkit.compile.source import lesson_directory
from labkit.errors import FeatureError, TrafficError
from labkit.kernel.mmsg import DatagramBatch, FrameBatch
from labkit.lab import Lab
from labkit.program.program import Program
from labkit.topology import Topology
from labkit.traffic.frames import udp
from labkit.traffic.generator import Generator
from labkit.traffic.raw import send_frames
from labkit.xsk import Umem, XskSocket
from labkit.xsk.loops import drop_turn, forward_turn

__all__ = ["run"]

_FRAMES = 16_384  # of memory: for what arrives while the program has no CPU for some milliseconds
_ETH_P_ALL = 3  # include/uapi/linux/if_ether.h
_BUFFER = 8 << 20
_BUDGET = 256  # frames sent for each wake-up, where the kernel lets us choose
_AT_A_TIME = 512  # frames a call, by a packet socket
_FEWER = 4  # where the program itself sends: it takes so much longer


class _Bench:
    """client ── server, and one generator at the client."""

    def __init__(self, lab: Lab, packets: int, frames: int) -> None:
        self.lab, self.packets, self.frames = lab, packets, frames
        self.near, self.far = lab["client"]["eth0"], lab["server"]["eth0"]
        self.frame = udp(lab["client"], lab["server"], size=64)
        self.to_socket = lab.load(compile_source(path=lesson_directory() / "to_socket.c"))
        self.drop = lab.load(compile_source(path=lesson_directory() / "drop_by_protocol.c"))

    @contextlib.contextmanager
    def at_server(self, transmit_ring: int, budget: int | None = None) -> Iterator[XskSocket]:
        """A socket that gets what the generator sends, all of its memory lent to the kernel."""
        with (
            self.to_socket.attach(self.far),
            Umem(self.frames) as umem,
            XskSocket(
                self.far,
                umem=umem,
                receive_ring=umem.frames,
                fill_ring=umem.frames,
                filled=umem.frames,
                transmit_ring=transmit_ring,
                transmit_budget=budget,
            ) as xsk,
        ):
            self.to_socket.maps["sockets"][0] = xsk
            yield xsk

    @contextlib.contextmanager
    def balanced(self) -> Iterator[None]:
        """Raises TrafficError where not every packet is accounted for in the end."""
        yield
        if (ledger := self.lab.ledger()).unaccounted:
            raise TrafficError(
                "The ledger does not balance.",
                tried="to measure",
                detail=str(ledger),
                remedy="a rate of something else would mislead: run it again, and report it if it repeats",
            )

    def receive(self, take: Callable[[], int]) -> tuple[int, float]:
        """Generate while ``take`` takes: how many it took, and the generator's seconds."""
        generator, got = Generator(self.near, self.frame, self.packets).start(), 0
        while generator.running:
            got += take()
        seconds = generator.wait().seconds
        while taken := take():
            got += taken
        return got, seconds

    def by_af_xdp(self) -> tuple[float, float]:
        """Mpps received, and the share of the packets that the program had redirected."""
        before = _verdict(self.to_socket, "XDP_REDIRECT")
        with self.balanced(), self.at_server(0) as xsk:
            got, seconds = self.receive(lambda: drop_turn(xsk))
        return got / seconds / 1e6, got / (_verdict(self.to_socket, "XDP_REDIRECT") - before)

    def by_af_packet(self) -> float:
        """The same by recvmmsg(2), nobody noting why the stack drops its own copy."""
        batch = DatagramBatch()
        with self.packet_socket() as reads:
            got, seconds = self.receive(lambda: batch.take(reads.fileno()))
        return got / seconds / 1e6

    @contextlib.contextmanager
    def packet_socket(self) -> Iterator[socket.socket]:
        """A packet socket at the server; what the stack drops of its own copy meanwhile has no name, and is forgotten."""
        with (
            self.far.host.socket(socket.AF_PACKET, socket.SOCK_RAW, 0) as reads,
            self.lab.observer.without_drop_reasons(),
        ):
            reads.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER)
            reads.bind((self.far.name, _ETH_P_ALL))
            yield reads
        self.lab.reset()

    def forwards(self, budget: int | None) -> float:
        """Mpps that came back to the client, out of a receive ring and through a transmit ring."""
        before = _verdict(self.drop, "XDP_DROP")
        with self.balanced(), self.drop.attach(self.near), self.at_server(2048, budget) as xsk:
            _, seconds = self.receive(lambda: forward_turn(xsk, xsk))
            self.lab.ledger()  # waits until the last packet is back
        return (_verdict(self.drop, "XDP_DROP") - before) / seconds / 1e6

    def forwards_by_af_packet(self) -> float:
        """The same by recvmmsg(2) and sendmmsg(2): what left the socket and what came, whichever is less."""
        batch, sent = FrameBatch(_AT_A_TIME, len(self.frame)), 0
        before = _verdict(self.drop, "XDP_DROP")
        with self.drop.attach(self.near), self.packet_socket() as both:

            def turn() -> int:
                nonlocal sent
                taken = batch.take(both.fileno())
                sent += batch.send(both.fileno(), taken)
                return taken

            _, seconds = self.receive(turn)
            arrived = _verdict(self.drop, "XDP_DROP") - before  # with answers of the stack, which has its own copy
        return min(sent, arrived) / seconds / 1e6

    def sends(self, budget: int | None) -> float:
        """Mpps that a program sends."""
        with (
            self.balanced(),
            self.drop.attach(self.far),
            XskSocket(self.near, receive_ring=0, filled=0, transmit_budget=budget) as xsk,
        ):
            return xsk.send(self.frame, self.packets // _FEWER).pps / 1e6

    def sends_by_af_packet(self) -> float:
        """The same through a packet socket, a call for each."""
        with self.balanced(), self.drop.attach(self.far):
            return send_frames(self.near, self.frame, self.packets // _FEWER).pps / 1e6


def run(runs: int, progress: Progress, *, packets: int = 1_000_003, frames: int = _FRAMES) -> BenchResult:
    """Mpps that a program takes from one generator while both share the machine; the ledger must balance.

    ``frames`` of memory (a power of two) and entries of its rings: 2 KiB each, which users have a limit for.
    """
    with Lab(Topology.pair(), name="bench-xsk") as lab:
        bench = _Bench(lab, packets, frames)
        budget = _BUDGET if _has_budget(bench) else None
        budgets = {f"send_{_BUDGET}_a_wake_up": lambda: bench.sends(_BUDGET)} if budget else {}
        return paired(
            lambda: bench.by_af_xdp()[0],
            {"af_packet": bench.by_af_packet},
            unit="Mpps",
            better="more",
            runs=runs,
            progress=progress,
            also={
                "share_of_what_was_redirected": lambda: bench.by_af_xdp()[1],
                "forward": lambda: bench.forwards(budget),
                "forward_af_packet": bench.forwards_by_af_packet,
                "send": lambda: bench.sends(None),
                **budgets,
                "send_af_packet": bench.sends_by_af_packet,
            },
            notes=(
                f"{packets:,} packets a run, {packets // _FEWER:,} where the program itself sends",
                "forward, send…: Mpps; share: of 1",
            ),
        )


def _has_budget(bench: _Bench) -> bool:
    with contextlib.suppress(FeatureError), XskSocket(bench.near, receive_ring=0, filled=0, transmit_budget=_BUDGET):
        return True
    return False


def _verdict(program: Program, name: str) -> int:
    counts = program.verdicts()
    if counts is None:
        raise TrafficError(f"{program.name} keeps no count.", tried="to measure", remedy="use one that does")
    return counts[name]
