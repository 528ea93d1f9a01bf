"""The in-kernel generator: exact counts, flows, limits, and what it refuses."""

from __future__ import annotations

import threading
import time

import pytest

import labkit as lk
from labkit.traffic.generator import LARGEST_FRAME, SMALLEST_FRAME


def udp(lab: lk.Lab, **how: int) -> bytes:
    return lk.udp(lab["client"], lab["server"], **how)


@pytest.mark.parametrize("packets", [1, 2, 63, 64, 65, 127, 1009, 4099, 65_537])
@pytest.mark.parametrize("batch", [1, 64, 256])
def test_exactly_as_many_as_asked(lab: lk.Lab, packets: int, batch: int) -> None:
    server = lab["server"]["eth0"]
    report = lk.generate(lab["client"]["eth0"], udp(lab), packets, batch=batch)
    assert (report.sent, report.failed) == (packets, 0)
    ledger = lab.ledger()
    full = ledger.losses.get("ring full", 0)  # a batch of 256 is as much as the ring holds
    assert ledger.losses["NO_SOCKET"] == server.statistics()["rx_packets"] == packets - full, str(ledger)
    assert full == 0 or batch == 256
    assert ledger.unaccounted == 0


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("flows", [1, 17])
def test_flows_keep_their_checksums(lab: lk.Lab, threads: int, flows: int) -> None:
    packets = 5003
    with lk.UdpSink(lab["server"]) as sink:
        lk.generate(lab["client"]["eth0"], udp(lab), packets, threads=threads, flows=flows, rate_pps=100_000)
        ledger = lab.ledger()
        assert sink.received + ledger.losses.get("SOCKET_RCVBUFF", 0) + ledger.losses.get("ring full", 0) == packets
    assert "UDP_CSUM" not in ledger.losses
    assert ledger.unaccounted == 0


@pytest.mark.parametrize("size", [SMALLEST_FRAME, 60, 1514, LARGEST_FRAME])
def test_sizes(lab: lk.Lab, verdicts: lk.ProgramSpec, size: int) -> None:
    for end in ("client", "server"):
        lab[end]["eth0"].set_mtu(LARGEST_FRAME - 14)
    lab.load(verdicts, "drop").attach(lab["server"]["eth0"])
    report = lk.generate(lab["client"]["eth0"], udp(lab), 1009, size=size)
    assert report.frame_bytes == size
    ledger = lab.ledger()
    assert ledger.losses == {"XDP_DROP": 1009}
    assert lab["server"]["eth0"].driver_statistics()["rx_queue_0_xdp_bytes"] == 1009 * size


def test_the_rate_is_kept(lab: lk.Lab) -> None:
    report = lk.generate(lab["client"]["eth0"], udp(lab), 20_011, rate_pps=40_000)
    assert report.sent == 20_011
    assert report.pps < 50_000  # never faster than asked; how much slower is the machine's affair


def test_a_generator_in_the_background_stops_when_told(lab: lk.Lab) -> None:
    generator = lk.Generator(lab["client"]["eth0"], udp(lab), seconds=30).start()
    while generator.report.sent == 0:
        time.sleep(0.001)
    with pytest.raises(lk.TrafficError, match="already"):
        generator.start()
    report = generator.stop()
    assert generator.stop() == report
    assert not generator.running
    assert lab["client"]["eth0"].statistics()["tx_packets"] == report.sent


def test_closing_the_lab_stops_its_generators(lab: lk.Lab) -> None:
    generator = lk.Generator(lab["client"]["eth0"], udp(lab), seconds=30).start()
    lab.close()
    assert not generator.running
    assert not [t for t in threading.enumerate() if t.name.startswith("lab-")]


def test_a_generator_ends_by_itself(lab: lk.Lab) -> None:
    report = lk.Generator(lab["client"]["eth0"], udp(lab), seconds=0.5).start().wait()
    assert report.sent > 0
    assert lab.traffic.running == []


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ({"packets": -1}, "packets can't be -1"),
        ({"packets": 0}, "packets can't be 0"),
        ({"packets": 2.5}, "packets can't be 2.5"),
        ({"packets": True}, "packets can't be True"),
        ({"rate_pps": 0}, "rate_pps can't be 0"),
        ({"rate_pps": -5}, "rate_pps can't be -5"),
        ({"threads": 0}, "threads can't be 0"),
        ({"threads": 17}, "threads can't be 17"),
        ({"flows": 0}, "flows can't be 0"),
        ({"batch": 257}, "batch can't be 257"),
        ({"size": 13}, "14 to"),
        ({"size": 4000}, "14 to"),
        ({"size": "big"}, "no frame size"),
        ({"size": True}, "no frame size"),
        ({"size": -1}, "14 to"),
    ],
)
def test_what_makes_no_sense_is_refused(lab: lk.Lab, how: dict[str, object], said: str) -> None:
    with pytest.raises(lk.TrafficError, match=said):
        lk.generate(lab["client"]["eth0"], udp(lab), **{"packets": 7, **how})  # type: ignore[arg-type]
    assert lab.ledger().sent == 0


@pytest.mark.parametrize("frame", [None, 64, "abc", [1, 2, 3]])
def test_what_is_no_frame_is_refused(lab: lk.Lab, frame: object) -> None:
    with pytest.raises(lk.TrafficError, match="not a frame"):
        lk.generate(lab["client"]["eth0"], frame, 7)  # type: ignore[arg-type]


def test_not_an_interface(lab: lk.Lab) -> None:
    with pytest.raises(lk.TrafficError, match="not an interface"):
        lk.generate(lab["client"], udp(lab), 7)  # type: ignore[arg-type]
