"""A redirect into nothing: the program says XDP_REDIRECT for every frame, and none arrives."""

from __future__ import annotations

from labkit.compile import compile_source
from labkit.compile.source import lesson_directory
from labkit.demo.result import DemoResult
from labkit.lab import Lab
from labkit.topology import Topology
from labkit.traffic.frames import udp
from labkit.traffic.generator import generate

__all__ = ["run"]


def run(packets: int) -> DemoResult:
    """Send ``packets`` UDP frames at ``redirect_ifindex``; the peer of its target has neither a program nor GRO."""
    with Lab(Topology.router(), name="demo-no-peer") as lab:
        client, router = lab["client"], lab["router"]
        program = lab.load(compile_source(path=lesson_directory() / "redirect_ifindex.c"))
        program.maps["out"][0] = router["eth1"].ifindex
        program.attach(router["eth0"])
        report = generate(client["eth0"], udp(client, router["eth0"]), packets)
        return DemoResult("redirect-no-peer", report, lab.ledger())
