"""The generator where the kernel has no live frames: packets of the stack, counted as exactly."""

from __future__ import annotations

import errno
from collections.abc import Iterator

import pytest
from patience import until
from scapy.layers.l2 import Ether

import labkit as lk
from labkit.compile.source import lesson_directory
from labkit.errors import TrafficError
from labkit.kernel import features
from labkit.kernel.features import Feature
from labkit.traffic.stack_sender import NOTE, StackSender, from_port

N = 10_007
FLOWS = 7


@pytest.fixture(autouse=True)
def no_live_frames(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(features, "live_frames", lambda: Feature(False, "withheld by the test", errno.EPERM))


@pytest.fixture
def lab() -> Iterator[lk.Lab]:
    with lk.Lab(lk.Topology.pair(), name="by-stack") as lab:
        yield lab


@pytest.mark.parametrize("mode", ["native", "generic"])
@pytest.mark.parametrize("threads", [1, 2])
def test_every_packet_is_found(lab: lk.Lab, mode: str, threads: int) -> None:
    client, server = lab["client"], lab["server"]
    program = lab.load(lk.compile(path=lesson_directory() / "drop_all.c"))
    program.attach(server["eth0"], mode=mode)
    lab.reset()
    report = lk.generate(client["eth0"], lk.udp(client, server), packets=N, threads=threads)
    ledger = lab.ledger()
    assert (report.sent, report.failed, ledger.sent, ledger.unaccounted) == (N, 0, N, 0)
    assert sum(ledger.losses.values()) == N
    verdicts = program.verdicts()
    assert verdicts is not None
    assert verdicts["XDP_DROP"] == ledger.losses["XDP_DROP"]
    assert [event.text for event in lab.events].count(NOTE) == 1


def test_source_ports_go_round(lab: lk.Lab) -> None:
    client, server = lab["client"], lab["server"]
    with lk.UdpSink(server) as sink:
        lk.generate(client["eth0"], lk.udp(client, server), packets=N - 1, flows=FLOWS, rate_pps=50_000)
        sink.wait(N - 1)
    assert lab.ledger().unaccounted == 0
    with lk.Capture(server["eth0"]) as capture:
        lk.generate(client["eth0"], lk.udp(client, server), packets=3 * FLOWS, flows=FLOWS)
        capture.wait(3 * FLOWS)
        ports = [Ether(bytes(frame))["UDP"].sport for frame in capture.frames if Ether(bytes(frame)).haslayer("UDP")]
    assert ports == [10_000 + number for number in range(FLOWS)] * 3


@pytest.mark.parametrize("make", [lk.udp, lk.tcp])
def test_checksums_follow_the_port(lab: lk.Lab, make: object) -> None:
    frame = make(lab["client"], lab["server"])  # type: ignore[operator]
    changed = Ether(from_port(bytes(frame), 4_711))
    layer = changed.lastlayer() if changed.lastlayer().name in ("UDP", "TCP") else changed["IP"].payload
    assert layer.sport == 4_711
    found = layer.chksum
    del layer.chksum
    assert Ether(bytes(changed))["IP"].payload.chksum == found


@pytest.mark.parametrize("frame", [b"", bytes(14), bytes(60), b"\xff" * 64])
def test_other_frames_stay_as_they_are(frame: bytes) -> None:
    assert from_port(frame, 4_711) == frame


def test_an_interface_that_goes_down_is_named(lab: lk.Lab) -> None:
    client, server = lab["client"], lab["server"]
    sender = StackSender(client["eth0"], bytes(lk.udp(client, server)), 1)
    try:
        assert client.run(sender.send, N) == (N, 0)
        client["eth0"].set_down()
        assert client.run(sender.send, N) == (0, errno.ENETDOWN)
    finally:
        sender.close()
        sender.close()


def test_a_frame_too_long_is_refused_in_words(lab: lk.Lab) -> None:
    client, server = lab["client"], lab["server"]
    with pytest.raises(TrafficError, match="1515 bytes does not fit client eth0, MTU 1500"):
        lk.generate(client["eth0"], lk.udp(client, server), 7, size=1515)
    assert lk.generate(client["eth0"], lk.udp(client, server), 7, size=1514).sent == 7
    plain = bytes(lk.udp(client, server))
    tagged = plain[:12] + b"\x81\x00\x00\x07" + plain[12:]  # IEEE 802.1Q, VLAN 7
    assert lk.generate(client["eth0"], tagged, 7, size=1518).sent == 7
    assert lab.ledger().unaccounted == 0


@pytest.mark.parametrize("threads", [1, 2])
def test_a_peer_that_goes_down_in_the_midst_is_named(lab: lk.Lab, threads: int) -> None:
    generator = lk.Generator(lab["client"]["eth0"], lk.udp(lab["client"], lab["server"]), seconds=20, threads=threads)
    generator.start()
    until(lambda: lab.ledger(0.01).sent >= N)
    lab["server"]["eth0"].set_down()
    until(lambda: "ring full or peer down" in lab.ledger(0.01).losses)
    report = generator.stop()
    ledger = lab.ledger()
    assert [row.packets for row in ledger.rows if row.where == "client eth0" and row.kind == "sent"] == [report.sent]
    if threads == 1:
        assert ledger.unaccounted == 0, ledger
    else:  # as the carrier goes, frames of two senders get lost that neither a counter nor kfree_skb knows: they are shown
        drivers = lab["client"]["eth0"].statistics()
        assert ledger.unaccounted == report.sent - drivers["tx_packets"] - drivers["tx_dropped"]


def test_metadata_is_refused_in_words(lab: lk.Lab) -> None:
    client, server = lab["client"], lab["server"]
    with pytest.raises(TrafficError, match="Metadata can't go before a packet of the stack"):
        lk.generate(client["eth0"], lk.udp(client, server), packets=7, metadata=bytes(4))
