"""Where buffers go home: frames passed into a socket that nobody reads keep their pages; reading sends them back."""

from __future__ import annotations

import time

from labkit.buffers import BufferWatch, one_cpu, watch
from labkit.demo.result import DemoResult
from labkit.lab import Lab
from labkit.topology import Topology
from labkit.traffic.frames import udp
from labkit.traffic.generator import generate
from labkit.traffic.sink import UdpSink

__all__ = ["run"]

_BUFFER = 4 << 20  # bytes: room for some thousand datagrams of one page each
_DEADLINE_S = 20.0  # the kernel tries once a second to end a pool whose pages are out
_TURN_S = 0.02


def run(packets: int) -> DemoResult:
    """Send ``packets`` UDP frames into a socket that nobody reads, count the pages that stay out with those that wait in
    it, read the socket, and wait until every page is home.
    """
    with Lab(Topology.pair(), name="demo-buffers") as lab:
        client, server = lab["client"], lab["server"]
        with one_cpu(), watch(lab) as pools, UdpSink(server, read=False, receive_buffer=_BUFFER) as sink:
            report = generate(client["eth0"], udp(client, server), packets)
            lab.ledger()  # waits until every frame has arrived
            parked, waiting = pools.read(), sink.queued()
            sink.drain()
            _until_home(pools)
            return DemoResult("buffers", report, lab.ledger(), buffers=pools.read(), parked=parked, waiting=waiting)


def _until_home(pools: BufferWatch) -> None:
    deadline = time.monotonic() + _DEADLINE_S
    while pools.read().in_flight and time.monotonic() < deadline:
        time.sleep(_TURN_S)
