"""Frames: addresses, sizes, checksums, and the errors. No kernel, no privilege: hosts that exist on paper."""

from __future__ import annotations

import copy
import pickle
import struct
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labkit.errors import TrafficError
from labkit.host import Host
from labkit.interface import Interface
from labkit.topology import Topology
from labkit.traffic import frames
from labkit.traffic.frame import Frame
from labkit.traffic.quiet_scapy import scapy


def on_paper(topology: Topology) -> dict[str, Host]:
    """Hosts and interfaces as a lab has them, without the kernel's part."""
    lab: Any = SimpleNamespace(topology=topology, name="paper")
    hosts: dict[str, Host] = {}
    for name in topology.hosts:
        host = Host.__new__(Host)
        host.lab, host.name = lab, name
        interfaces = {}
        for end in topology.ends_of(name):
            interface = Interface.__new__(Interface)
            interface.host, interface.end, interface.name = host, end, end.interface
            interfaces[end.interface] = interface
        host.interfaces = interfaces
        hosts[name] = host
    for link in topology.links:
        a, b = (hosts[end.host][end.interface] for end in link.ends)
        a._peer, b._peer = b, a
    return hosts


@pytest.fixture
def pair() -> dict[str, Host]:
    return on_paper(Topology.pair())


def ones_complement(data: bytes) -> int:
    """RFC 1071: 0xFFFF over anything that holds its own right checksum."""
    total = sum(struct.unpack(f"!{(len(data) + 1) // 2}H", data + b"\0" * (len(data) % 2)))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total


def transport_sum(frame: bytes) -> int:
    """The sum over the pseudo header and the transport part of an IPv4 frame without options."""
    ip, rest = frame[14:34], frame[34:]
    return ones_complement(ip[12:20] + bytes([0, ip[9]]) + struct.pack("!H", len(rest)) + rest)


def test_udp_is_addressed_to_the_other_end_of_the_link(pair: dict[str, Host]) -> None:
    frame = frames.udp(pair["client"], pair["server"], sport=1234, dport=9999)
    assert len(frame) == 64
    assert frame[:6].hex(":") == pair["server"]["eth0"].mac
    assert frame[6:12].hex(":") == pair["client"]["eth0"].mac
    assert frame[12:14] == b"\x08\x00"
    assert frame[26:34] == bytes([10, 0, 1, 1, 10, 0, 1, 2])
    assert struct.unpack_from("!HHH", frame, 34) == (1234, 9999, 64 - 34)
    assert struct.unpack_from("!H", frame, 16)[0] == 64 - 14


@pytest.mark.parametrize("size", [42, 43, 60, 61, 64, 1514, 9014, 65549])
def test_sizes_count_the_whole_frame_and_checksums_are_complete(pair: dict[str, Host], size: int) -> None:
    frame = frames.udp(pair["client"], pair["server"], size=size)
    assert len(frame) == size
    assert ones_complement(frame[14:34]) == 0xFFFF
    assert transport_sum(frame) == 0xFFFF


@pytest.mark.parametrize("odd", [b"", b"x", b"hello"])
def test_a_payload_makes_the_frame_as_long_as_it_needs(pair: dict[str, Host], odd: bytes) -> None:
    frame = frames.udp(pair["client"], pair["server"], payload=odd)
    assert len(frame) == 42 + len(odd)
    assert frame[42:] == odd
    assert transport_sum(frame) == 0xFFFF
    padded = frames.udp(pair["client"], pair["server"], payload=odd, size=100)
    assert padded[42:] == odd.ljust(58, b"\0")


def test_tcp_has_flags_numbers_and_options(pair: dict[str, Host]) -> None:
    frame = frames.tcp(pair["client"], pair["server"], flags="SA", seq=7, ack=9, options=[("MSS", 1460)])
    assert len(frame) == 58
    sport, dport, seq, ack, offset, flags = struct.unpack_from("!HHIIBB", frame, 34)
    assert (sport, dport, seq, ack, offset >> 4, flags) == (10_000, 80, 7, 9, 6, 0x12)
    assert frame[54:58] == bytes([2, 4, 1460 >> 8, 1460 & 255])
    assert transport_sum(frame) == 0xFFFF


