"""Frames that test a program's care: options, fragments, cut-off headers, and look-alikes of UDP to port 9999."""

from __future__ import annotations

from typing import Any

from labkit.traffic.frames import vlan
from labkit.traffic.quiet_scapy import scapy

__all__ = ["arp", "ipv4", "ipv6_look_alike", "later_fragment", "nops", "tagged", "tcp", "udp"]

# The ends of Topology.pair(): these frames are built before there is a lab.
CLIENT_MAC, SERVER_MAC = "02:00:00:00:01:01", "02:00:00:00:01:02"
CLIENT, SERVER = "10.0.1.1", "10.0.1.2"
_PORT_9999 = b"\x27\x0f"


def _ethernet(destination: str = SERVER_MAC) -> Any:
    return scapy().Ether(src=CLIENT_MAC, dst=destination)


def ipv4(payload: Any, **fields: Any) -> bytes:
    """An IPv4 packet from client to server; ``fields`` are scapy's, as ``ttl=1``."""
    return bytes(_ethernet() / scapy().IP(**{"src": CLIENT, "dst": SERVER, "ttl": 64, **fields}) / payload)


def udp(dport: int = 9999, sport: int = 4321, payload: int = 22, **fields: Any) -> bytes:
    """UDP with ``payload`` zeros: 64 bytes by default."""
    return ipv4(scapy().UDP(sport=sport, dport=dport) / scapy().Raw(bytes(payload)), **fields)


def tcp(dport: int) -> bytes:
    """A TCP SYN, 60 bytes."""
    return ipv4(scapy().TCP(dport=dport) / scapy().Raw(bytes(6)))


def ping() -> bytes:
    """An ICMP echo request, 60 bytes."""
    return ipv4(scapy().ICMP() / scapy().Raw(bytes(18)))


def arp() -> bytes:
    """Who has the server's address? 42 bytes, to everybody."""
    asking = scapy().ARP(hwsrc=CLIENT_MAC, psrc=CLIENT, pdst=SERVER)
    return bytes(_ethernet("ff:ff:ff:ff:ff:ff") / asking)


def nops() -> list[Any]:
    """Four bytes of IPv4 options that mean nothing."""
    scapy()
    from scapy.layers.inet import IPOption_NOP

    return [IPOption_NOP()] * 4


def options_look_alike() -> bytes:
    """UDP to port 53, whose IPv4 options hold 9999 where a header without options has the destination port."""
    scapy()
    from scapy.layers.inet import IPOption

    return udp(dport=53, options=[IPOption(b"\x01\x01" + _PORT_9999 + bytes(4))])


def later_fragment() -> bytes:
    """The rest of a datagram: its payload holds 9999 where the first fragment has the destination port."""
    return ipv4(scapy().Raw(b"\x10\xe1" + _PORT_9999 + bytes(26)), proto=17, frag=185)


def ipv6_look_alike() -> bytes:
    """IPv6 with IPv4's header length (5), no fragment offset, protocol 17 and port 9999 at IPv4's places."""
    header = scapy().IPv6(src="fd00::1", dst="::1", tc=0x50, nh=0, hlim=0)
    frame = bytes(_ethernet() / header / scapy().Raw(bytes(24)))
    return frame[:23] + b"\x11" + frame[24:36] + _PORT_9999 + frame[38:]


def ipv6_low() -> bytes:
    """IPv6 whose source address begins with 1, at the place of IPv4's TTL."""
    return bytes(_ethernet() / scapy().IPv6(src="100::1", dst="::1") / scapy().Raw(bytes(20)))


def tagged() -> bytes:
    """UDP to port 9999 in VLAN 10."""
    return bytes(vlan(udp(), 10))
