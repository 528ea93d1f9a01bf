"""The ledger of AF_XDP: delivered to a program's memory, or lost by one of the kernel's names; native and generic alike."""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np
import pytest
from test_ledger_without_tracing import withheld

import labkit as lk
from labkit.xsk import Batch, Umem, XskSocket
from labkit.xsk.ring import DESCRIPTOR

N = 10_007  # prime
MANY = 1_000_003  # prime
FEWER = 100_003  # prime
FEW = 61  # prime
DEADLINE_S = 20.0
MODES = pytest.mark.parametrize("mode", ["native", "generic"])


@pytest.fixture(params=["tracing", "no tracing"])
def pair(request: pytest.FixtureRequest) -> Iterator[lk.Lab]:
    """client ── server, watched by probes or by counters alone."""
    if request.param == "tracing":
        with lk.Lab(lk.Topology.pair(), name="test") as made:
            yield made
    else:
        with withheld(), lk.Lab(lk.Topology.pair(), name="test") as made:
            yield made


def at_socket(lab: lk.Lab, mode: lk.Mode, xsk: XskSocket) -> lk.Program:
    program = lab.load(lk.compile(path="bpf/to_socket.c"))
    program.attach(lab["server"]["eth0"], mode=mode)
    program.maps["sockets"][0] = xsk
    return program


def generate(lab: lk.Lab, packets: int = N, **how: int) -> None:
    frame = lk.udp(lab["client"], lab["server"])
    assert lk.generate(lab["client"]["eth0"], frame, packets, **how).sent == packets


def exact(ledger: lk.Ledger) -> bool:
    return ledger.unaccounted == 0 and all(check.agrees for check in ledger.checks)


def read(xsk: XskSocket, packets: int) -> int:
    until, got = time.monotonic() + DEADLINE_S, 0
    while got < packets and time.monotonic() < until:
        got += xsk.drop()
        xsk.wait(0.01)
    return got


@MODES
def test_everything_received_and_read(pair: lk.Lab, mode: lk.Mode) -> None:
    with XskSocket(pair["server"]["eth0"], umem=Umem(16_384), receive_ring=16_384, fill_ring=16_384) as xsk:
        xsk.fill()
        at_socket(pair, mode, xsk)
        generate(pair)
        ledger = pair.ledger()
        assert (ledger.in_flight, ledger.delivered, ledger.losses) == (N, 0, {}), ledger
        assert read(xsk, N) == N
        ledger = pair.ledger()
        assert (ledger.in_flight, ledger.delivered, ledger.losses) == (0, N, {}), ledger
        assert exact(ledger), ledger
        assert [row.where for row in ledger.rows if row.kind == "delivered"] == ["server eth0 queue 0"]


@MODES
def test_the_receive_ring_is_full(pair: lk.Lab, mode: lk.Mode) -> None:
    with XskSocket(pair["server"]["eth0"], receive_ring=64) as xsk:
        at_socket(pair, mode, xsk)
        generate(pair)
        ledger = pair.ledger()
        assert (ledger.in_flight, ledger.losses) == (64, {"xsk rx_ring_full": N - 64}), ledger
        assert exact(ledger), ledger
        assert xsk.statistics().rx_ring_full == N - 64


@MODES
def test_the_fill_ring_is_empty(pair: lk.Lab, mode: lk.Mode) -> None:
    with XskSocket(pair["server"]["eth0"], filled=FEW) as xsk:
        at_socket(pair, mode, xsk)
        generate(pair)
        ledger = pair.ledger()
        assert (ledger.in_flight, ledger.losses) == (FEW, {"xsk rx_fill_ring_empty_descs": N - FEW}), ledger
        assert exact(ledger), ledger
        assert xsk.statistics().rx_dropped == xsk.statistics().rx_fill_ring_empty_descs == N - FEW


@MODES
def test_a_packet_too_long_for_a_frame(pair: lk.Lab, mode: lk.Mode) -> None:
    with XskSocket(pair["server"]["eth0"], umem=Umem(64, headroom=1024)) as xsk:
        at_socket(pair, mode, xsk)
        assert xsk.umem.room == 768
        generate(pair, FEW, size=769)
        generate(pair, 31, size=768)
        ledger = pair.ledger()
        assert (ledger.in_flight, ledger.losses) == (31, {"xsk rx_dropped": FEW}), ledger
        assert exact(ledger), ledger


@MODES
def test_no_socket_in_the_slot(pair: lk.Lab, mode: lk.Mode) -> None:
    with XskSocket(pair["server"]["eth0"]) as xsk:
        program = at_socket(pair, mode, xsk)
        generate(pair, FEW)
        del program.maps["sockets"][0]
        generate(pair, 31)
        ledger = pair.ledger()
        assert (ledger.in_flight, ledger.losses) == (FEW, {"NO_SOCKET": 31}), ledger
        assert exact(ledger), ledger


@MODES
def test_the_socket_of_another_queue(mode: lk.Mode) -> None:
    """The kernel takes it into any slot, and refuses each packet."""
    with lk.Lab(lk.Topology.pair(queues=2), name="test") as lab:
        first, second = (XskSocket(lab["server"]["eth0"], queue, umem=Umem(64)) for queue in (0, 1))
        at_socket(lab, mode, second).maps["sockets"][1] = first
        generate(lab, FEW)
        ledger = lab.ledger()
        assert ledger.losses == {"redirect EINVAL": FEW}, ledger
        assert exact(ledger), ledger