def test_icmp_requests_and_replies(pair: dict[str, Host]) -> None:
    request = frames.icmp(pair["client"], pair["server"], identifier=5, sequence=6)
    reply = frames.icmp(pair["server"], pair["client"], kind="reply")
    assert len(request) == len(reply) == 64
    assert struct.unpack_from("!BB2xHH", request, 34) == (8, 0, 5, 6)
    assert reply[34] == 0
    assert ones_complement(request[34:]) == 0xFFFF


def test_arp_asks_everybody_and_answers_one(pair: dict[str, Host]) -> None:
    request = frames.arp(pair["client"], pair["server"])
    reply = frames.arp(pair["server"], pair["client"], kind="reply", size=60)
    assert (len(request), len(reply)) == (42, 60)
    assert request[:6] == b"\xff" * 6
    assert reply[:6].hex(":") == pair["client"]["eth0"].mac
    assert (request[21], reply[21]) == (1, 2)
    assert request[38:42] == bytes([10, 0, 1, 2])


def test_udp6_speaks_between_local_addresses(pair: dict[str, Host]) -> None:
    frame = frames.udp6(pair["client"], pair["server"], size=62)
    assert len(frame) == 62
    assert frame[12:14] == b"\x86\xdd"
    assert frames.ipv6_address(pair["client"]["eth0"]) == "fd00::a00:101"
    assert struct.unpack_from("!H", frame, 18)[0] == 8
    pseudo = frame[22:54] + struct.pack("!II", 8, 17)
    assert ones_complement(pseudo + frame[54:]) == 0xFFFF


def test_a_vlan_tag_makes_four_bytes_more(pair: dict[str, Host]) -> None:
    plain = frames.udp(pair["client"], pair["server"])
    tagged = frames.vlan(plain, 10, priority=3)
    assert tagged == plain[:12] + bytes([0x81, 0x00, 0x60, 0x0A]) + plain[12:]
    assert frames.vlan(tagged, 20)[12:20] == bytes([0x81, 0, 0, 20, 0x81, 0, 0x60, 0x0A])


