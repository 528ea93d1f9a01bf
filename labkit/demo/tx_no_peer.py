"""XDP_TX into nothing: the program sends every frame back, and the other end has no ring to take it."""

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
    """Send ``packets`` UDP frames at ``tx_back``, from an interface that has neither a program nor GRO."""
    with Lab(Topology.pair(), name="demo-tx-no-peer") as lab:
        client, server = lab["client"], lab["server"]
        lab.load(compile_source(path=lesson_directory() / "tx_back.c")).attach(server["eth0"])
        report = generate(client["eth0"], udp(client, server), packets)
        return DemoResult("tx-no-peer", report, lab.ledger())
