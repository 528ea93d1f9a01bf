"""Metadata: a router's program leaves a note in front of every frame, and another host's program reads it there."""

from __future__ import annotations

import secrets

from labkit.compile import compile_source
from labkit.compile.source import lesson_directory
from labkit.demo.result import DemoResult
from labkit.lab import Lab
from labkit.topology import Topology
from labkit.traffic.frames import udp
from labkit.traffic.generator import generate

__all__ = ["run"]

_TO_DEVICE = 2  # enum way, bpf/meta_write.c


def run(packets: int) -> DemoResult:
    """Send ``packets`` UDP frames through ``meta_write``; ``meta_read`` at the server looks for each note, and drops."""
    bpf = lesson_directory()
    with Lab(Topology.router(), name="demo-metadata") as lab:
        client, router, server = lab["client"], lab["router"], lab["server"]
        mark = 1 + secrets.randbelow((1 << 32) - 1)  # nobody else's
        reading = lab.load(compile_source(path=bpf / "meta_read.c"), "meta_read")
        reading.maps["wanted"][0] = {"mark": mark, "take": 1}
        reading.attach(server["eth0"])
        writing = lab.load(compile_source(path=bpf / "meta_write.c"))
        writing.maps["ports"][0] = router["eth1"]
        writing.maps["plan"][0] = {"mark": mark, "way": _TO_DEVICE, "cpu": 0, "same": 0}
        writing.attach(router["eth0"])
        report = generate(client["eth0"], udp(client, router["eth0"]), packets)
        ledger = lab.ledger()
        found = reading.maps["found"][0]
        return DemoResult("metadata", report, ledger, decoded=found["right"], foreign=found["none"] + found["other"])
