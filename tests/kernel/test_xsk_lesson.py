"""Lesson 08: the rings drawn, losses named, the applications as commands; every frame and every packet counted."""

from __future__ import annotations

import json
import socket
import time

import numpy as np
import pytest

import labkit as lk
from labkit import lesson
from labkit.cli import main
from labkit.demo import run_demo
from labkit.demo.xsk import APPLICATIONS
from labkit.kernel.mmsg import FrameBatch
from labkit.lesson.xsk_rings import state_of
from labkit.xsk import Umem, XskSocket
from labkit.xsk.loops import address_to, forward_turn, written

N = 10_007  # prime
FEW = 61  # prime
MANY = 300_007  # prime
DEADLINE_S = 20.0
ETH_P_IP = 0x0800  # include/uapi/linux/if_ether.h
SMALL = {"receive_ring": 8, "fill_ring": 8, "transmit_ring": 8, "completion_ring": 8}


def to_socket(lab: lk.Lab, at: lk.Interface, xsk: XskSocket) -> lk.Program:
    program = lab.load(lk.compile(path="bpf/to_socket.c"))
    program.attach(at)
    program.maps["sockets"][0] = xsk
    return program


def await_packets(xsk: XskSocket, packets: int) -> None:
    until = time.monotonic() + DEADLINE_S
    while xsk.counters().arrived < packets and time.monotonic() < until:
        time.sleep(0.001)


def nonzero(xsk: XskSocket) -> dict[str, int]:
    state = state_of(xsk)
    assert sum(state.places.values()) == state.frames
    return {name: frames for name, frames in state.places.items() if frames}


def test_every_step_moves_frames_and_loses_none(lab: lk.Lab) -> None:
    client, server = lab["client"], lab["server"]
    with XskSocket(server["eth0"], umem=Umem(16), filled=0, **SMALL) as xsk:
        to_socket(lab, server["eth0"], xsk)
        assert nonzero(xsk) == {"free": 16}
        xsk.fill(7)
        assert nonzero(xsk) == {"fill": 7, "free": 9}
        assert lk.send_frames(client["eth0"], lk.udp(client, server), 5).sent == 5
        await_packets(xsk, 5)
        assert nonzero(xsk) == {"fill": 2, "receive": 5, "free": 9}
        fill, receive, *_ = state_of(xsk).rings
        assert (fill.consumer, fill.producer, fill.frames) == (5, 7, (5, 6))
        assert (receive.consumer, receive.producer, receive.frames) == (0, 5, (0, 1, 2, 3, 4))
        batch = xsk.take(3)
        assert nonzero(xsk) == {"fill": 2, "receive": 2, "program": 3, "free": 9}
        xsk.recycle(batch)
        assert nonzero(xsk) == {"fill": 5, "receive": 2, "free": 9}
        with lk.UdpSink(client) as sink:
            xsk.transmit(written(xsk, lk.udp(server, client), 3), wake=False)
            assert nonzero(xsk) == {"fill": 5, "receive": 2, "transmit": 3, "free": 6}
            xsk.kick()
            assert sink.wait(3, DEADLINE_S) == 3
        until = time.monotonic() + DEADLINE_S
        while xsk.rings.completion.filled < 3 and time.monotonic() < until:
            time.sleep(0.001)
        assert nonzero(xsk) == {"fill": 5, "receive": 2, "completion": 3, "free": 6}
        assert xsk.complete() == 3
        assert nonzero(xsk) == {"fill": 5, "receive": 2, "free": 9}


@pytest.mark.parametrize("frames", [16, 2048])
def test_the_picture_says_what_its_table_says(lab: lk.Lab, frames: int) -> None:
    sizes = SMALL if frames == 16 else {}
    with XskSocket(lab["server"]["eth0"], umem=Umem(frames), filled=7, **sizes) as xsk:
        ring = xsk.rings.fill
        picture = lesson.rings(xsk, "Seven filled")
        rows = {row[0]: row for row in picture.table.rows}
        assert rows["fill"] == ("fill", "program", "kernel", 7, 0, 7, ring.size)
        assert rows["the whole memory"][-2:] == (frames, frames)
        assert picture.description == (
            f"Of {frames:,} frames: fill 7, receive 0, transmit 0, completion 0, kernel 0, program 0, free {frames - 7:,}."
        )
        assert "program puts in: 7" in picture.svg
        assert f"free {frames - 7:,}" in picture.svg
        assert "Seven filled" in picture._repr_html_()
        ring._producer[0] = ring._consumer[0] = 0xFFFFFFFD  # positions of 32 bits, and entries over the ring's end
        ring.put(np.arange(5, dtype=np.uint64) * np.uint64(2048))
        assert state_of(xsk).rings[0].frames == (0, 1, 2, 3, 4)
        assert "nan" not in lesson.rings(xsk).svg


