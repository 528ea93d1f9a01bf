"""How fast packets leave a host: the in-kernel generator, a packet socket, scapy. The peer drops them in its driver."""

from __future__ import annotations

import socket
import time

from labkit.bench.measure import Progress, paired
from labkit.bench.result import BenchResult
from labkit.compile import compile_source
from labkit.compile.source import lesson_directory
from labkit.lab import Lab
from labkit.topology import Topology
from labkit.traffic.frames import udp
from labkit.traffic.generator import generate
from labkit.traffic.quiet_scapy import scapy

__all__ = ["run"]


def run(
    runs: int,
    progress: Progress,
    *,
    packets: int = 1_000_003,
    socket_packets: int = 20_011,
    scapy_packets: int = 499,
) -> BenchResult:
    """Mpps of 64-byte UDP frames into a veth whose peer drops them."""
    with Lab(Topology.pair(), name="bench-generator") as lab:
        client, server = lab["client"], lab["server"]
        spec = compile_source(path=lesson_directory() / "touch_nothing.c")
        lab.load(spec).attach(server["eth0"])
        frame = udp(client, server, size=64)

        def in_kernel() -> float:
            return generate(client["eth0"], frame, packets).pps / 1e6

        def by_socket() -> float:
            return client.run(_send_all, bytes(frame), socket_packets)

        def by_scapy() -> float:
            return client.run(_scapy, bytes(frame), scapy_packets)

        return paired(
            in_kernel,
            {"af_packet_loop": by_socket, "scapy_sendp_list": by_scapy},
            unit="Mpps",
            better="more",
            runs=runs,
            progress=progress,
            notes=(f"{packets:,} packets a run; {socket_packets:,} by the socket; {scapy_packets:,} by scapy",),
        )


def _send_all(frame: bytes, packets: int) -> float:
    """Mpps of prebuilt bytes sent one by one on a packet socket bound to eth0."""
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as out:
        out.bind(("eth0", 0))
        send = out.send
        began = time.perf_counter()
        for _ in range(packets):
            send(frame)
        return packets / (time.perf_counter() - began) / 1e6


def _scapy(frame: bytes, packets: int) -> float:
    """Mpps of scapy's ``sendp`` over a list of packets built beforehand."""
    prebuilt = [scapy().Ether(frame)] * packets
    from scapy.arch.linux import L2Socket
    from scapy.sendrecv import sendp

    # scapy keeps the interfaces of the namespace it was imported in, so it can't switch this one to promiscuous mode.
    out = L2Socket(iface="eth0", promisc=False)
    try:
        began = time.perf_counter()
        sendp(prebuilt, socket=out, verbose=False)
        return packets / (time.perf_counter() - began) / 1e6
    finally:
        out.close()
