"""The early-drop hook: a client floods a server, whose driver drops all IPv4 before the stack allocates anything."""

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
    """Send ``packets`` UDP frames at ``drop_by_protocol`` in native mode."""
    spec = compile_source(path=lesson_directory() / "drop_by_protocol.c")
    with Lab(Topology.pair(), name="demo-drop") as lab:
        client, server = lab["client"], lab["server"]
        lab.load(spec, "drop_by_protocol").attach(server["eth0"], mode="native")
        report = generate(client["eth0"], udp(client, server), packets)
        return DemoResult("drop", report, lab.ledger())
