"""Who can read metadata along a packet's way: every consumer tried, with real packets, and drawn."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property

from labkit.lesson.metadata_adjust import GENERATED, GENERIC, ORIGINS, SOCKET
from labkit.lesson.metadata_picture import Station, ways_picture
from labkit.lesson.metadata_post import Post, Reading, Way
from labkit.lesson.page import Table
from labkit.lesson.pictures import Picture
from labkit.lesson.race import scaled
from labkit.lesson.workshop import LONGEST_QUEUE
from labkit.traffic.checks import check_whole

__all__ = ["CONSUMERS", "Consumer", "Delivery", "who_reads_metadata"]

_PACKETS = 10_007


@dataclass(frozen=True)
class Consumer:
    """Somebody who may read a note: where, by which of the writer's ways, and why it finds one or finds none."""

    name: str
    where: str
    lane: str
    way: Way
    arrange: Callable[[Post], AbstractContextManager[None]]
    kept: str
    lost: str = ""
    take: bool = True


_STACK, _DEVICE, _CPU, _BACK = "XDP_PASS", "redirect, devmap", "redirect, cpumap", "XDP_TX"
_SOCKET = "redirect, xskmap"
_FRAME_KEEPS = "struct xdp_frame keeps the length"
_SKB_KEEPS = "the sk_buff made of the frame keeps the length"
_NO_LENGTH = "the sk_buff is told the length for XDP_PASS alone"
_NOT_MADE = "this kernel makes the sk_buff without it"

CONSUMERS = (
    Consumer(
        "TC ingress",
        "router eth0",
        _STACK,
        Way.TO_STACK,
        lambda post: post.reading_at_tc(post.router["eth0"]),
        _SKB_KEEPS,
        "this driver makes the sk_buff without it",
    ),
    Consumer(
        "TC egress, forwarded",
        "router eth1",
        _STACK,
        Way.TO_STACK,
        lambda post: post.on_the_way_out(),
        "the stack forwards the same sk_buff: nobody took the note off",
        "the stack has taken it off",
        take=False,
    ),
    Consumer(
        "XDP next host, forwarded",
        "server eth0",
        _STACK,
        Way.TO_STACK,
        lambda post: post.reading(post.server["eth0"]),
        "this driver looks into the sk_buff",
        "a program that meets an sk_buff starts without metadata",
    ),
    Consumer(
        "TC next host, forwarded",
        "server eth0",
        _STACK,
        Way.TO_STACK,
        lambda post: post.reading_at_tc(post.server["eth0"]),
        "veth hands over the same sk_buff",
        "it is taken off between the hosts",
    ),
    Consumer(
        "devmap program",
        "router eth1",
        _DEVICE,
        Way.TO_DEVICE,
        lambda post: post.next_host(at_egress=True),
        _FRAME_KEEPS,
        _NO_LENGTH,
    ),
    Consumer(
        "XDP next host",
        "server eth0",
        _DEVICE,
        Way.TO_DEVICE,
        lambda post: post.next_host(),
        _FRAME_KEEPS,
        _NO_LENGTH,
    ),
    Consumer(
        "TC next host",
        "server eth0",
        _DEVICE,
        Way.TO_DEVICE,
        lambda post: post.next_host(at_tc=True),
        _SKB_KEEPS,
        _NO_LENGTH,
    ),
    Consumer(
        "cpumap program",
        "router, that CPU",
        _CPU,
        Way.TO_CPU,
        lambda post: post.on_another_cpu(),
        _FRAME_KEEPS,
        _NO_LENGTH,
    ),
    Consumer(
        "TC behind the cpumap",
        "router eth0",
        _CPU,
        Way.TO_CPU,
        lambda post: post.on_another_cpu(at_tc=True),
        _SKB_KEEPS,
        _NO_LENGTH,
    ),
    Consumer(
        "XDP at the sender",
        "client eth0",
        _BACK,
        Way.BACK,
        lambda post: post.reading(post.client["eth0"]),
        _FRAME_KEEPS,
        _NO_LENGTH,
    ),
    Consumer(
        "AF_XDP socket",
        "router eth0",
        _SOCKET,
        Way.TO_SOCKET,
        lambda post: contextlib.nullcontext(),
        "it is copied before the packet; nobody tells how much of it there is",
        "it isn't copied",
    ),
)


@dataclass(frozen=True)
class Delivery:
    """What each consumer read, by its name and the packets' origin. In a notebook a picture and the table."""

    readings: Mapping[tuple[str, str], Reading]
    consumers: tuple[Consumer, ...]

    def __getitem__(self, key: tuple[str, str]) -> Reading:
        """The reading of a consumer (its name) for an origin: one of ``lesson.metadata_adjust.ORIGINS``."""
        return self.readings[key]

    def arrives(self, consumer: str, origin: str = GENERATED) -> bool:
        """Whether every note came to ``consumer``."""
        return self[consumer, origin].carried

    @cached_property
    def table(self) -> Table:
        """A row a consumer: notes read of packets sent, for each origin, and why."""
        rows, marks = [], []
        for number, each in enumerate(self.consumers):
            found = [self[each.name, origin] for origin in ORIGINS]
            rows.append((each.lane, each.name, each.where, *(reading.words for reading in found), self._why(each)))
            marks += [(number, 3 + i, "good" if reading.carried else "bad") for i, reading in enumerate(found)]
        head = ("writer says", "consumer", "where", *ORIGINS, "why")
        return Table(head, tuple(rows), "notes read, of packets that came", tuple(marks))

    def _why(self, each: Consumer) -> str:
        native = self.arrives(each.name), self.arrives(each.name, SOCKET)
        generic = self.arrives(each.name, GENERIC)
        if all((*native, generic)):
            return each.kept
        if not any((*native, generic)):
            return each.lost if each.lost != _NO_LENGTH else _NOT_MADE
        if all(native):
            return f"native: {each.kept}; generic: {each.lost}"
        return f"{each.kept}; where it is missing: {each.lost}"

    @cached_property
    def picture(self) -> Picture:
        """The ways from the writer on, and who along them can read the note."""
        stations = [
            Station(
                each.lane,
                each.name,
                each.where,
                all(self.arrives(each.name, origin) for origin in (GENERATED, SOCKET)),
                self.arrives(each.name, GENERIC),
            )
            for each in self.consumers
        ]
        return ways_picture(stations, self.table)

    def __str__(self) -> str:
        return str(self.table)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return self.picture._repr_html_()


def who_reads_metadata(packets: int | None = None) -> Delivery:
    """Send packets with a note through every way of a program, and see who along it finds the note; lab "notes".

    By default 10,007 packets for each consumer and origin, fewer where ``$LAB_SCALE`` says so; 16,384 at the most, which fit
    a CPU's queue. Every run's ledger must balance. Raises
    TrafficError where it doesn't, FeatureError where a way is not there.
    """
    number = (
        scaled(_PACKETS) if packets is None else check_whole("packets", packets, 1, LONGEST_QUEUE, "to carry notes")
    )
    readings: dict[tuple[str, str], Reading] = {}
    with Post("notes") as post:
        for origin in ORIGINS:
            with post.in_mode("generic" if origin == GENERIC else "native"):
                for each in CONSUMERS:
                    with each.arrange(post):
                        readings[each.name, origin] = _carried(post, each, number, origin != GENERATED)
    return Delivery(readings, CONSUMERS)


def _carried(post: Post, to: Consumer, packets: int, from_socket: bool) -> Reading:
    if to.way is Way.TO_SOCKET:
        return post.carry_to_socket(packets, from_socket=from_socket)
    return post.carry(to.way, packets, from_socket=from_socket, take=to.take)