@MODES
def test_sent_to_the_peer(pair: lk.Lab, verdicts: lk.ProgramSpec, mode: lk.Mode) -> None:
    client, server = pair["client"], pair["server"]
    program = pair.load(verdicts, "drop")
    program.attach(server["eth0"], mode=mode)
    with XskSocket(client["eth0"], receive_ring=0) as xsk:
        assert xsk.send(lk.udp(client, server), N).sent == N
        ledger = pair.ledger()
        assert (ledger.sent, ledger.losses) == (N, {"XDP_DROP": N}), ledger
        assert exact(ledger), ledger
    counted = program.verdicts()
    assert counted is not None
    assert counted["XDP_DROP"] == N


@pytest.mark.parametrize("last", ["good", "bad"])
def test_invalid_descriptors(pair: lk.Lab, last: str) -> None:
    """The kernel takes them out and says nothing; here it takes one for each wake-up, and then goes no further."""
    client, server = pair["client"], pair["server"]
    with lk.UdpSink(server) as sink, XskSocket(client["eth0"], receive_ring=0, filled=0) as xsk:
        frame = lk.udp(client, server)
        descriptors = np.zeros(20, DESCRIPTOR)
        descriptors["address"] = xsk.umem.take(20)
        descriptors["length"] = len(frame)
        for address in descriptors["address"]:
            xsk.umem.view(address, len(frame))[:] = np.frombuffer(frame, np.uint8)
        wrong = slice(0, 7) if last == "good" else slice(13, 20)
        descriptors["length"][wrong] = 2049
        assert xsk.put(descriptors) == 20
        ledger = pair.ledger()
        assert (ledger.sent, ledger.in_flight) == (20, 20), ledger
        xsk.flush()
        assert sink.wait(13, DEADLINE_S) == 13
        ledger = pair.ledger()
        assert (ledger.sent, ledger.delivered, ledger.in_flight) == (20, 13, 0), ledger
        assert ledger.losses == {"xsk tx_invalid_descs": 7}
        assert exact(ledger), ledger
        assert xsk.statistics().tx_invalid_descs == 7
        assert sum(xsk.places().values()) == 2048
    assert exact(pair.ledger())
    assert pair.ledger().losses == {"xsk tx_invalid_descs": 7}


@MODES
def test_closed_with_packets_unread_and_unsent(pair: lk.Lab, mode: lk.Mode) -> None:
    with XskSocket(pair["server"]["eth0"]) as xsk:
        at_socket(pair, mode, xsk)
        generate(pair, FEW)
        assert read(xsk, FEW) == FEW
        generate(pair, 31)
        pair.ledger()
    with XskSocket(pair["client"]["eth0"]) as out:
        out.transmit(Batch(out.umem.take(7), np.full(7, 64, np.uint32)), wake=False)
    ledger = pair.ledger()
    assert (ledger.delivered, ledger.in_flight, ledger.losses) == (FEW, 0, {"SOCKET_CLOSE": 38}), ledger
    assert exact(ledger), ledger
    pair.reset()
    with XskSocket(pair["server"]["eth0"], filled=7):
        ledger = pair.ledger()
        assert (ledger.sent, ledger.delivered, ledger.losses) == (0, 0, {}), ledger


@MODES
def test_counts_from_zero_after_a_reset(lab: lk.Lab, mode: lk.Mode) -> None:
    with XskSocket(lab["server"]["eth0"], filled=FEW) as xsk:
        at_socket(lab, mode, xsk)
        generate(lab, FEW + 31)
        lab.reset()
        assert read(xsk, FEW) == FEW  # what was sent before the reset: the ledger has no sender for it
        ledger = lab.ledger()
        assert (ledger.sent, ledger.delivered, ledger.in_flight, ledger.unaccounted) == (0, FEW, -FEW, 0), ledger
        generate(lab, FEW + 7)
        ledger = lab.ledger()
        assert (ledger.in_flight, ledger.losses, ledger.unaccounted) == (0, {"xsk rx_fill_ring_empty_descs": 7}, 0)


@MODES
def test_a_million(pair: lk.Lab, mode: lk.Mode) -> None:
    """Read meanwhile, and the ledger as well: exact in the end whatever was lost."""
    packets = MANY if mode == "native" and pair.sample().failures is not None else FEWER
    with XskSocket(pair["server"]["eth0"]) as xsk:
        program = at_socket(pair, mode, xsk)
        generator = lk.Generator(pair["client"]["eth0"], lk.udp(pair["client"], pair["server"]), packets).start()
        while generator.running:
            xsk.drop()
        generator.wait()
        pair.ledger()
        while xsk.drop():
            pass
        ledger = pair.ledger(settle_s=10)
        assert ledger.sent == packets
        assert ledger.in_flight == 0
        assert set(ledger.losses) <= {"xsk rx_fill_ring_empty_descs", "xsk rx_ring_full", "ring full"}, ledger
        assert exact(ledger), ledger
        counted = program.verdicts()
        assert counted is not None
        assert counted["XDP_REDIRECT"] == packets - ledger.losses.get("ring full", 0)