@pytest.mark.parametrize(
    ("size", "mtu"), [(3000, 1500), (3000, 1499), (65549, 576), (1514, 1500), (83, 68), (2987, 1500)]
)
def test_fragments_join_into_what_was_cut(pair: dict[str, Host], size: int, mtu: int) -> None:
    payload = bytes(index * 7 % 251 for index in range(size - 42))
    whole = frames.udp(pair["client"], pair["server"], payload=payload)
    parts = frames.fragments(whole, mtu)
    room = (mtu - 20) // 8 * 8
    assert len(parts) == (1 if size - 14 <= mtu else -(-(size - 34) // room))
    assert all(len(part) <= mtu + 14 and ones_complement(part[14:34]) == 0xFFFF for part in parts)
    joined = bytearray(size - 34)
    for part in parts:
        field = struct.unpack_from("!H", part, 20)[0]
        at, more = (field & 0x1FFF) * 8, bool(field & 0x2000)
        assert more == (part is not parts[-1])
        joined[at : at + len(part) - 34] = part[34:]
    assert bytes(joined) == whole[34:]


def test_the_way_follows_links_then_routes() -> None:
    hosts = on_paper(Topology.chain(4))
    h1, h2, h3, h4 = hosts.values()
    right = frames.udp(h2, h4)
    assert right[6:12].hex(":") == h2["eth1"].mac, "it leaves to the right, by the route"
    assert right[:6].hex(":") == h3["eth0"].mac, "the next hop's MAC, not the destination's"
    assert right[26:34] == bytes([10, 0, 2, 1, 10, 0, 3, 2])
    left = frames.udp(h2, h1)
    assert (left[:6].hex(":"), left[6:12].hex(":")) == (h1["eth0"].mac, h2["eth0"].mac)
    there = frames.udp(h1, h3["eth1"])
    assert there[30:34] == bytes([10, 0, 3, 1]), "an interface as destination gives its own address"
    assert frames.arp(h1, h4)[38:42] == bytes([10, 0, 1, 2]), "ARP asks for the next hop"


def test_the_way_in_a_fan_goes_through_the_shared_link() -> None:
    hosts = on_paper(Topology.fanout(3))
    for number in (1, 2, 3):
        server = hosts[f"server{number}"]
        frame = frames.udp(hosts["client"], server)
        assert frame[:6].hex(":") == server["eth0"].mac
        assert frame[6:12].hex(":") == hosts["client"][f"eth{number - 1}"].mac
        assert frames.udp(server, hosts["client"])[30:34] == bytes([10, 0, number, 1])


def test_a_frame_says_what_it_is(pair: dict[str, Host]) -> None:
    frame = frames.vlan(frames.udp(pair["client"], pair["server"], payload=b"hello"), 7)
    assert frame.summary() == "Ether / Dot1Q / IP / UDP 10.0.1.1:10000 > 10.0.1.2:9999 / Raw"
    assert repr(frame) == f"<frame, 51 bytes: {frame.summary()}>"
    assert str(frame).endswith("0030  6c 6c 6f                                          llo")
    assert "more bytes" in frames.udp(pair["client"], pair["server"], size=1500).hexdump()
    assert isinstance(frame, bytes)
    assert pickle.loads(pickle.dumps(frame)) == copy.copy(frame) == frame


def test_fields_know_their_place_in_the_frame(pair: dict[str, Host]) -> None:
    frame = frames.vlan(frames.udp(pair["client"], pair["server"], dport=9999), 7)
    found = {(field.layer, field.name): field for field in frame.fields()}
    assert (found["802.1Q", "vlan"].offset, found["802.1Q", "vlan"].length) == (14, 2)
    assert (found["IP", "frag"].offset, found["IP", "frag"].length) == (24, 2)
    port = found["UDP", "dport"]
    assert (port.value, port.offset, port.length) == ("9999", 40, 2)
    assert frame[port.offset : port.offset + port.length] == (9999).to_bytes(2, "big")
    source = found["IP", "src"]
    assert (source.value, frame[source.offset : source.offset + 4]) == ("10.0.1.1", bytes([10, 0, 1, 1]))


def test_strange_bytes_are_shown_too() -> None:
    for length in (0, 1, 13, 14, 15, 33, 34, 41):
        for kind in (b"\x08\x00", b"\x81\x00", b"\x86\xdd", b"\x08\x06", b"\x00\x26"):
            strange = Frame((bytes(12) + kind + b"\x45" + b"\xff" * 60)[:length])
            assert f"{length} bytes" in repr(strange)
            assert all(field.offset + field.length <= length for field in strange.fields())


@given(st.binary(min_size=0, max_size=120), st.sampled_from([b"\x08\x00\x45", b"\x81\x00", b"\x86\xdd\x60", b""]))
@settings(max_examples=200, deadline=None)
def test_any_bytes_have_a_summary_and_fields(rest: bytes, kind: bytes) -> None:
    frame = Frame(bytes(12) + kind + rest)
    assert frame.summary()
    assert isinstance(frame.fields(), list)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda c, s: frames.udp(c, s, size=41), "size can't be 41"),
        (lambda c, s: frames.udp(c, s, size=65550), "size can't be 65550"),
        (lambda c, s: frames.udp(c, s, size=-1), "size can't be -1"),
        (lambda c, s: frames.udp(c, s, size=True), "size can't be True"),
        (lambda c, s: frames.udp(c, s, size=64.0), "size can't be 64.0"),
        (lambda c, s: frames.udp(c, s, size=44, payload=b"hello"), "size can't be 44"),
        (lambda c, s: frames.udp(c, s, payload="hello"), "payload can't be 'hello'"),
        (lambda c, s: frames.udp(c, s, payload=bytes(65508)), "65,508 bytes doesn't fit"),
        (lambda c, s: frames.udp(c, s, dport=65536), "dport can't be 65536"),
        (lambda c, s: frames.udp(c, s, sport=-1), "sport can't be -1"),
        (lambda c, s: frames.udp(c, s, ttl=256), "ttl can't be 256"),
        (lambda c, s: frames.udp("client", s), "'client' can't be the source"),
        (lambda c, s: frames.udp(c, None), "None can't be the destination"),
        (lambda c, s: frames.udp(c, c), "both client"),
        (lambda c, s: frames.tcp(c, s, flags="X"), "flags can't be 'X'"),
        (lambda c, s: frames.tcp(c, s, size=53), "size can't be 53"),
        (lambda c, s: frames.icmp(c, s, kind="shout"), "kind can't be 'shout'"),
        (lambda c, s: frames.arp(c, s, size=41), "size can't be 41"),
        (lambda c, s: frames.udp6(c, s, size=61), "size can't be 61"),
        (lambda c, s: frames.vlan(frames.udp(c, s), 4095), "id can't be 4095"),
        (lambda c, s: frames.vlan(b"short", 1), "5 bytes are no Ethernet frame"),
        (lambda c, s: frames.fragments(frames.udp(c, s), 67), "mtu can't be 67"),
        (lambda c, s: frames.fragments(frames.arp(c, s), 1500), "Only IPv4"),
    ],
)
def test_what_no_frame_can_be_is_refused(pair: dict[str, Host], build: Any, message: str) -> None:
    with pytest.raises(TrafficError) as caught:
        build(pair["client"], pair["server"])
    assert message in str(caught.value)
    assert "tried:" in str(caught.value)


