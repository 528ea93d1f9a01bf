"""Which packets a veth's XDP program gets in place, on the page where they came, and which are copied for it first."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from labkit.buffers import one_cpu
from labkit.compile import compile_source
from labkit.compile.source import lesson_directory
from labkit.lab import Lab
from labkit.lesson.buffers.counted import Counted, Look, looking
from labkit.lesson.buffers.parked import ROOM, await_home, fitting, socket_bytes
from labkit.lesson.buffers.recycling import must_account
from labkit.lesson.page import Table
from labkit.lesson.pictures import bars
from labkit.topology import Topology
from labkit.traffic.frames import udp
from labkit.traffic.generator import generate
from labkit.traffic.raw import send_frames
from labkit.traffic.receive_buffer import set_receive_buffer
from labkit.traffic.sink import UdpSink

__all__ = ["COPIED", "KEPT", "kept_or_copied"]

KEPT, COPIED = "kept in place", "copied"
_FRAMES = 1_009
_ETH_P_ALL = 0x0003  # include/uapi/linux/if_ether.h
_PORT = 9_999


@dataclass(frozen=True)
class _Way:
    """How frames come to the server: ``send`` them, while ``arranged`` lasts; ``why`` is what decides."""

    name: str
    why: str
    send: Callable[[Lab, int], object]
    arranged: Callable[[Lab], contextlib.AbstractContextManager[object]] = lambda _: contextlib.nullcontext()


def kept_or_copied() -> Counted:
    """Frames by six ways into a socket that nobody reads, through a program that passes all; where their bytes are then.

    Kept: the receiving queue's pool has no page out. Where pages can't be counted, what the kernel charges the socket tells:
    a whole page for each that was kept. Lab "kept".
    """
    rows = []
    with Lab(Topology.router(), name="kept") as lab, one_cpu(), looking(lab) as look:
        lab.load(compile_source(path=lesson_directory() / "pass.c")).attach(lab["server"]["eth0"])
        for way in _WAYS:
            with way.arranged(lab):
                rows.append(_row(lab, look, way))
            await_home(look)
    head = ("way to the server", "frames", "bytes charged, each", "pages out: sender's", "receiver's", "so", "because")
    answers = {"pool-forwarded": rows[1][5], "pool-tap": rows[3][5]}
    charged = {str(row[0]): float(str(row[2])) for row in rows}
    picture = bars(charged, "bytes", "What the kernel charges a socket for a datagram of 64 bytes, by its way")
    return Counted(Table(head, tuple(rows)), {name: str(said) for name, said in answers.items()}, picture, look.notes)


def _row(lab: Lab, look: Look, way: _Way) -> tuple[object, ...]:
    lab.reset()
    with UdpSink(lab["server"], _PORT, read=False, receive_buffer=ROOM) as sink:
        frames = fitting(sink, _FRAMES)
        way.send(lab, frames)
        must_account(lab.ledger(), frames)
        waiting = sink.queued()
        charged = socket_bytes(lab["server"])[_PORT] / max(1, waiting)
        sender, receiver = _out(look, "run"), _out(look, "queue")
        sink.drain()
    in_place = charged >= os.sysconf("SC_PAGE_SIZE") if receiver is None else receiver == 0
    return way.name, waiting, round(charged), sender, receiver, KEPT if in_place else COPIED, way.why


def _out(look: Look, kind: str) -> int | None:
    """Pages that are out of pools of a kind."""
    return sum(each.out for each in look.pools.read().pools if each.kind == kind) if look.pools else None


def _from_router(lab: Lab, frames: int) -> None:
    send_frames(lab["router"]["eth1"], udp(lab["router"], lab["server"], dport=_PORT), frames)


def _from_client(lab: Lab, frames: int) -> None:
    generate(lab["client"]["eth0"], udp(lab["client"], lab["server"], dport=_PORT), frames)


@contextlib.contextmanager
def _program(lab: Lab, name: str) -> Iterator[None]:
    """At the router's first interface while it lasts."""
    router, server = lab["router"], lab["server"]
    program = lab.load(compile_source(path=lesson_directory() / name))
    if "ports" in program.maps:
        program.maps["ports"][0] = router["eth1"]
        program.maps["next_hop"][0] = {"bytes": list(bytes.fromhex(server["eth0"].mac.replace(":", "")))}
    with program.attach(router["eth0"]):
        yield


@contextlib.contextmanager
def _tap(lab: Lab) -> Iterator[None]:
    """A packet socket at the router's way out, as tcpdump has one."""
    tap = lab["router"].socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ETH_P_ALL))
    with tap:
        set_receive_buffer(tap, ROOM)  # what finds no room isn't shared any more
        tap.bind(("eth1", _ETH_P_ALL))
        yield


_WAYS = (
    _Way("sent by the router itself", "its bytes are no page of their own: the kernel's ordinary memory", _from_router),
    _Way("forwarded by the router's stack", "a page, nobody else's, with room in front", _from_client),
    _Way(
        "the same, 16 bytes less in front",
        "less than the 256 bytes of room that an XDP program is promised",
        _from_client,
        partial(_program, name="less_headroom.c"),
    ),
    _Way("the same, tcpdump at the router", "shared: a second reader has the same bytes", _from_client, _tap),
    _Way(
        "redirected by the router's program",
        "it never was the stack's: a frame, with its pool's number",
        _from_client,
        partial(_program, name="redirect_devmap.c"),
    ),
)
