"""The last exercise of lesson 02: a router, checked by single frames, by the stack's part in it, and by real traffic."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

from labkit.lesson import redirect_frames as frames
from labkit.lesson.port_trial import STACK, Passage, PortTrial
from labkit.lesson.practice import Exercise, Row, register
from labkit.lesson.redirect_case import missing_maps
from labkit.observe.protocols import read_protocols
from labkit.topology import Topology
from labkit.traffic.ping import ping
from labkit.traffic.tcp import tcp_transfer
from labkit.traffic.udp import send_udp

__all__ = ["ROUTER"]

_PINGS, _DATAGRAMS, _BYTES = 7, 101, 100_003
_SMALL_MTU = 1000
# Ends and MAC addresses of Topology.router(): these frames are built before there is a lab.
_NEAR_MAC, _FAR_MAC = "02:00:00:00:01:02", "02:00:00:00:02:01"
_CLIENT_MAC, _CLIENT, _SERVER, _ROUTER = "02:00:00:00:01:01", "10.0.1.1", "10.0.2.2", "10.0.1.2"

_NOT_SENT = (
    "the way out: no frame arrived. The EtherType is compared with htons(ETH_P_IP); fib.ifindex is the key of ports; and "
    "the verdict is XDP_REDIRECT only if redirect_map says so"
)
_BY_STACK = (
    "who forwards: your program passed the packets and the kernel's stack forwarded them, as it would without you; the "
    "program has to find the way (htons(ETH_P_IP)?) and redirect"
)
_TO_MAC = (
    "the destination's MAC address: bpf_fib_lookup left that of the next hop in fib.dmac; copy it into eth->h_dest"
)
_FROM_MAC = (
    "the source's MAC address: that of the interface the frame leaves by is in fib.smac; copy it into eth->h_source"
)
_SWAPPED = "the MAC addresses: h_dest gets fib.dmac and h_source fib.smac; here they are the other way round"
_HOP = "the TTL: one less at each router, or packets in a loop live for ever; decrease_ttl(ip) in bpf/common/rewrite.h"
_CHECK = (
    "the header's checksum: it covers the TTL, so it has to change with it, and an addition to it may overflow; "
    "decrease_ttl(ip) does both"
)
_BYTES_ELSE = "the rest of the packet: a router changes MAC addresses, TTL and the header's checksum, and no other byte"
_LAST_HOP = "the last hop: a packet with a TTL of 0 or 1 ends here. Pass it unaltered: the stack tells the sender"
_LENGTH = "the length: the routing table judges by fib.tot_len, ntohs(ip->tot_len); without it any length fits"
_ORDER = (
    "the order: ask the routing table and ports first, and alter the packet only when both said yes; what passes must be "
    "as it came"
)
_PORT = "the port: the interface may be missing in ports; give redirect_map XDP_PASS for that, and the stack forwards the packet"
_ALIEN = "what is not yours: ARP, IPv6, packets for the router itself or without a route are the stack's; pass them"
_TRAFFIC = "real traffic, once every row above is as it should be: see what is lost in lab.ledger(), as in section 9"


def _same(expected: str, seen: str, what: str, look: str) -> Row:
    return Row(what, expected, seen, expected == seen, look)


def _mac(raw: bytes) -> str:
    return raw.hex(":")


def _distinct(found: Iterator[str]) -> str:
    return ", ".join(sorted(set(found)))


def _checksum(frame: bytes) -> str:
    total = sum(struct.unpack("!10H", frame[14:34]))
    return "right" if total % 0xFFFF == 0 else "wrong"


def _else(frame: bytes, sent: bytes) -> str:
    """Whether all but MAC addresses, TTL and the header's checksum are as they were sent."""
    parts = ((12, 22), (23, 24), (26, len(sent)))
    return "as sent" if all(frame[a:b] == sent[a:b] for a, b in parts) else "altered"


