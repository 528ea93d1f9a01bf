"""Frames that the stack puts into a socket which nobody reads: their pages stay out, and their pool can't end."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

from labkit.buffers import one_cpu
from labkit.errors import TrafficError
from labkit.host import Host
from labkit.lab import Lab
from labkit.lesson.buffers.counted import Counted, Look, looking
from labkit.lesson.page import Table
from labkit.lesson.pictures import bars
from labkit.lesson.race import scaled
from labkit.topology import Topology
from labkit.traffic.frames import udp
from labkit.traffic.generator import generate
from labkit.traffic.sink import UdpSink

__all__ = ["ENDS", "ROOM", "await_home", "fitting", "parked_pages", "socket_bytes"]

ROOM = 64 << 20
"""Bytes of a socket: room for some thousand datagrams of one page each."""

ENDS = ("ends at once", "waits until the socket is read or closed", "takes its pages out of the socket")
"""What a pool may do whose pages are out: the choices of a prediction."""

_PORTS = (9_998, 9_999)
_FRAMES = (1_999, 997)  # each no more than the generator makes in one run
_DEADLINE_S = 20.0
_TURN_S = 0.02
_BESIDE_PAGE = 512  # bytes, at most: what the kernel charges a datagram for its description


def parked_pages() -> Counted:
    """Two sockets that nobody reads, each filled by one run of the generator; then one is read, the other closed.

    A line for each moment. Lab "parked". Where no page can be counted, the sockets' own memory tells.
    """
    with Lab(Topology.pair(), name="parked") as lab, one_cpu(), looking(lab) as look:
        first, second = (UdpSink(lab["server"], port, read=False, receive_buffer=ROOM) for port in _PORTS)
        rows = [_moment(lab, look, "before")]
        sent = [_fill(lab, sink, fitting(sink, frames)) for sink, frames in zip((first, second), _FRAMES, strict=True)]
        rows.append(_moment(lab, look, f"{sum(sent):,} sent, generator ended"))
        tried = _await(look, lambda pages: pages.closing and min(each.retries for each in pages.closing) >= 1)
        rows.append(_moment(lab, look, "a little later"))
        first.drain()
        _await(look, lambda pages: len(pages.closing) < 2)
        rows.append(_moment(lab, look, "first socket read"))
        second.close()
        home = _await(look, lambda pages: not pages.in_flight)
        rows.append(_moment(lab, look, "second socket closed, unread"))
    head = (
        "moment",
        "datagrams waiting",
        "bytes charged to sockets",
        "pages out",
        "in flight",
        "pools that wait to end",
        "tries",
    )
    answer = None if not look else ENDS[1] if tried and home else ENDS[0]
    shown, unit = (3, "pages out") if look else (1, "datagrams waiting")
    picture = bars(
        {str(row[0]): float(str(row[shown])) for row in rows}, unit, f"{unit}, moment by moment".capitalize()
    )
    return Counted(Table(head, tuple(rows)), {"pool-parked": answer}, picture, look.notes)


def fitting(sink: UdpSink, frames: int) -> int:
    """``frames``, scaled, or as many as the socket has room for where each keeps a page; a prime number.

    A student's sockets are limited by the machine's net.core.rmem_max.
    """
    number = min(scaled(frames), sink.receive_buffer // (os.sysconf("SC_PAGE_SIZE") + _BESIDE_PAGE))
    while any(number % divisor == 0 for divisor in range(2, int(number**0.5) + 1)):
        number -= 1
    return number


def _fill(lab: Lab, sink: UdpSink, frames: int) -> int:
    client, server = lab["client"], lab["server"]
    generate(client["eth0"], udp(client, server, dport=sink.port), frames)
    waiting = lab.ledger().in_flight
    if waiting < frames:
        raise TrafficError(
            f"Of {frames:,} datagrams {waiting:,} wait in sockets.",
            tried="to fill a socket that nobody reads",
            detail=str(lab.ledger()),
            remedy="the kernel gave the socket less room than it was asked for: sysctl net.core.rmem_max",
        )
    return frames


def _moment(lab: Lab, look: Look, what: str) -> tuple[object, ...]:
    waiting = sum(sink.queued() for sink in lab.sinks)
    charged = sum(socket_bytes(lab["server"]).values())
    if look.pools is None:
        return what, waiting, charged, None, None, None, None
    pages = look.pools.read()
    tries = max((each.tries for each in pages.closing), default=0)
    return what, waiting, charged, pages.out, pages.in_flight, len(pages.closing), tries


def _await(look: Look, condition: Callable[..., object]) -> bool:
    """Whether it came about in time; without a watch not at all."""
    deadline = time.monotonic() + _DEADLINE_S
    while look.pools is not None:
        if condition(look.pools.read()):
            return True
        if time.monotonic() > deadline:
            break
        time.sleep(_TURN_S)
    return False


def await_home(look: Look) -> bool:
    """Whether the last page has come home to its pool in time; without a watch not at all."""
    return _await(look, lambda pages: not pages.out)


def socket_bytes(host: Host) -> dict[int, int]:
    """Port → bytes that the kernel charges a UDP socket of ``host`` for what waits in it: /proc/net/udp, rx_queue."""

    def table() -> list[list[str]]:
        with open("/proc/thread-self/net/udp", encoding="ascii") as lines:
            return [line.split() for line in lines][1:]

    return {int(row[1].rpartition(":")[2], 16): int(row[4].rpartition(":")[2], 16) for row in host.run(table)}
