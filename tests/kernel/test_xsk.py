"""AF_XDP sockets: what comes in, what goes out, where each frame of the memory is."""

from __future__ import annotations

import gc
import mmap
import struct
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import labkit as lk
from labkit.xsk import Batch, Umem, XskSocket, XskStatistics

N = 1_009  # prime
MANY = 300_007  # prime
DEADLINE_S = 20.0
MODES = pytest.mark.parametrize("mode", ["native", "generic"])

SOURCE = """\
#include "common/verdict.h"

LAB_XSKMAP(sockets, 4);
LAB_ARRAY(seen, u64, 1);

/* Every other packet gets twelve bytes before it. */
int every_other(struct xdp_md *ctx)
{
	u32 zero = 0;
	u64 *number = seen.lookup(&zero);

	if (!number)
		return verdict(ctx, XDP_ABORTED);
	if ((*number)++ % 2 == 0) {
		void *meta, *data;

		if (bpf_xdp_adjust_meta(ctx, -12))
			return verdict(ctx, XDP_ABORTED);
		meta = (void *)(long)ctx->data_meta;
		data = (void *)(long)ctx->data;
		if (meta + 12 > data)
			return verdict(ctx, XDP_ABORTED);
		*(u64 *)meta = *number;
		*(u32 *)(meta + 8) = 0x1ab50000;
	}
	return verdict(ctx, sockets.redirect_map(ctx->rx_queue_index, 0));
}

/* Every queue's packets, to the slots in turn. */
int in_turn(struct xdp_md *ctx)
{
	u32 zero = 0;
	u64 *number = seen.lookup(&zero);

	return number ? verdict(ctx, sockets.redirect_map((*number)++ % 2, 0)) : verdict(ctx, XDP_ABORTED);
}
"""


@pytest.fixture(scope="module")
def spec() -> lk.ProgramSpec:
    return lk.compile(text=SOURCE)


@pytest.fixture
def two_queues() -> Iterator[lk.Lab]:
    with lk.Lab(lk.Topology.pair(queues=2), name="queues") as made:
        yield made


def to_socket(lab: lk.Lab, mode: lk.Mode = "native") -> lk.Program:
    program = lab.load(lk.compile(path="bpf/to_socket.c"))
    program.attach(lab["server"]["eth0"], mode=mode)
    return program


def send(lab: lk.Lab, packets: int) -> bytes:
    frame = lk.udp(lab["client"], lab["server"])
    assert lk.generate(lab["client"]["eth0"], frame, packets).sent == packets
    return frame


def drop_all(xsk: XskSocket, packets: int) -> int:
    """What could be taken, ``packets`` at the most."""
    until, got = time.monotonic() + DEADLINE_S, 0
    while got < packets and time.monotonic() < until:
        got += xsk.drop(packets - got)
        xsk.wait(0.01)
    return got


@MODES
def test_packets_as_bytes(lab: lk.Lab, mode: lk.Mode) -> None:
    program = to_socket(lab, mode)
    with XskSocket(lab["server"]["eth0"]) as xsk:
        program.maps["sockets"][0] = xsk
        frame = send(lab, 7)
        found = xsk.receive(7, DEADLINE_S)
        assert [each.frame for each in found] == [frame] * 7
        assert {len(each.meta) for each in found} == {252}
        assert xsk.receive(timeout_s=0) == []
        assert xsk.places() == {
            "fill": 1024,
            "receive": 0,
            "transmit": 0,
            "completion": 0,
            "free": 1024,
            "elsewhere": 0,
        }


@MODES
def test_metadata_lies_right_before_the_packet_and_is_not_taken_for_the_next_ones(
    lab: lk.Lab, spec: lk.ProgramSpec, mode: lk.Mode
) -> None:
    """Copy mode brings it along; a frame used again still has the old one, which the kernel doesn't touch."""
    program = lab.load(spec, "every_other")
    program.attach(lab["server"]["eth0"], mode=mode)
    for wipe in (True, False):
        with XskSocket(lab["server"]["eth0"], umem=Umem(1), transmit_ring=0, wipe_metadata=wipe) as xsk:
            program.maps["sockets"][0] = xsk
            seen = []
            for _ in range(4):
                send(lab, 1)
                [one] = xsk.receive(1, DEADLINE_S)
                seen.append(struct.unpack("=QI", one.meta[-12:]))
        numbers = [number for number, mark in seen if mark == 0x1AB50000]
        assert len(numbers) == (2 if wipe else 4)
        assert len(set(numbers)) == 2