def _forwarded(trial: PortTrial, sender: str, receiver: str, frame: bytes, ttl: int = 64) -> list[Row]:
    """Rows on a frame that the program has to forward: each thing that a router changes, and what it leaves."""
    what = f"UDP from {sender} to {receiver}, TTL {ttl}"
    seen = trial.send(sender, frame)
    arrived = seen.frames.get(receiver, ())
    if len(arrived) != seen.sent or seen.came.get(STACK):
        look = _BY_STACK if seen.came.get(STACK) else _wrong_verdict(seen) or _NOT_SENT
        return [Row(f"{seen.sent} × {what}", f"{seen.sent} to {receiver}", seen.words, False, look)]
    out = trial.ends[receiver]
    wanted = (_mac(bytes.fromhex(out.mac.replace(":", ""))), out.peer.mac)
    to, source = (_distinct(_mac(each[at : at + 6]) for each in arrived) for at in (0, 6))
    swapped = _SWAPPED if (source, to) == wanted else ""
    return [
        Row(f"{seen.sent} × {what}", f"{seen.sent} to {receiver}", f"{len(arrived)} to {receiver}", True),
        _same(wanted[0], to, f"{what}: to which MAC", swapped or _TO_MAC),
        _same(wanted[1], source, f"{what}: from which MAC", swapped or _FROM_MAC),
        _same(str(ttl - 1), _distinct(str(each[22]) for each in arrived), f"{what}: TTL there", _HOP),
        _same("right", _distinct(map(_checksum, arrived)), f"{what}: header checksum", _CHECK),
        _same("as sent", _distinct(_else(each, seen.shown) for each in arrived), f"{what}: the rest", _BYTES_ELSE),
    ]


def _wrong_verdict(seen: Passage) -> str:
    if seen.verdicts.get("XDP_TX"):
        return "XDP_TX: it sends the packet back to where it came from; the way out is another port, so XDP_REDIRECT"
    if seen.refused:
        return "the target: no such interface, or none in ports; the key of ports is fib.ifindex"
    return ""


def _passed(trial: PortTrial, what: str, frame: bytes, look: str) -> Row:
    """A row on frames that are the stack's: there, all of them, unaltered."""
    seen = trial.send("client", frame)
    there = seen.frames.get(STACK, ())
    altered = sum(each != seen.shown for each in there)
    words = f"{len(there)} to the stack" + (f", {altered} of them altered" if altered else "")
    if len(there) != seen.sent:
        words = seen.words
    good = len(there) == seen.sent and not altered
    return Row(f"{seen.sent} × {what}", f"{seen.sent} to the stack", words, good, _ORDER if altered else look)


def _for_the_stack(trial: PortTrial) -> Iterator[Row]:
    """What a router of XDP leaves to the kernel's."""
    to_server, ports = partial(_from_client, _SERVER), trial.program.maps["ports"]
    yield _passed(trial, "UDP to the server, TTL 1", to_server(ttl=1), _LAST_HOP)
    yield _passed(trial, "ARP, to everybody", frames.arp(1), _ALIEN)
    yield _passed(trial, "IPv6", frames.ipv6(1, 2), _ALIEN)
    yield _passed(trial, "UDP to the router itself", _from_client(_ROUTER), _ALIEN)
    yield _passed(trial, "UDP to a network without a route", _from_client("10.9.9.9"), _ALIEN)
    far = trial.middle["eth1"]
    far.set_mtu(_SMALL_MTU)
    yield _passed(trial, f"UDP of 1,200 bytes, next MTU {_SMALL_MTU:,}", to_server(size=1200, flags="DF"), _LENGTH)
    far.set_mtu(far.end.mtu)
    del ports[far.ifindex]
    yield _passed(trial, "UDP to the server, its port not in ports", to_server(), _PORT)
    ports[far.ifindex] = far


def _from_client(target: str, **fields: Any) -> bytes:
    frame = frames.udp(1, target, _NEAR_MAC, src=_CLIENT, **fields)
    return frame[:6] + bytes.fromhex(_CLIENT_MAC.replace(":", "")) + frame[12:]


