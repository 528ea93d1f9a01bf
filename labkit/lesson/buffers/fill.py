"""The same question in user space: an AF_XDP program that gives all, half or none of its frames back."""

from __future__ import annotations

import time

from labkit.compile import compile_source
from labkit.compile.source import lesson_directory
from labkit.errors import TrafficError
from labkit.lab import Lab
from labkit.lesson.buffers.counted import Counted
from labkit.lesson.page import Table
from labkit.lesson.pictures import bars
from labkit.lesson.xsk_at_work import GIVES_BACK
from labkit.topology import Topology
from labkit.traffic.frames import udp
from labkit.traffic.raw import frame_socket
from labkit.xsk import Umem, XskSocket

__all__ = ["fill_ring_runs_dry"]

_FRAMES, _PACKETS, _BURST = 64, 1_009, 16
_PATIENCE_S = 20.0


def fill_ring_runs_dry() -> Counted:
    """1,009 packets to a socket with 64 frames, 16 at a time; what the program gives back of each batch decides how many
    it gets. Lab "dry". It needs no tracing: these frames are the program's own, and it can count them.
    """
    rows = [_row(share) for share in GIVES_BACK]
    head = (
        "gives back",
        "packets sent",
        "received",
        "lost: no empty frame",
        "frames kept",
        "in the fill ring",
        "packets a frame",
    )
    got = {str(row[0]): float(str(row[2])) for row in rows}
    picture = bars(got, "packets", f"Received of {_PACKETS:,} packets with {_FRAMES} frames, by what is given back")
    return Counted(Table(head, tuple(rows)), {"pool-fill": got[GIVES_BACK[1]]}, picture)


def _row(share: str) -> tuple[object, ...]:
    with Lab(Topology.pair(), name="dry") as lab:
        client, server = lab["client"]["eth0"], lab["server"]["eth0"]
        program = lab.load(compile_source(path=lesson_directory() / "to_socket.c"))
        program.attach(server)
        frame = udp(lab["client"], lab["server"])
        with Umem(_FRAMES) as umem, XskSocket(server, umem=umem, transmit_ring=0) as xsk, frame_socket(client) as out:
            program.maps["sockets"][0] = xsk
            sent = kept = 0
            while sent < _PACKETS:
                burst = min(_BURST, _PACKETS - sent)
                for _ in range(burst):
                    out.send(frame)
                sent += burst
                _await(xsk, sent)
                batch = xsk.take(_BURST)
                back = {"all": len(batch), "half": len(batch) // 2, "nothing": 0}[share]
                xsk.recycle(batch[:back])
                kept += len(batch) - back
            seen = xsk.counters()
            return share, sent, seen.taken, seen.no_buffer, kept, xsk.places()["fill"], seen.taken / _FRAMES


def _await(xsk: XskSocket, packets: int) -> None:
    """Until as many packets have come to the socket, or found no place there."""
    until = time.monotonic() + _PATIENCE_S
    while (seen := xsk.counters()).arrived + seen.refused < packets:
        if time.monotonic() > until:
            raise TrafficError(
                f"Of {packets} packets {seen.arrived + seen.refused} came to the socket.",
                tried="to let a fill ring run dry",
                remedy="run it again, and report it if it repeats",
            )
        time.sleep(0.0002)