def test_under_traffic_every_line_is_the_whole_memory() -> None:
    picture = lesson.rings_film()
    head, rows = picture.table.head, picture.table.rows
    assert len(rows) == 10
    assert {sum(row[1:-1]) for row in rows} == {row[-1] for row in rows} == {2048}  # type: ignore[arg-type]
    fill, receive = head.index("fill"), head.index("receive")
    assert (rows[0][fill], rows[0][receive]) == (2048, 0)
    assert (rows[-1][fill], rows[-1][receive]) == (2048, 0)
    assert any(row[receive] for row in rows[1:-1])
    assert "at last" in picture.svg


def test_at_full_speed_each_frame_is_in_one_place(lab: lk.Lab) -> None:
    """The kernel's positions move while they are read, and a large memory takes longer to read."""
    frames = 4096
    moments = []
    with (
        Umem(frames) as umem,
        XskSocket(lab["server"]["eth0"], umem=umem, receive_ring=frames, fill_ring=frames, filled=frames) as xsk,
    ):
        to_socket(lab, lab["server"]["eth0"], xsk)
        generator = lk.Generator(lab["client"]["eth0"], lk.udp(lab["client"], lab["server"]), MANY).start()
        while generator.running or xsk.rings.receive.filled:
            moments.append(state_of(xsk))
            forward_turn(xsk, xsk)
        assert generator.wait().sent == MANY
        assert lab.ledger().unaccounted == 0
    assert len(moments) > 1
    for moment in moments:
        assert sum(moment.places.values()) == frames
        assert min(moment.places.values()) >= 0
        held = [frame for ring in moment.rings for frame in ring.frames]
        assert len(held) == len(set(held))
    assert any(moment.places["receive"] for moment in moments)


def test_rings_that_are_shared_or_left_out(lab: lk.Lab) -> None:
    with (
        XskSocket(lab["server"]["eth0"], transmit_ring=0, filled=FEW) as first,
        XskSocket(lab["client"]["eth0"], umem=first.umem, receive_ring=0, filled=0) as second,
    ):
        assert nonzero(first) == {"fill": FEW, "free": 2048 - FEW}
        assert nonzero(second) == {"program, kernel, other sockets": FEW, "free": 2048 - FEW}
        assert [ring.name for ring in state_of(first).rings] == ["fill", "receive", "completion"]
        with pytest.raises(lk.LessonError, match="is no AF_XDP socket"):
            lesson.rings(first.umem)  # type: ignore[arg-type]
    with pytest.raises(lk.StateError, match="closed"):
        lesson.rings(first)


def test_each_loss_has_its_name() -> None:
    rows = lesson.xsk_losses().rows
    assert [row[1] for row in rows] == [1_009] * 5
    assert all(row[1] == row[2] + row[3] + row[4] for row in rows)
    assert [row[2:5] for row in rows] == [(64, 0, 945), (61, 0, 948), (0, 0, 1_009), (0, 1_009, 0), (0, 0, 1_009)]
    names = ["xsk rx_ring_full", "xsk rx_fill_ring_empty_descs", "xsk rx_dropped", None, "redirect EINVAL"]
    assert [row[5] for row in rows] == names


def test_what_is_refused_is_said_by_whom() -> None:
    rows = {row[0]: row[1:] for row in lesson.xsk_refusals().rows}
    assert rows["a second socket at a queue, with memory of its own"][0].startswith("EBUSY")
    assert "process" in rows["a second socket at a queue, with memory of its own"][1]
    assert rows['mode="zero-copy" on a veth'][0].startswith(("EOPNOTSUPP", "ENOTSUP"))
    assert [row[0] for row in list(rows.values())[-3:]] == ["not asked"] * 3
    assert all(help for word, _, help in rows.values() if word != "granted")


def test_rates_beside_a_packet_sockets() -> None:
    rates = lesson.xsk_rates(20_011)
    assert len(rates.mpps) == 6
    assert all(value > 0 for value in rates.mpps.values())
    assert rates.receiving == pytest.approx(rates.mpps["receive, AF_XDP"] / rates.mpps["receive, packet socket"])
    assert "receive, packet socket" in rates._repr_html_()


