"""Sharing out over CPUs: one program chooses the CPU, another one there decides; a full queue loses, and is counted."""

from __future__ import annotations

from labkit.compile import compile_source
from labkit.compile.source import lesson_directory
from labkit.demo.result import DemoResult
from labkit.kernel.cpus import possible_cpus
from labkit.lab import Lab
from labkit.topology import Topology
from labkit.traffic.frames import udp
from labkit.traffic.generator import generate
from labkit.uapi import AttachType, XdpAction

__all__ = ["run"]

_QUEUE = 2048  # packets
_FLOWS = 64


def run(packets: int) -> DemoResult:
    """Send ``packets`` UDP frames of 64 flows at ``spread_cpus``; ``on_cpu`` drops them, on up to two CPUs."""
    bpf = lesson_directory()
    with Lab(Topology.pair(), name="demo-cpumap") as lab:
        client, server = lab["client"], lab["server"]
        there = lab.load(compile_source(path=bpf / "on_cpu.c"), expected_attach_type=AttachType.XDP_CPUMAP)
        there.maps["action"][0] = XdpAction.DROP
        spreading = lab.load(compile_source(path=bpf / "spread_cpus.c"))
        cpus = min(2, possible_cpus())
        for cpu in range(cpus):
            spreading.maps["cpus"][cpu] = _QUEUE, there
        spreading.maps["cpus_in_use"][0] = cpus
        spreading.attach(server["eth0"])
        report = generate(client["eth0"], udp(client, server), packets, flows=_FLOWS)
        return DemoResult("cpumap", report, lab.ledger())
