"""What a driver knows of a packet depends on where the packet comes from: asked live, origin by origin."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass

from labkit.compile import compile_source
from labkit.compile.source import lesson_directory
from labkit.errors import FeatureError
from labkit.interface import Interface
from labkit.lab import Lab
from labkit.lesson.hints_driver import asking, take_answers
from labkit.lesson.hints_driver_tap import tap
from labkit.lesson.hints_driver_words import Answer
from labkit.program.classifier import at_tc
from labkit.program.link import Mode
from labkit.topology import Topology
from labkit.traffic.frames import arp, udp, vlan
from labkit.traffic.generator import generate
from labkit.traffic.raw import send_frames
from labkit.traffic.tcp import tcp_transfer
from labkit.traffic.udp import send_udp
from labkit.uapi import AttachType, ProgType, XdpAction

__all__ = ["ORIGINS", "Origin", "ask_by_origin", "pushed_tag", "send_unconnected"]

PACKETS = 101
TAG, PRIORITY = 10, 3
_PORT = 9999
_TCP_BYTES = 10_007


@dataclass(frozen=True)
class Origin:
    """Where packets come from; ``skb`` whether they reach the driver with the kernel's description (struct sk_buff)."""

    name: str
    skb: bool
    ask: Callable[[Lab], list[Answer]]


def send_unconnected(source: Interface, packets: int, *, sport: int = 0) -> None:
    """Send datagrams to the other end from a socket that is not connected: each is addressed anew."""
    with source.host.socket(socket.AF_INET, socket.SOCK_DGRAM) as out:
        out.bind((source.ip, sport))
        for _ in range(packets):
            out.sendto(bytes(22), (source.peer.ip, _PORT))


@contextlib.contextmanager
def pushed_tag(sender: Interface, *, offload: bool) -> Iterator[None]:
    """While it lasts, a TC program of ``sender`` gives all that leaves a VLAN tag; ``offload``: beside the frame."""
    lab, before = sender.host.lab, sender.features()["tx-vlan-hw-insert"]
    spec = compile_source(path=lesson_directory() / "hints_push_vlan.c")
    loaded = lab.load(spec, type=ProgType.SCHED_CLS, expected_attach_type=AttachType.TCX_EGRESS)
    with loaded as program, at_tc(program, sender, AttachType.TCX_EGRESS):
        program.maps["tag"][0] = PRIORITY << 13 | TAG
        sender.set_feature("tx-vlan", offload)
        try:
            yield
        finally:
            sender.set_feature("tx-vlan", before)


@contextlib.contextmanager
def _redirecting(lab: Lab, mode: Mode = "native") -> Iterator[None]:
    """While it lasts, the router sends everything from its eth0 out of its eth1, by XDP."""
    spec = compile_source(path=lesson_directory() / "redirect_devmap.c")
    with lab.load(spec) as program:
        program.maps["ports"][0] = lab["router"]["eth1"]
        with program.attach(lab["router"]["eth0"], mode=mode):
            yield


def _near(lab: Lab) -> Interface:
    """The sender at the other end of the wire."""
    return lab["router"]["eth1"]


def _asked(
    send: Callable[[Lab], object], around: Callable[[Lab], AbstractContextManager[object]] | None = None
) -> Callable[[Lab], list[Answer]]:
    def ask(lab: Lab) -> list[Answer]:
        with around(lab) if around else contextlib.nullcontext(), asking(lab["server"]["eth0"]) as asked:
            send(lab)
            return asked.take(PACKETS)

    return ask


def _tcp(lab: Lab) -> list[Answer]:
    """The segments that the server's driver gets; how many there are is up to TCP, and known afterwards."""
    with asking(lab["server"]["eth0"], XdpAction.PASS) as asked:
        report = tcp_transfer(_near(lab), lab["server"]["eth0"], _TCP_BYTES)
        return asked.take(report.sent)


def _of_a_tap(lab: Lab) -> list[Answer]:
    with tap(lab["server"]) as device:
        device.receive(bytes(udp(_near(lab), lab["server"]["eth0"])), PACKETS)
        return take_answers(device.program, lab["server"]["eth0"], PACKETS)


def _datagram(lab: Lab) -> bytes:
    return udp(_near(lab), lab["server"]["eth0"])


CONNECTED, FROM_TC, GENERATED, TAP = (
    "a connected socket, UDP",
    "a socket, VLAN tag pushed by TC, offload on",
    "generated, without an skb",
    "a tap: another driver",
)

ORIGINS = (
    Origin("a socket, UDP", True, _asked(lambda lab: send_unconnected(_near(lab), PACKETS))),
    Origin(CONNECTED, True, _asked(lambda lab: send_udp(_near(lab), lab["server"], PACKETS))),
    Origin("a socket, TCP", True, _tcp),
    Origin("a packet socket (scapy), UDP", True, _asked(lambda lab: send_frames(_near(lab), _datagram(lab), PACKETS))),
    Origin(
        "a packet socket, ARP",
        True,
        _asked(lambda lab: send_frames(_near(lab), arp(_near(lab), lab["server"]["eth0"]), PACKETS)),
    ),
    Origin(
        "a packet socket, VLAN tag in the frame",
        True,
        _asked(lambda lab: send_frames(_near(lab), vlan(_datagram(lab), TAG), PACKETS)),
    ),
    Origin(
        FROM_TC,
        True,
        _asked(
            lambda lab: send_udp(_near(lab), lab["server"], PACKETS), lambda lab: pushed_tag(_near(lab), offload=True)
        ),
    ),
    Origin(
        "the same, offload off",
        True,
        _asked(
            lambda lab: send_udp(_near(lab), lab["server"], PACKETS), lambda lab: pushed_tag(_near(lab), offload=False)
        ),
    ),
    Origin(
        "forwarded by the router's stack", True, _asked(lambda lab: send_udp(lab["client"], lab["server"], PACKETS))
    ),
    Origin(
        "redirected by generic XDP",
        True,
        _asked(lambda lab: send_udp(lab["client"], lab["server"], PACKETS), lambda lab: _redirecting(lab, "generic")),
    ),
    Origin(
        "redirected by native XDP, from a socket",
        False,
        _asked(lambda lab: send_udp(lab["client"], lab["server"], PACKETS), _redirecting),
    ),
    Origin(
        "redirected by native XDP, generated",
        False,
        _asked(lambda lab: generate(lab["client"]["eth0"], udp(lab["client"], lab["server"]), PACKETS), _redirecting),
    ),
    Origin(GENERATED, False, _asked(lambda lab: generate(_near(lab), _datagram(lab), PACKETS))),
    Origin(TAP, False, _of_a_tap),
)


def ask_by_origin() -> tuple[dict[str, list[Answer]], dict[str, str]]:
    """For each origin the kinds of answers its packets got, in a lab of its own called "hints"; and what was left out.

    An origin that this kernel can't make (no TC links, no tap devices) is left out, with the reason. Raises FeatureError
    where no program may ask for hints at all, TrafficError where packets are missing.
    """
    found, left_out = {}, {}
    with Lab(Topology.router(), name="hints") as lab:
        with asking(lab["server"]["eth0"]):
            pass  # FeatureError here speaks of all of them
        for origin in ORIGINS:
            try:
                found[origin.name] = origin.ask(lab)
            except FeatureError as error:
                left_out[origin.name] = error.message
    return found, left_out