def test_forwards_to_another_interface_with_the_macs_it_is_told() -> None:
    with lk.Lab(lk.Topology.router(), name="forward") as lab:
        client, router, server = lab["client"], lab["router"], lab["server"]
        with (
            XskSocket(router["eth0"]) as near,
            XskSocket(router["eth1"], umem=near.umem, filled=0) as far,
            XskSocket(server["eth0"]) as sees,
        ):
            to_socket(lab, router["eth0"], near)
            to_socket(lab, server["eth0"], sees)
            frames = [bytes(lk.udp(client, server, sport=n)) for n in range(1, FEW + 1)]
            assert lk.send_frames(client["eth0"], frames, FEW).sent == FEW
            until, moved = time.monotonic() + DEADLINE_S, 0
            while moved < FEW and time.monotonic() < until:
                moved += forward_turn(near, far, bytes.fromhex("020304050607"))
            assert moved == FEW
            found = sees.receive(FEW, DEADLINE_S)
            assert [each.frame for each in found] == [bytes.fromhex("020304050607") + each[6:] for each in frames]


def test_a_batch_is_addressed_in_one_step(lab: lk.Lab) -> None:
    with XskSocket(lab["server"]["eth0"], umem=Umem(64), filled=0) as xsk:
        batch = written(xsk, bytes(range(64)), 7)
        address_to(xsk.umem, batch[:5], b"abcdef")
        heads = [xsk.umem.view(address, 8).tobytes() for address in batch.addresses]
        assert heads == [b"abcdef\x06\x07"] * 5 + [bytes(range(8))] * 2
        assert len(written(xsk, bytes(64), 64)) == 64 - 7


def test_frames_through_a_packet_socket_come_out_as_they_were(lab: lk.Lab) -> None:
    """What AF_XDP is compared with: more than a batch has room for, and each in its turn."""
    client, server = lab["client"], lab["server"]
    frames = [bytes(lk.udp(client, server, sport=n)) for n in range(1, FEW + 1)]
    batch, until = FrameBatch(31, len(frames[0])), time.monotonic() + DEADLINE_S
    with (
        lk.UdpSink(server),  # else the stack would answer its own copies
        XskSocket(client["eth0"]) as back,
        server.socket(socket.AF_PACKET, socket.SOCK_RAW, 0) as both,
    ):
        to_socket(lab, client["eth0"], back)
        both.bind(("eth0", ETH_P_IP))
        assert batch.take(both.fileno()) == 0
        assert lk.send_frames(client["eth0"], frames, FEW).sent == FEW
        moved = 0
        while moved < FEW and time.monotonic() < until:
            taken = batch.take(both.fileno())
            assert taken <= 31
            assert batch.send(both.fileno(), taken) == taken
            moved += taken
        assert moved == FEW
        assert [each.frame for each in back.receive(FEW, DEADLINE_S)] == frames


@pytest.mark.parametrize("name", APPLICATIONS)
def test_the_applications_as_commands(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["xsk", name, "--packets", str(N), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["unaccounted"], found["in_flight"]) == (0, 0)
    rows = {(row["kind"], row["where"]): row["packets"] for row in found["rows"]}
    lost = {"ring full", "xsk rx_ring_full", "xsk rx_fill_ring_empty_descs"}
    if name == "send":
        assert (found["sent"], found["losses"]) == (N, {"XDP_DROP": N})
    elif name == "drop":
        assert found["sent"] == N == found["delivered"] + sum(found["losses"].values())
        assert set(found["losses"]) <= lost
        assert found["delivered"] > 0
    else:
        assert rows["sent", "client eth0"] == N
        assert found["sent"] - N == found["delivered"] > 0
        assert found["losses"]["XDP_DROP"] == found["delivered"]
        assert set(found["losses"]) <= {"XDP_DROP", *lost}


@pytest.mark.parametrize("packets", [1, 7, 1_009])
def test_the_demo(packets: int) -> None:
    found = run_demo("xsk", packets=packets).as_dict()
    assert (found["sent"], found["unaccounted"], found["in_flight"]) == (packets, 0, 0)
    assert found["delivered"] + sum(found["losses"].values()) == packets


def test_a_wrong_application_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["xsk", "fly"]) == 2
    assert "invalid choice: 'fly'" in capsys.readouterr().err
