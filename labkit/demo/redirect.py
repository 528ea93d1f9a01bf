"""A redirect: a router sends every frame on by a device map, past its stack, to a peer that can take it."""

from __future__ import annotations

from labkit.compile import compile_source
from labkit.compile.source import lesson_directory
from labkit.demo.result import DemoResult
from labkit.lab import Lab
from labkit.topology import Topology
from labkit.traffic.frames import udp
from labkit.traffic.generator import generate

__all__ = ["run", "send_through"]


def run(packets: int) -> DemoResult:
    """Send ``packets`` UDP frames through ``redirect_devmap``; the server's driver drops what arrives."""
    return send_through("redirect", packets)


def send_through(demo: str, packets: int, threads: int = 1) -> DemoResult:
    """The result of ``threads`` generators that share ``packets`` and send them through the router."""
    bpf = lesson_directory()
    with Lab(Topology.router(), name=f"demo-{demo}") as lab:
        client, router, server = lab["client"], lab["router"], lab["server"]
        lab.load(compile_source(path=bpf / "drop_by_protocol.c")).attach(server["eth0"])
        redirecting = lab.load(compile_source(path=bpf / "redirect_devmap.c"))
        redirecting.maps["ports"][0] = router["eth1"]
        redirecting.maps["next_hop"][0] = {"bytes": [int(byte, 16) for byte in server["eth0"].mac.split(":")]}
        redirecting.attach(router["eth0"])
        report = generate(client["eth0"], udp(client, router["eth0"]), packets, threads=threads)
        return DemoResult(demo, report, lab.ledger())
