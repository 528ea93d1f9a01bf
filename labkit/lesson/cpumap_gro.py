"""What GRO makes of a TCP stream: segments that arrive, and the fewer packets that the stack is handed."""

from __future__ import annotations

from dataclasses import replace

from labkit.compile import compile_source
from labkit.compile.source import lesson_directory
from labkit.errors import TrafficError
from labkit.lab import Lab
from labkit.lesson.cpumap_order import DIRECT, FLOW_BY_FLOW, PACKET_BY_PACKET, spreading
from labkit.lesson.page import Table
from labkit.lesson.pictures import Picture, bars
from labkit.lesson.race import scaled
from labkit.observe.protocols import read_protocols
from labkit.topology import Topology
from labkit.traffic.tcp import tcp_transfer

__all__ = ["exchange", "merged_by_gro"]

_BYTES = 1_000_003
_ECN_KINDS = ("NoECT", "ECT0", "ECT1", "CE")


def merged_by_gro(*, nbytes: int | None = None) -> Picture:
    """A TCP exchange with GRO on and off at the server, in the driver's poll and on the CPUs' threads; lab "gro".

    ``nbytes`` go there and come back: 1,000,003 by default, fewer where ``$LAB_SCALE`` says so. Raises TrafficError
    where they don't come back whole.
    """
    number = nbytes or scaled(_BYTES)
    with Lab(Topology.pair(), name="gro") as lab:
        server = lab["server"]["eth0"]
        direct = lab.load(compile_source(path=lesson_directory() / "pass.c"))
        ways = {
            DIRECT: direct,
            FLOW_BY_FLOW: spreading(lab, compile_source(path=lesson_directory() / "spread_cpus.c")),
            PACKET_BY_PACKET: spreading(lab, compile_source(path=lesson_directory() / "spread_packets.c")),
        }
        rows = []
        for name, program in ways.items():
            for gro in (True, False):
                server.set_feature("gro", gro)
                with program.attach(server):
                    segments, packets, again = exchange(lab, number)
                rows.append((name, "on" if gro else "off", segments, packets, segments / packets, again))
    head = ("spread", "GRO", "segments that came", "packets for the stack", "segments a packet", "sent again")
    title = f"TCP, {number:,} bytes to the server and back: segments in a packet for the stack"
    joined = {f"{name}, GRO {gro}": ratio for name, gro, _, _, ratio, _ in rows}
    return replace(bars(joined, "segments", title), table=Table(head, tuple(rows)))


def exchange(lab: Lab, nbytes: int) -> tuple[int, int, int]:
    """Send ``nbytes`` over TCP to the lab's server and back.

    Segments that the server's IP layer had one by one, packets it was handed, segments that were sent again. Raises
    TrafficError where the bytes don't come back whole.
    """
    lab.reset()
    before = lab["server"].run(read_protocols)
    report = tcp_transfer(lab["client"], lab["server"], nbytes)
    lab.ledger()  # waits until the last one has arrived
    after = lab["server"].run(read_protocols)
    if not report.intact:
        raise TrafficError(
            "The bytes did not come back whole.", tried="to exchange bytes over TCP", detail=str(report), remedy="again"
        )

    def gained(name: str) -> int:
        return after.get(name, 0) - before.get(name, 0)

    segments = sum(gained(f"IpExtIn{kind}Pkts") for kind in _ECN_KINDS)
    return segments, max(1, gained("IpInReceives")), report.retransmitted