def _traffic(trial: PortTrial) -> Iterator[Row]:
    """Ping, UDP and TCP both ways, and whether the stack had a hand in it."""
    client, server = trial.lab["client"], trial.lab["server"]
    before = _stack_forwarded(trial)
    for a, b in ((client, server), (server, client)):
        answered = ping(a, b, _PINGS, timeout_s=0.5).received
        yield _same(f"{_PINGS} answered", f"{answered} answered", f"{_PINGS} pings, {a.name} to {b.name}", _TRAFFIC)
        sink = trial.sinks[b.name]
        had = sink.received
        send_udp(a, b, _DATAGRAMS)
        came = sink.wait(had + _DATAGRAMS, 1.0) - had
        words = f"{_DATAGRAMS} datagrams, {a.name} to {b.name}"
        yield _same(f"{_DATAGRAMS} received", f"{came} received", words, _TRAFFIC)
        intact = answered and tcp_transfer(a, b, _BYTES, timeout_s=5.0).intact
        words = f"{_BYTES:,} bytes over TCP and back, {a.name} to {b.name}"
        yield _same("intact", "intact" if intact else "not whole", words, _TRAFFIC)
    by_stack = _stack_forwarded(trial) - before
    yield _same("0", str(by_stack), "packets that the kernel's stack forwarded of those", _BY_STACK)


def _stack_forwarded(trial: PortTrial) -> int:
    return trial.middle.run(read_protocols)["IpForwDatagrams"]


def _run(trial: PortTrial) -> list[Row]:
    if missing := missing_maps(trial, "ports"):
        return missing
    for port in trial.ports:
        trial.program.maps["ports"][port.ifindex] = port
    there, back = _from_client(_SERVER), frames.udp(2, _CLIENT, _FAR_MAC)
    rows = [*_forwarded(trial, "client", "server", there), *_forwarded(trial, "server", "client", back)]
    rows += _only_ttl(_forwarded(trial, "client", "server", _from_client(_SERVER, ttl=2), 2))
    rows += [*_overflow(trial), *_for_the_stack(trial)]
    clear = all(row.good for row in rows)  # else the causes are named already
    return [*rows, *(row if clear else replace(row, look=row.look.replace(_TRAFFIC, "")) for row in _traffic(trial))]


def _only_ttl(rows: list[Row]) -> list[Row]:
    return [row for row in rows if "TTL there" in row.what or " × " in row.what]


def _overflow(trial: PortTrial) -> list[Row]:
    """The checksum once more, where it is so high that mending it overflows: one packet in 256."""
    frame = frames.overflowing(2, _CLIENT, _FAR_MAC)
    arrived = trial.send("server", frame).frames.get("client", ())
    if not arrived:
        return []
    what = "UDP from server to client, checksum 0xff80: header checksum"
    return [_same("right", _distinct(map(_checksum, arrived)), what, _CHECK)]


ROUTER = register(
    Exercise(
        "router",
        "A router of XDP",
        "Input: any frame, at either interface of a router. Forward IPv4 as the routing table says, without the stack: the "
        "next hop's MAC addresses, a TTL one less, a header checksum that is right. Leave to the stack, unaltered, what you "
        "can't do: a TTL of 0 or 1, packets that are too long for the way out, for the router itself, without a route, whose "
        "interface isn't in ports, and everything but IPv4. ports has each interface at its own ifindex.",
        "forward_ipv4",
        (
            "Run the check. The packets reach the other side: which four things does a router change about them?",
            "bpf_fib_lookup filled in fib.dmac and fib.smac; bpf/common/rewrite.h has decrease_ttl(ip).",
            "What passes must be unaltered: decide everything first (TTL, routing table, redirect_map with XDP_PASS for an "
            "empty slot), and alter the packet last.",
            "For packets that are too long: set fib.tot_len = ntohs(ip->tot_len) before you ask.",
            "bpf/router.c, with a map of answers more, is in section 9.",
        ),
        _run,
        partial(PortTrial, topology=Topology.router(), middle="router"),
    )
)
