"""What doesn't come to a program, and under which name the ledger has it: each case made, and counted."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from labkit.compile import compile_source
from labkit.compile.source import lesson_directory
from labkit.errors import TrafficError
from labkit.interface import Interface
from labkit.lab import Lab
from labkit.lesson.page import Table
from labkit.topology import Topology
from labkit.traffic.frames import udp
from labkit.traffic.generator import generate
from labkit.traffic.sink import UdpSink
from labkit.xsk import Umem, XskSocket

__all__ = ["xsk_losses"]

_PACKETS = 1_009
_RING, _FILLED, _HEADROOM = 64, 61, 1024
_LONG = 1_000  # bytes: more than what a frame of 2,048 has behind such a headroom

Opened = Callable[[Interface], Sequence[XskSocket]]
"""Sockets at an interface, for the map's slots from 0 on."""


def xsk_losses() -> Table:
    """Each way in which packets don't come to a program, tried in a lab "lost-by-name" of its own."""
    rows = (
        _row(f"nobody reads; receive ring of {_RING}", lambda at: [XskSocket(at, receive_ring=_RING)]),
        _row(f"nothing given back; {_FILLED} frames to begin with", lambda at: [XskSocket(at, filled=_FILLED)]),
        _row(f"{_LONG:,} bytes, and room for {2048 - 256 - _HEADROOM}", _little_room, size=_LONG),
        _row("no socket in the slot", lambda _: []),
        _row("two queues, the sockets in each other's slots", _exchanged, queues=2),
    )
    head = ("what was wrong", "sent", "in the receive ring", "to the stack", "lost", "by the name")
    return Table(head, rows)


def _little_room(at: Interface) -> Sequence[XskSocket]:
    return [XskSocket(at, umem=Umem(headroom=_HEADROOM), transmit_ring=0)]


def _exchanged(at: Interface) -> Sequence[XskSocket]:
    return [XskSocket(at, queue, umem=Umem(_RING)) for queue in (1, 0)]


def _row(what: str, opened: Opened, *, size: int = 64, queues: int = 1) -> tuple[object, ...]:
    with Lab(Topology.pair(queues=queues), name="lost-by-name") as lab:
        client, server = lab["client"], lab["server"]
        program = lab.load(compile_source(path=lesson_directory() / "to_socket.c"))
        program.attach(server["eth0"])
        for slot, xsk in enumerate(opened(server["eth0"])):  # the lab closes them
            program.maps["sockets"][slot] = xsk
        with UdpSink(server):  # whatever the program passes is to be welcome
            generate(client["eth0"], udp(client, server, size=size), _PACKETS)
            ledger = lab.ledger()
    if ledger.unaccounted:
        detail, remedy = str(ledger), "run it again, and report it if it repeats"
        raise TrafficError("The ledger does not balance.", tried="to name losses", detail=detail, remedy=remedy)
    return what, ledger.sent, ledger.in_flight, ledger.delivered, ledger.lost, ", ".join(ledger.losses) or None