def test_hosts_of_two_labs_have_no_way(pair: dict[str, Host]) -> None:
    with pytest.raises(TrafficError, match="the lab paper"):
        frames.udp(pair["client"], on_paper(Topology.pair())["server"])


def test_a_host_without_links_is_refused() -> None:
    hosts = on_paper(Topology(("alone", "also")))
    with pytest.raises(TrafficError, match="alone has no interface"):
        frames.udp(hosts["alone"], hosts["also"])


def test_no_frame_asks_scapy_for_a_route(pair: dict[str, Host], monkeypatch: pytest.MonkeyPatch) -> None:
    """PY-08: scapy's routes are those of the namespace and the time of its import, wrong ones for a lab."""
    scapy()
    from scapy.config import conf

    def never(*_: object, **__: object) -> None:
        raise AssertionError("scapy was asked for a route")

    monkeypatch.setattr(conf.route, "route", never)
    monkeypatch.setattr(conf.route6, "route", never)
    client, server = pair["client"], pair["server"]
    for frame in (
        frames.udp(client, server),
        frames.tcp(client, server),
        frames.icmp(client, server),
        frames.arp(client, server),
        frames.arp(client, server, kind="reply"),
        frames.udp6(client, server),
        *frames.fragments(frames.udp(client, server, size=3000), 1500),
    ):
        assert frame.summary()
        assert frame.fields()


def in_a_process(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def test_scapy_comes_with_the_first_frame_and_quietly() -> None:
    said = in_a_process(
        "import sys\n"
        "from labkit.traffic import frames, capture, raw, replay, sink, tcp, udp, ping\n"
        "assert not [name for name in sys.modules if name.startswith('scapy')], 'scapy was imported'\n"
        "frames.Frame(bytes(64)).summary()\n"
        "from scapy.config import conf\n"
        "assert 'scapy.layers.inet' in sys.modules\n"
        "assert not conf.route.routes, 'scapy read the routes'\n"
        "assert conf.route_autoload and conf.route6_autoload\n"
    )
    assert said == ""
