"""AF_XDP's three classic applications, each once: receive and drop, forward, send; and the ledger of it."""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Callable, Iterator

from labkit.compile import compile_source
from labkit.compile.source import lesson_directory
from labkit.demo.result import DemoResult
from labkit.errors import FeatureError, XskError
from labkit.interface import Interface
from labkit.lab import Lab
from labkit.program.program import Program
from labkit.topology import Topology
from labkit.traffic.frames import udp
from labkit.traffic.generator import Generator
from labkit.traffic.report import TrafficReport
from labkit.xsk import Umem, XskSocket
from labkit.xsk.loops import drop_turn, forward_turn

__all__ = ["APPLICATIONS", "drop", "forward", "run", "send"]

# Packets come in bursts, and the program has no CPU for some milliseconds: what the memory has no frame for is lost.
# 32 MiB, or what every user may lock.
_FRAMES = (16_384, 2_048)
_BUDGET = 2_048  # frames sent for each wake-up, where the kernel lets us choose


def drop(packets: int) -> DemoResult:
    """Send ``packets`` UDP frames at an AF_XDP socket of the server, whose program takes them and gives the frames back."""
    with Lab(Topology.pair(), name="demo-xsk-drop") as lab:
        client, server = lab["client"], lab["server"]
        program = _program(lab, "to_socket")
        program.attach(server["eth0"])
        with _receiver(server["eth0"]) as xsk:
            program.maps["sockets"][0] = xsk
            generator = Generator(client["eth0"], udp(client, server), packets)
            report = _while_running(generator, lambda: drop_turn(xsk))
            return DemoResult("xsk", report, lab.ledger())


def forward(packets: int) -> DemoResult:
    """Send ``packets`` UDP frames to a router, where a program sends them on: out of one socket's receive ring and into
    the transmit ring of another, in one memory. The server's driver drops what arrives. ``sent`` counts each packet twice,
    as two senders have sent it.
    """
    with Lab(Topology.router(), name="demo-xsk-fwd") as lab:
        client, router, server = lab["client"], lab["router"], lab["server"]
        _program(lab, "drop_by_protocol").attach(server["eth0"])
        program = _program(lab, "to_socket")
        program.attach(router["eth0"])
        mac = bytes.fromhex(server["eth0"].mac.replace(":", ""))
        with _receiver(router["eth0"]) as near, _sender(router["eth1"], near.umem) as far:
            program.maps["sockets"][0] = near
            generator = Generator(client["eth0"], udp(client, router["eth0"]), packets)
            report = _while_running(generator, lambda: forward_turn(near, far, mac))
            return DemoResult("xsk-forward", report, lab.ledger())


def send(packets: int) -> DemoResult:
    """Send ``packets`` UDP frames by an AF_XDP socket of the client; the server's driver drops what arrives."""
    with Lab(Topology.pair(), name="demo-xsk-send") as lab:
        client, server = lab["client"], lab["server"]
        _program(lab, "drop_by_protocol").attach(server["eth0"])
        with Umem() as umem, _sender(client["eth0"], umem) as xsk:
            report = xsk.send(udp(client, server), packets, timeout_s=3600)
            return DemoResult("xsk-send", report, lab.ledger())


run = drop
APPLICATIONS: dict[str, Callable[[int], DemoResult]] = {"drop": drop, "forward": forward, "send": send}


def _program(lab: Lab, name: str) -> Program:
    return lab.load(compile_source(path=lesson_directory() / f"{name}.c"))


@contextlib.contextmanager
def _receiver(at: Interface) -> Iterator[XskSocket]:
    """A socket that only receives, with all of its memory lent to the kernel: as much as this user may lock."""
    most, least = _FRAMES
    with contextlib.ExitStack() as opened:
        try:
            xsk = opened.enter_context(_with_memory(at, most, 0))
        except XskError as error:
            if error.errno != errno.ENOBUFS:
                raise
            xsk = opened.enter_context(_with_memory(at, least))
        yield xsk


@contextlib.contextmanager
def _with_memory(at: Interface, frames: int, patience_s: float = 2.0) -> Iterator[XskSocket]:
    with (
        Umem(frames) as umem,
        XskSocket(at, umem=umem, receive_ring=frames, fill_ring=frames, transmit_ring=0, patience_s=patience_s) as xsk,
    ):
        yield xsk


def _sender(at: Interface, umem: Umem) -> XskSocket:
    """A socket that only sends, many frames for each wake-up where the kernel can."""
    try:
        return XskSocket(at, umem=umem, receive_ring=0, filled=0, transmit_budget=_BUDGET)
    except FeatureError:
        return XskSocket(at, umem=umem, receive_ring=0, filled=0)


def _while_running(generator: Generator, turn: Callable[[], int]) -> TrafficReport:
    """Take turns while the generator sends, and until nothing comes any more."""
    generator.start()
    while generator.running:
        turn()
    report = generator.wait()
    while turn():
        pass
    return report
