"""What the driver knows: a program bound to the server's interface asks for the hash of every packet."""

from __future__ import annotations

from labkit.compile import compile_source
from labkit.compile.source import lesson_directory
from labkit.demo.result import DemoResult
from labkit.lab import Lab
from labkit.topology import Topology
from labkit.traffic.frames import udp
from labkit.traffic.raw import send_frames

__all__ = ["run"]

_FLOWS = 64


def run(packets: int) -> DemoResult:
    """Send ``packets`` UDP frames of 64 flows from a packet socket at ``hints_hash``, which drops them.

    ``decoded`` counts those for which the driver had a hash, ``foreign`` those for which it had none. Raises FeatureError
    where no program can be bound to a device, as in a sandbox.
    """
    with Lab(Topology.pair(), name="demo-hints") as lab:
        client, server = lab["client"], lab["server"]
        program = lab.load(compile_source(path=lesson_directory() / "hints_hash.c"), device=server["eth0"])
        program.attach(server["eth0"])
        frames = [udp(client, server, sport=10_000 + flow) for flow in range(_FLOWS)]
        report = send_frames(client["eth0"], frames, packets)
        ledger = lab.ledger()
        answered, for_this, for_any = program.maps["answers"].read().values()
        return DemoResult("hints", report, ledger, decoded=answered, foreign=for_this + for_any)
