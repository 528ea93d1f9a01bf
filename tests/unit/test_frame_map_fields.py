"""What the bytes of a frame are called: parts that cover it, and fields with the kernel's names."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st
from scapy.layers.inet import ICMP, IP, TCP, UDP
from scapy.layers.l2 import ARP, Dot1Q, Ether
from scapy.packet import Raw

from labkit.lesson.frame_map_fields import fields_of, parts_of

ETHER = Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02")
ADDRESSES = {"src": "10.1.0.1", "dst": "10.1.0.2"}


def names(frame: object) -> list[tuple[str, int]]:
    return [(part.name, part.length) for part in parts_of(bytes(frame))]  # type: ignore[call-overload]


def test_the_usual_frames() -> None:
    udp = UDP(sport=1, dport=2) / Raw(bytes(7))
    assert names(ETHER / IP(**ADDRESSES) / udp) == [("Ethernet", 14), ("IPv4", 20), ("UDP", 8), ("payload", 7)]
    assert names(ETHER / Dot1Q(vlan=7) / Dot1Q(vlan=8) / IP(**ADDRESSES) / TCP(options=[("MSS", 1460)])) == [
        ("Ethernet", 14),
        ("VLAN tag", 4),
        ("VLAN tag", 4),
        ("IPv4", 20),
        ("TCP", 24),
    ]
    assert names(ETHER / IP(**ADDRESSES) / ICMP() / Raw(b"hello")) == [
        ("Ethernet", 14),
        ("IPv4", 20),
        ("ICMP", 8),
        ("payload", 5),
    ]
    assert names(ETHER / ARP()) == [("Ethernet", 14), ("ARP", 28)]


def test_fields_have_the_kernels_names_and_a_meaning() -> None:
    frame = bytes(ETHER / Dot1Q(vlan=7) / IP(ttl=63, **ADDRESSES) / TCP(sport=10_000, dport=80))
    found = {(field.part, field.name): field for field in fields_of(frame)}
    assert all(field.meaning for field in found.values())
    assert (found["Ethernet", "h_proto"].offset, found["Ethernet", "h_proto"].length) == (12, 2)
    assert found["IPv4", "daddr"].value == "10.1.0.2"
    assert (found["IPv4", "ttl"].offset, found["IPv4", "ttl"].value) == (26, "63")
    assert (found["TCP", "dest"].offset, found["TCP", "dest"].value) == (40, "80")
    assert (found["VLAN tag", "VLAN"].value, found["VLAN tag", "VLAN"].length) == ("7", 2)


@settings(deadline=None)
@given(st.binary(max_size=120), st.sampled_from([b"\x08\x00", b"\x81\x00", b"\x86\xdd", b"\x08\x06", b"\xaa\xbb"]))
def test_parts_cover_any_frame(rest: bytes, proto: bytes) -> None:
    frame = bytes(12) + proto + rest
    parts = parts_of(frame)
    assert parts[0].offset == 0
    assert all(a.end == b.offset for a, b in pairwise(parts))
    assert parts[-1].end == len(frame)
    assert all(field.offset >= 0 and field.offset + field.length <= len(frame) for field in fields_of(frame))