def test_at_full_speed(lab: lk.Lab) -> None:
    program = to_socket(lab)
    with Umem(16_384) as umem, XskSocket(lab["server"]["eth0"], umem=umem, transmit_ring=0) as xsk:
        program.maps["sockets"][0] = xsk
        generator = lk.Generator(lab["client"]["eth0"], lk.udp(lab["client"], lab["server"]), MANY).start()
        got = 0
        while generator.running:
            got += xsk.drop()
        generator.wait()
        while taken := xsk.drop():
            got += taken
        kernel, counted = xsk.statistics(), program.verdicts()
        assert counted is not None
        assert got + kernel.rx_dropped + kernel.rx_ring_full == counted["XDP_REDIRECT"]
        assert got > 0
        assert umem.free + xsk.rings.fill.filled == umem.frames


def test_rings_wrap(lab: lk.Lab) -> None:
    program = to_socket(lab)
    with XskSocket(lab["server"]["eth0"], umem=Umem(8), receive_ring=4, fill_ring=4, transmit_ring=0) as xsk:
        program.maps["sockets"][0] = xsk
        for number in (1, 2, 3, 4, 3, 2, 1):
            send(lab, number)
            assert xsk.wait(DEADLINE_S)
            batch = Batch(np.empty(0, np.uint64), np.empty(0, np.uint32))
            until = time.monotonic() + DEADLINE_S
            while len(batch) < number and time.monotonic() < until:
                more = xsk.take(number - len(batch))
                batch = Batch(
                    np.concatenate([batch.addresses, more.addresses]), np.concatenate([batch.lengths, more.lengths])
                )
            assert set(batch.lengths.tolist()) == {64}
            assert len(set(batch.addresses.tolist())) == number
            xsk.recycle(batch)
        assert xsk.statistics().rx_dropped == xsk.statistics().rx_ring_full == 0
        assert xsk.places()["fill"] + xsk.umem.free == 8


def test_positions_wrap_at_two_to_the_thirty_second(lab: lk.Lab) -> None:
    """Numbers of 32 bits, of which only the difference means something."""
    with XskSocket(lab["client"]["eth0"], filled=0) as xsk:
        ring = xsk.rings.fill
        ring._producer[0] = ring._consumer[0] = 0xFFFFFFFE
        assert (ring.filled, ring.room) == (0, 2048)
        assert ring.put(np.arange(5, dtype=np.uint64)) == 5
        assert (ring.producer, ring.filled, ring.room) == (3, 5, 2043)
        assert ring.take(100).tolist() == [0, 1, 2, 3, 4]
        assert (ring.consumer, ring.filled) == (3, 0)


@MODES
def test_sends_frames(lab: lk.Lab, mode: lk.Mode) -> None:
    """Counted by the sender, by the peer's socket, and by the peer's driver."""
    client, server = lab["client"], lab["server"]
    program = to_socket(lab, mode)
    frames = [lk.udp(client, server, payload=bytes([n]) * n) for n in range(1, 8)]
    with (
        XskSocket(client["eth0"], receive_ring=0, umem=Umem(61), filled=0) as out,
        XskSocket(server["eth0"], umem=Umem(2048), transmit_ring=0) as into,
    ):
        program.maps["sockets"][0] = into
        before = server["eth0"].statistics()["rx_packets"]
        report = out.send(frames, N)
        assert (report.sent, report.failed) == (N, 0)
        found = into.receive(N, DEADLINE_S)
        assert [each.frame for each in found] == [frames[i % 7] for i in range(N)]
        assert server["eth0"].statistics()["rx_packets"] - before == N
        assert out.places()["free"] == 61


def test_a_budget_for_each_wake_up(lab: lk.Lab) -> None:
    with XskSocket(lab["client"]["eth0"], receive_ring=0, filled=0, transmit_budget=128) as xsk:
        addresses = xsk.umem.take(151)
        lengths = np.full(151, 64, np.uint32)
        assert xsk.transmit(Batch(addresses, lengths), wake=False) == 151
        assert xsk.kick() == "EAGAIN"
        assert xsk.transmit_waiting == 151 - 128
        assert xsk.flush() == ""
        assert (xsk.transmit_waiting, xsk.umem.free) == (0, 2048)


