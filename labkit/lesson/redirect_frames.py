"""Frames for the exercises on redirects: between the ends of a star, or through a router, and look-alikes."""

from __future__ import annotations

import socket
import sys
from typing import Any

from labkit.traffic.quiet_scapy import scapy

__all__ = ["address", "arp", "bare", "ipv6", "key", "mac", "overflowing", "tcp", "udp"]

_SIZE = 72  # bytes: the last eight are the trial's own
_EVERYBODY = "ff:ff:ff:ff:ff:ff"


def address(number: int) -> str:
    """Of the end on link ``number`` of a star, counted from 1."""
    return f"10.0.{number}.2"


def mac(number: int) -> str:
    """Of the same."""
    return f"02:00:00:00:{number:02x}:02"


def key(ip: str) -> int:
    """An address as a program finds it in a packet, read as a u32 of this machine."""
    return int.from_bytes(socket.inet_aton(ip), sys.byteorder)


def _padded(frame: Any, size: int = _SIZE) -> bytes:
    return bytes(frame).ljust(size, b"\0")


def _between(source: int, target: str, target_mac: str, **fields: Any) -> Any:
    header = scapy().IP(**{"src": address(source), "dst": target, **fields})
    return scapy().Ether(src=mac(source), dst=target_mac) / header


def udp(source: int, target: int | str, target_mac: str = "", *, size: int = _SIZE, **fields: Any) -> bytes:
    """UDP to port 9999 from end ``source``, to another end or any address; ``fields`` of IPv4 are scapy's."""
    ip = target if isinstance(target, str) else address(target)
    to = target_mac or (mac(target) if isinstance(target, int) else mac(source))
    payload = scapy().Raw(bytes(max(0, size - 14 - 20 - 8)))
    return bytes(_between(source, ip, to, **fields) / scapy().UDP(sport=4321, dport=9999, chksum=0) / payload)


def tcp(source: int, target: int, **fields: Any) -> bytes:
    """A TCP segment from end to end."""
    return _padded(_between(source, address(target), mac(target), **fields) / scapy().TCP(dport=80) / bytes(18))


def arp(source: int) -> bytes:
    """Who has an address that nobody has? To everybody, padded to 72 bytes."""
    asking = scapy().ARP(hwsrc=mac(source), psrc=address(source), pdst="10.9.9.9")
    return _padded(scapy().Ether(src=mac(source), dst=_EVERYBODY) / asking)


def ipv6(source: int, target: int) -> bytes:
    """IPv6 whose bytes are an IPv4 packet's to ``target`` where IPv4 has its header length and destination."""
    header = scapy().IPv6(src="fd00::1", dst="fd00::2", tc=0x50, nh=59)
    frame = bytes(scapy().Ether(src=mac(source), dst=mac(target)) / header / scapy().Raw(bytes(24)))
    return _padded(frame[:30] + socket.inet_aton(address(target)) + frame[34:])


def bare(source: int, target: int) -> bytes:
    """An Ethernet header and twelve bytes of IPv4: cut off before the destination."""
    return udp(source, target)[:26]


def overflowing(source: int, target: int | str, target_mac: str = "") -> bytes:
    """UDP whose IPv4 checksum is 0xff80: adding one to its high byte overflows."""
    frame = udp(source, target, target_mac, id=0)
    identification = (int.from_bytes(frame[24:26], "big") - 0xFF80) % 0xFFFF
    return udp(source, target, target_mac, id=identification)
