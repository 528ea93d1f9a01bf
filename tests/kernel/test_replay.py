"""Replay: a capture of real protocols made in one lab, sent again in another, every packet found."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

import labkit as lk
from labkit.errors import CaptureError, StateError, TrafficError
from labkit.interface import Interface
from labkit.observe.protocols import read_protocols
from labkit.traffic import frames
from labkit.traffic.capture import Capture, CapturedFrame
from labkit.traffic.pcap import read_pcap, write_pcap
from labkit.traffic.ping import ping
from labkit.traffic.raw import send_frames
from labkit.traffic.replay import replay
from labkit.traffic.sink import UdpSink
from labkit.traffic.tcp import tcp_transfer
from labkit.traffic.udp import send_udp

ETHER_NAMES = {b"\x08\x00": "IPv4", b"\x08\x06": "ARP", b"\x81\x00": "VLAN", b"\x86\xdd": "IPv6"}
PROTOCOL_NAMES = {1: "ICMP", 6: "TCP", 17: "UDP"}


def conversation() -> list[CapturedFrame]:
    """What two hosts said: ARP, ICMP, TCP with options, UDP, VLAN, IPv6, fragments; both directions."""
    with lk.Lab(lk.Topology.pair(), name="conversation") as lab:
        client, server = lab["client"], lab["server"]
        near, far = client["eth0"], server["eth0"]
        with Capture(far, direction="both") as heard, UdpSink(server):
            send_frames(near, frames.arp(client, server))  # the server's kernel answers it
            assert ping(client, server, 3).received == 3
            assert ping(client, server, 1, size=3000).received == 1
            assert tcp_transfer(client, server, 20_011).intact
            send_udp(client, server, 5)
            send_frames(near, [frames.vlan(frames.udp(client, server), 10), frames.udp6(client, server)], 7)
            settle(heard)
            assert heard.drops == 0
        return heard.frames


def settle(heard: Capture) -> None:
    """Wait until nothing more comes."""
    count, until = -1, time.monotonic() + 2
    while count != len(heard.frames) and time.monotonic() < until:
        count = len(heard.frames)
        time.sleep(0.02)


def kinds(captured: list[CapturedFrame]) -> Counter[str]:
    found: Counter[str] = Counter()
    for frame in captured:
        name = ETHER_NAMES[frame[12:14]]
        if name == "IPv4":
            fragment = bool(int.from_bytes(frame[20:22], "big") & 0x3FFF)
            name = "fragment" if fragment else PROTOCOL_NAMES[frame[23]]
        found[name] += 1
    return found


@pytest.fixture(scope="module")
def heard() -> list[CapturedFrame]:
    return conversation()


@pytest.fixture
def file(heard: list[CapturedFrame], tmp_path: Path) -> Path:
    path = tmp_path / "conversation.pcap"
    write_pcap(path, heard)
    return path


@pytest.fixture
def near(lab: lk.Lab) -> Interface:
    return lab["client"]["eth0"]


@pytest.fixture
def far(lab: lk.Lab) -> Interface:
    return lab["server"]["eth0"]


def settled(read: Callable[[], int], value: int) -> int:
    """The counter, as soon as it is ``value``, after a second at the latest."""
    until = time.monotonic() + 1
    while read() != value and time.monotonic() < until:
        time.sleep(0.001)
    return read()


def test_the_capture_holds_real_protocols(heard: list[CapturedFrame]) -> None:
    found = kinds(heard)
    assert (found["ARP"], found["ICMP"], found["UDP"]) == (2, 6, 5)
    assert found["fragment"] == 6
    assert (found["VLAN"], found["IPv6"]) == (4, 3)
    assert found["TCP"] > 10
    assert {frame.outgoing for frame in heard} == {False, True}
    handshake = next(frame for frame in heard if frame[12:14] == b"\x08\x00" and frame[23] == 6)
    assert handshake[47] == 0x02, "a SYN"
    assert handshake[46] >> 4 == 10, "with 20 bytes of options"
    assert "MSS" in str({field.name: field.value for field in handshake.fields()}["options"])


def test_every_packet_of_the_file_is_sent_once_and_in_order(
    near: Interface, far: Interface, heard: list[CapturedFrame], file: Path
) -> None:
    before, protocols = far.statistics(), far.run(read_protocols)
    with Capture(far) as seen:
        report = replay(near, file)
        settle(seen)
    assert (report.kind, report.interface) == ("replay", "client eth0")
    assert (report.sent, report.failed) == (len(heard), 0)
    assert far.statistics()["rx_packets"] - before["rx_packets"] == len(heard)
    assert len(seen.frames) == len(heard)
    for got, was in zip(seen.frames, heard, strict=True):
        assert got[12:] == was[12:]
        assert got[6:12].hex(":") == near.mac
        assert got[:6].hex(":") == ("ff:ff:ff:ff:ff:ff" if was[0] & 1 else far.mac)
    after = far.run(read_protocols)
    of_ip = sum(frame[12:14] == b"\x08\x00" for frame in heard)
    assert after["IpInReceives"] - protocols["IpInReceives"] == of_ip


def test_a_replay_can_be_shorter_and_longer_than_the_file(near: Interface, far: Interface, file: Path) -> None:
    before = far.statistics()["rx_packets"]
    whole = len(list(read_pcap(file)))
    assert replay(near, file, packets=7).sent == 7
    assert replay(near, file, packets=2 * whole + 3).sent == 2 * whole + 3
    assert settled(lambda: far.statistics()["rx_packets"] - before, 2 * whole + 10) == 2 * whole + 10
    assert replay(near, str(file), packets=101, rate_pps=1000).seconds > 0.09


def test_macs_can_be_kept_and_then_nothing_is_taken_in(near: Interface, far: Interface, tmp_path: Path) -> None:
    """RD-05: foreign MACs arrive at the device and go no further."""
    foreign = bytes.fromhex("02aaaaaaaa01" + "02bbbbbbbb01") + frames.udp(near, far)[12:]
    path = tmp_path / "foreign.pcap"
    write_pcap(path, [foreign])
    before, protocols = far.statistics()["rx_packets"], far.run(read_protocols)["IpInReceives"]
    assert replay(near, path, packets=11, keep_macs=True).sent == 11
    assert settled(lambda: far.statistics()["rx_packets"] - before, 11) == 11
    assert far.run(read_protocols)["IpInReceives"] == protocols
    assert replay(near, path, packets=13).sent == 13
    assert settled(lambda: far.run(read_protocols)["IpInReceives"] - protocols, 13) == 13


def test_replayed_udp_reaches_a_socket(near: Interface, far: Interface, tmp_path: Path) -> None:
    path = tmp_path / "udp.pcap"
    write_pcap(path, [frames.udp(near, far, size=size) for size in (64, 1514, 42)])
    with UdpSink(far.host) as sink:
        assert replay(near, path, packets=1009).sent == 1009
        assert sink.wait(1009) == 1009


def test_what_can_not_be_sent_as_it_was_is_named(near: Interface, far: Interface, tmp_path: Path) -> None:
    path = tmp_path / "mixed.pcap"
    good = frames.udp(near, far)
    write_pcap(path, [good, frames.udp(near, far, size=1515), b"tiny", good])
    data = bytearray(path.read_bytes())
    data[24 + 12 : 24 + 16] = (1514).to_bytes(4, "little")  # the first packet was longer on the wire
    path.write_bytes(data)
    before = far.statistics()["rx_packets"]
    report = replay(near, path)
    assert (report.sent, report.failed) == (1, 3)
    assert report.failures == {
        "cut short when it was captured": 1,
        "longer than the MTU of client eth0, 1500 bytes": 1,
        "no Ethernet frame: shorter than its header": 1,
    }
    assert settled(lambda: far.statistics()["rx_packets"] - before, 1) == 1
    again = replay(near, path, packets=11)
    assert (again.sent, again.failed) == (2, 9)


def test_of_a_file_cut_short_nothing_is_sent_unless_asked(near: Interface, far: Interface, file: Path) -> None:
    whole = len(list(read_pcap(file)))
    file.write_bytes(file.read_bytes()[:-10])
    before = near.statistics()["tx_packets"]
    with pytest.raises(CaptureError) as caught:
        replay(near, file)
    text = str(caught.value)
    assert f"packet {whole}" in text
    assert f"The {whole - 1} before it are whole" in text
    with pytest.raises(CaptureError):
        replay(near, file, packets=whole)
    assert near.statistics()["tx_packets"] == before, "and nothing was sent"
    assert replay(near, file, packets=whole - 1).sent == whole - 1


def test_an_empty_or_foreign_file_is_refused(near: Interface, tmp_path: Path) -> None:
    path = tmp_path / "none.pcap"
    write_pcap(path, [])
    with pytest.raises(CaptureError, match="holds no packet"):
        replay(near, path)
    path.write_text("this is no capture")
    with pytest.raises(CaptureError, match="no capture file"):
        replay(near, path)
    with pytest.raises(CaptureError, match="ENOENT"):
        replay(near, tmp_path / "missing.pcap")


def test_a_file_too_large_to_hold_is_refused(near: Interface, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("labkit.traffic.replay._MOST_BYTES", 1000)
    path = tmp_path / "large.pcap"
    write_pcap(path, [bytes(64)] * 31)
    with pytest.raises(CaptureError, match=r"packets=15"):
        replay(near, path)
    assert replay(near, path, packets=15).sent == 15


def test_a_link_that_is_down_is_named(near: Interface, far: Interface, file: Path) -> None:
    far.set_down()
    report = replay(near, file, packets=11)
    assert (report.sent, report.failures) == (0, {"peer server eth0 is down": 11})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"packets": 0}, "packets can't be 0"),
        ({"packets": -3}, "packets can't be -3"),
        ({"packets": True}, "packets can't be True"),
        ({"rate_pps": 0}, "rate_pps can't be 0"),
        ({"timeout_s": 0}, "timeout_s can't be 0"),
    ],
)
def test_misuse_is_refused(near: Interface, file: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(TrafficError, match=message):
        replay(near, file, **options)
    with pytest.raises(TrafficError, match="is not an interface"):
        replay(near.host, file)  # type: ignore[arg-type]


def test_a_closed_lab_replays_nothing(file: Path) -> None:
    with lk.Lab(lk.Topology.pair(), name="closed") as lab:
        near = lab["client"]["eth0"]
    with pytest.raises(StateError, match="closed"):
        replay(near, file)


def test_scapy_and_this_reader_agree(file: Path, heard: list[CapturedFrame]) -> None:
    from scapy.utils import rdpcap

    assert [bytes(packet) for packet in rdpcap(str(file))] == [bytes(frame) for frame in heard]
    assert [packet.data for packet in islice(read_pcap(file), 3)] == heard[:3]