def test_forwards_in_the_same_memory(lab: lk.Lab) -> None:
    """Out of the receive ring, into the transmit ring: the packet itself is never copied by the program."""
    program = to_socket(lab)
    with XskSocket(lab["server"]["eth0"]) as xsk, XskSocket(lab["client"]["eth0"]) as back:
        program.maps["sockets"][0] = xsk
        home = lab.load(lk.compile(path="bpf/to_socket.c"))
        home.attach(lab["client"]["eth0"])
        home.maps["sockets"][0] = back
        frame = send(lab, 61)
        returned = 0
        until = time.monotonic() + DEADLINE_S
        while returned < 61 and time.monotonic() < until:
            batch = xsk.take()
            returned += xsk.transmit(batch) if len(batch) else 0
            xsk.flush()
            xsk.complete()
        assert [each.frame for each in back.receive(61, DEADLINE_S)] == [frame] * 61
        ledger = lab.ledger()
        assert (ledger.sent, ledger.delivered, ledger.unaccounted) == (122, 122, 0), ledger


def test_two_queues_share_a_memory(two_queues: lk.Lab) -> None:
    program = to_socket(two_queues)
    client, server = two_queues["client"], two_queues["server"]
    with Umem(2048) as umem:
        with (
            XskSocket(server["eth0"], 0, umem=umem, transmit_ring=0, filled=1024) as first,
            XskSocket(server["eth0"], 1, umem=umem, transmit_ring=0, filled=1024) as second,
        ):
            program.maps["sockets"][0], program.maps["sockets"][1] = first, second
            assert umem.free == 0
            assert lk.generate(client["eth0"], lk.udp(client, server), N, flows=64).sent == N
            ledger = two_queues.ledger()
            assert (ledger.sent, ledger.delivered + ledger.in_flight, ledger.unaccounted) == (N, N, 0), ledger
            got = first.drop() + second.drop()
            assert got == N
            with pytest.raises(lk.StateError, match="2 socket"):
                umem.close()
            first.close()
            assert umem.free == 1024
            assert second.places()["fill"] == 1024
        assert umem.free == 2048


def test_two_sockets_share_a_queue(lab: lk.Lab, spec: lk.ProgramSpec) -> None:
    """One fill ring, two receive rings: the program decides which socket gets a packet."""
    program = lab.load(spec, "in_turn")
    program.attach(lab["server"]["eth0"])
    with XskSocket(lab["server"]["eth0"], transmit_ring=0) as first:
        with XskSocket(lab["server"]["eth0"], umem=first.umem, transmit_ring=0) as second:
            program.maps["sockets"][0], program.maps["sockets"][1] = first, second
            send(lab, 1_010)
            assert drop_all(first, 505) == drop_all(second, 505) == 505
            assert first.rings.fill.filled == second.rings.fill.filled == 2048
            ledger = lab.ledger()
            assert (ledger.delivered, ledger.unaccounted) == (1_010, 0), ledger
        program.maps["sockets"][1] = first
        send(lab, N)
        assert drop_all(first, N) == N


def test_a_queue_is_free_at_once_after_close(lab: lk.Lab) -> None:
    """Views that somebody keeps hold neither the queue nor the process."""
    kept = []
    for _ in range(20):
        with XskSocket(lab["server"]["eth0"], umem=Umem(64)) as xsk:
            kept.append((xsk.rings.fill.entries, xsk.umem.bytes))
            kept[-1][1][0, 0] = 61
        assert kept[-1][0].tolist() == [0] * 2048
        assert kept[-1][1][0, 0] == 61
    assert repr(xsk) == "<AF_XDP socket at server eth0 queue 0: closed>"
    xsk.close()


def test_nothing_is_left_when_the_lab_closes_first(lab: lk.Lab) -> None:
    program = to_socket(lab)
    xsk = XskSocket(lab["server"]["eth0"])
    program.maps["sockets"][0] = xsk
    lab.close()
    assert xsk.closed
    with pytest.raises(lk.StateError, match="closed"):
        xsk.take()
    assert "socket:[" not in Path("/proc/self/maps").read_text(), "no ring is mapped any more"


def test_a_forgotten_socket_is_not_kept(lab: lk.Lab) -> None:
    umem = Umem(64)
    XskSocket(lab["server"]["eth0"], umem=umem).close()
    with XskSocket(lab["server"]["eth0"], umem=umem) as xsk:
        assert umem.users == [xsk]
    umem.close()
    umem.close()
    gc.collect()


