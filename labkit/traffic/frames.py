"""Frames from one host of the lab to another, built by scapy: every address explicit, every checksum complete.

``size`` is always that of the whole frame in bytes: with the Ethernet header, without its checksum (FCS). Sources and
destinations are hosts or interfaces of one lab; the frame is addressed to the next hop's MAC. Nothing here needs a kernel
or privilege. Raises TrafficError for what no frame can be.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from typing import Any

from labkit.errors import TrafficError
from labkit.host import Host
from labkit.interface import Interface
from labkit.traffic.checks import check_port, check_whole
from labkit.traffic.frame import ETHERNET_HEADER, Frame, FrameField
from labkit.traffic.quiet_scapy import scapy
from labkit.traffic.way import Way, way

__all__ = ["Frame", "FrameField", "arp", "fragments", "icmp", "ipv6_address", "tcp", "udp", "udp6", "vlan"]

_TRIED = "to build a frame"
_IPV4_MOST, _IPV6_MOST = 65535, 40 + 65535  # bytes: total length of IPv4, RFC 791; payload length of IPv6, RFC 8200
_ARP_BYTES = ETHERNET_HEADER + 28
_ICMP_TYPES = {"request": 8, "reply": 0}  # RFC 792
_ARP_OPERATIONS = {"request": 1, "reply": 2}  # RFC 826
_BROADCAST = "ff:ff:ff:ff:ff:ff"
_TCP_FLAGS = "FSRPAUEC"
_ETH_P_IP, _ETH_P_8021Q = b"\x08\x00", b"\x81\x00"  # include/uapi/linux/if_ether.h, network byte order


def udp(
    source: Host | Interface,
    destination: Host | Interface,
    *,
    size: int | None = None,
    sport: int = 10_000,
    dport: int = 9999,
    payload: bytes | None = None,
    ttl: int = 64,
) -> Frame:
    """A UDP datagram over IPv4: 64 bytes, or ``size``, or as long as ``payload`` makes it; zeros fill it up."""
    header = scapy().UDP(
        sport=check_port("sport", sport, _TRIED, low=0), dport=check_port("dport", dport, _TRIED, low=0)
    )
    return _ipv4(way(source, destination, _TRIED), header, payload, _or_64(size, payload), ttl)


def tcp(
    source: Host | Interface,
    destination: Host | Interface,
    *,
    size: int | None = None,
    sport: int = 10_000,
    dport: int = 80,
    flags: str = "S",
    seq: int = 1,
    ack: int = 0,
    window: int = 64_240,
    options: Sequence[tuple[str, Any]] = (),
    payload: bytes | None = None,
    ttl: int = 64,
) -> Frame:
    """A TCP segment over IPv4, as long as its headers and ``payload`` make it (54 bytes at least) or ``size``.

    ``flags`` are letters of FSRPAUEC; ``options`` are scapy's, as ``("MSS", 1460)``.
    """
    if not isinstance(flags, str) or set(flags) - set(_TCP_FLAGS):
        raise TrafficError(f"flags can't be {flags!r}.", tried=_TRIED, remedy='use letters of "FSRPAUEC", as "SA"')
    header = scapy().TCP(
        sport=check_port("sport", sport, _TRIED, low=0),
        dport=check_port("dport", dport, _TRIED, low=0),
        seq=check_whole("seq", seq, 0, 0xFFFFFFFF, _TRIED),
        ack=check_whole("ack", ack, 0, 0xFFFFFFFF, _TRIED),
        window=check_whole("window", window, 0, 65535, _TRIED),
        flags=flags,
        options=list(options),
    )
    return _ipv4(way(source, destination, _TRIED), header, payload, size, ttl)


def icmp(
    source: Host | Interface,
    destination: Host | Interface,
    *,
    size: int | None = None,
    kind: str = "request",
    identifier: int = 1,
    sequence: int = 1,
    payload: bytes | None = None,
    ttl: int = 64,
) -> Frame:
    """An ICMP echo ``"request"`` or ``"reply"`` over IPv4: 64 bytes, or ``size``, or as ``payload`` makes it."""
    header = scapy().ICMP(
        type=_choice("kind", kind, _ICMP_TYPES),
        id=check_whole("identifier", identifier, 0, 65535, _TRIED),
        seq=check_whole("sequence", sequence, 0, 65535, _TRIED),
    )
    return _ipv4(way(source, destination, _TRIED), header, payload, _or_64(size, payload), ttl)


def arp(
    source: Host | Interface, destination: Host | Interface, *, size: int | None = None, kind: str = "request"
) -> Frame:
    """An ARP ``"request"`` (to everybody on the link) or ``"reply"``: 42 bytes, or ``size`` with padding behind.

    It speaks of the next hop where the destination isn't on the link, as a host's own would.
    """
    taken = way(source, destination, _TRIED)
    operation = _choice("kind", kind, _ARP_OPERATIONS)
    asking = kind == "request"
    message = scapy().ARP(
        op=operation,
        hwsrc=taken.out.mac,
        psrc=taken.out.ip,
        hwdst="00:00:00:00:00:00" if asking else taken.next_hop.mac,
        pdst=taken.next_hop.ip,
    )
    built = bytes(_ethernet(taken, _BROADCAST if asking else None) / message)
    if size is not None:
        check_whole("size", size, _ARP_BYTES, _IPV4_MOST, _TRIED)
    return Frame(built.ljust(size or 0, b"\0"))


def udp6(
    source: Host | Interface,
    destination: Host | Interface,
    *,
    size: int | None = None,
    sport: int = 10_000,
    dport: int = 9999,
    payload: bytes | None = None,
    hop_limit: int = 64,
) -> Frame:
    """A UDP datagram over IPv6 between the addresses of ``ipv6_address``: 64 bytes, ``size`` or as ``payload`` makes it.

    The lab's own hosts have IPv6 off: a program sees such a frame, no socket there takes it.
    """
    taken = way(source, destination, _TRIED)
    check_whole("hop_limit", hop_limit, 0, 255, _TRIED)
    header = scapy().IPv6(src=ipv6_address(taken.out), dst=ipv6_address(taken.target), hlim=hop_limit) / scapy().UDP(
        sport=check_port("sport", sport, _TRIED, low=0), dport=check_port("dport", dport, _TRIED, low=0)
    )
    return _filled(_ethernet(taken) / header, payload, _or_64(size, payload), _IPV6_MOST)


def ipv6_address(interface: Interface) -> str:
    """The address ``udp6`` uses for an interface: its IPv4 address in the local range, as fd00::a00:101 for 10.0.1.1."""
    return str(ipaddress.IPv6Address((0xFD << 120) | int(ipaddress.IPv4Address(interface.ip))))  # RFC 4193


def vlan(frame: bytes, id: int, *, priority: int = 0) -> Frame:
    """``frame`` with an 802.1Q tag, four bytes longer; ``id`` 0 to 4094, ``priority`` 0 to 7. Tags may be stacked."""
    check_whole("id", id, 0, 4094, _TRIED)
    check_whole("priority", priority, 0, 7, _TRIED)
    if len(frame) < ETHERNET_HEADER:
        raise TrafficError(f"{len(frame)} bytes are no Ethernet frame.", tried="to add a VLAN tag")
    tag = _ETH_P_8021Q + (priority << 13 | id).to_bytes(2, "big")
    return Frame(frame[:12] + tag + frame[12:])


def fragments(frame: bytes, mtu: int) -> list[Frame]:
    """``frame`` cut into IPv4 fragments that fit an MTU of ``mtu`` bytes; one frame where it fits as it is."""
    check_whole("mtu", mtu, 68, 65535, _TRIED)  # RFC 791: every module must be able to forward 68 bytes
    tried = "to cut a frame into fragments"
    if frame[12:14] != _ETH_P_IP:
        raise TrafficError(
            "Only IPv4 can be cut into fragments.", tried=tried, remedy="give a frame of udp, tcp or icmp"
        )
    if len(frame) - ETHERNET_HEADER <= mtu:
        return [Frame(frame)]
    packet = scapy().Ether(bytes(frame))
    if packet["IP"].flags.DF:
        raise TrafficError("The frame says that it must not be cut (DF).", tried=tried, remedy="build one without DF")
    room = (mtu - packet["IP"].ihl * 4) // 8 * 8
    return [Frame(bytes(part)) for part in scapy().fragment(packet, room)]


def _ethernet(taken: Way, destination: str | None = None) -> Any:
    return scapy().Ether(src=taken.out.mac, dst=destination or taken.next_hop.mac)


def _ipv4(taken: Way, header: Any, payload: bytes | None, size: int | None, ttl: int) -> Frame:
    check_whole("ttl", ttl, 0, 255, _TRIED)
    packet = scapy().IP(src=taken.out.ip, dst=taken.target.ip, ttl=ttl) / header
    return _filled(_ethernet(taken) / packet, payload, size, _IPV4_MOST)


def _or_64(size: int | None, payload: bytes | None) -> int | None:
    """The usual size, unless the caller gave one or a payload."""
    return 64 if size is None and payload is None else size


def _filled(headers: Any, payload: bytes | None, size: int | None, most: int) -> Frame:
    """The frame, its payload filled up with zeros to ``size`` so that every length field counts them."""
    if payload is not None and not isinstance(payload, bytes):
        raise TrafficError(f"payload can't be {payload!r}.", tried=_TRIED, remedy='give bytes, as b"hello"')
    content, start = payload or b"", len(headers)
    least, largest = start + len(content), ETHERNET_HEADER + most
    if size is None:
        size = least
        if size > largest:
            raise TrafficError(
                f"A payload of {len(content):,} bytes doesn't fit one packet.",
                tried=_TRIED,
                remedy=f"give at most {largest - start:,} bytes",
            )
    check_whole("size", size, least, largest, _TRIED)
    return Frame(bytes(headers / scapy().Raw(content.ljust(size - start, b"\0"))))


def _choice(name: str, value: Any, known: dict[str, int]) -> int:
    if not isinstance(value, str) or value not in known:
        raise TrafficError(f"{name} can't be {value!r}.", tried=_TRIED, remedy="use one of " + ", ".join(known))
    return known[value]