def test_closing_under_traffic_and_from_another_thread(lab: lk.Lab) -> None:
    program = to_socket(lab)
    generator = lk.Generator(lab["client"]["eth0"], lk.udp(lab["client"], lab["server"]), seconds=20, rate_pps=300_000)
    generator.start()
    for _ in range(3):
        xsk = XskSocket(lab["server"]["eth0"], transmit_ring=0)
        program.maps["sockets"][0] = xsk
        stopped: list[str] = []

        def read(xsk: XskSocket = xsk, stopped: list[str] = stopped) -> None:
            try:
                while True:
                    xsk.drop()
            except lk.StateError as error:
                stopped.append(error.message)

        reader = threading.Thread(target=read)
        reader.start()
        until = time.monotonic() + DEADLINE_S
        while xsk.counters().taken < N and time.monotonic() < until:
            time.sleep(0.001)
        xsk.close()
        reader.join()
        assert stopped == ["The AF_XDP socket at server eth0 queue 0 is closed."]
    generator.stop()
    ledger = lab.ledger(settle_s=10)
    assert ledger.delivered >= 3 * N
    assert ledger.unaccounted == 0, ledger
    assert all(check.agrees for check in ledger.checks), ledger


WRONG = {
    "recycle": ("frames", None, np.arange(3)),
    "transmit": ("frames", None, Batch(np.arange(2, dtype=np.uint64), np.full(3, 64, np.uint32))),
    "take": (-1, "all", True),
    "drop": (-1, 1.5),
    "fill": (-1, "all"),
    "receive": (0, "7", True),
    "wait": (-1.0, None, "long"),
    "send": (b"short", 64, [b"x" * 64, "text"], b"x" * 5000, []),
}


@pytest.mark.parametrize("method", WRONG)
def test_what_can_not_be_meant(lab: lk.Lab, method: str) -> None:
    with XskSocket(lab["server"]["eth0"], umem=Umem(64)) as xsk:
        for argument in WRONG[method]:
            with pytest.raises(lk.XskError) as refused:
                getattr(xsk, method)(argument)
            assert refused.value.remedy, argument
        for wrong in (64 * 2048, 2**63):
            addresses = np.array([wrong], np.uint64)
            with pytest.raises(lk.XskError, match="no address in this memory"):
                xsk.recycle(addresses)
            with pytest.raises(lk.XskError, match="no address in this memory"):
                xsk.transmit(Batch(addresses, np.array([64], np.uint32)))
        for length in (13, 2049, 2**32 - 1):
            with pytest.raises(lk.XskError, match="no packet within one frame"):
                xsk.transmit(Batch(np.zeros(1, np.uint64), np.array([length], np.uint32)))
        with pytest.raises(lk.XskError, match="give each back once only"):
            xsk.umem.give_back(np.zeros(64, np.uint64))
        assert xsk.statistics() == XskStatistics()


def test_a_side_that_was_left_out(lab: lk.Lab) -> None:
    with (
        XskSocket(lab["server"]["eth0"], receive_ring=0) as out,
        XskSocket(lab["client"]["eth0"], transmit_ring=0) as into,
    ):
        with pytest.raises(lk.XskError, match="opened without a receive ring"):
            out.take()
        with pytest.raises(lk.XskError, match="opened without a transmit ring"):
            into.send(bytes(64))
        with pytest.raises(lk.MapError, match="is no AF_XDP socket"):
            to_socket(lab).maps["sockets"][0] = lab["server"]["eth0"]
        with pytest.raises(lk.MapError, match="has no slot 64"):
            to_socket(lab).maps["sockets"][64] = into


def test_machines_with_another_memory_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: "aarch64")
    with pytest.raises(lk.FeatureError, match="from Python on aarch64") as refused:
        Umem()
    assert "barrier" in refused.value.detail


def test_a_page_of_memory_is_enough(lab: lk.Lab) -> None:
    program = to_socket(lab)
    with XskSocket(lab["server"]["eth0"], umem=Umem(1, mmap.PAGESIZE, headroom=512), transmit_ring=0) as xsk:
        program.maps["sockets"][0] = xsk
        assert xsk.umem.room == mmap.PAGESIZE - 512 - 256
        frame = send(lab, 1)
        assert xsk.receive(1, DEADLINE_S, meta_room=768)[0].frame == frame
