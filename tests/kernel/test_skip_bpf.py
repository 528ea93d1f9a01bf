"""Lesson 09 on the kernel: every packet of a measurement, the dispatcher's slots, the exercise done wrong. No time is judged."""

from __future__ import annotations

from pathlib import Path

import pytest
from test_redirect_exercises import edited, wrong

import labkit as lk
from labkit import lesson
from labkit.errors import LessonError
from labkit.lesson.fast_path_rig import Difference, Timed
from labkit.lesson.skip_bpf import PUBLISHED, SkipCost, cost
from labkit.lesson.skip_bpf.slots import SLOTS, edge, took_long
from labkit.xsk import XskSocket

N = 1_009  # a prime
ID = "udp-to-socket"


@pytest.fixture(autouse=True)
def progress(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDP_LAB_PROGRESS", str(tmp_path / "progress.json"))


@pytest.mark.parametrize(("by_program", "expected"), [(False, (0, N)), (True, (N, 0))])
def test_a_socket_gets_packets_of_a_program_alone(by_program: bool, expected: tuple[int, int]) -> None:
    with lk.Lab(lk.Topology.pair(), name="test") as lab:
        client, server = lab["client"], lab["server"]
        with XskSocket(server["eth0"], transmit_ring=0) as xsk, lk.UdpSink(server):
            program = lab.load(lk.compile(path="bpf/to_socket.c"))
            program.maps["sockets"][0] = xsk
            if by_program:
                program.attach(server["eth0"])
            lk.generate(client["eth0"], lk.udp(client, server), N)
            came = xsk.drop()
            ledger = lab.ledger()
    assert (came, ledger.delivered - came) == expected
    assert (ledger.sent, ledger.unaccounted) == (N, 0)


def test_each_flag_that_the_kernel_has_and_the_next() -> None:
    words = {row[0]: str(row[2]) for row in lesson.skip_flag().rows}
    assert words["XDP_COPY"] == words["XDP_USE_NEED_WAKEUP"] == "taken"
    assert "not supported" in words["XDP_ZEROCOPY"]
    assert words["the next bit: skip the program?"].startswith("EINVAL")


def test_every_lane_has_its_packets_where_they_should_be() -> None:
    found = lesson.skip_cost(packets=N, turns=2)
    timed = found.timed
    losses = {name: dict(ledger.losses) for name, ledger in timed.ledgers.items()}
    assert losses[cost.DROP] == losses[cost.ASKED] == {"XDP drop (driver)": N}
    assert losses[cost.NOBODY] == {"broadcast to nobody": N}
    for name in (cost.MINIMAL, cost.COUNTING, cost.PARSING):
        assert (losses[name], timed.ledgers[name].in_flight) == ({}, N), name
    assert (timed.unaccounted, timed.turns) == (0, 2)
    assert found.call_ns is None or found.call_ns > 0
    assert f"{found.whole_ns:.1f}" in str(found)


def test_both_modes_account_for_every_packet() -> None:
    found = lesson.skip_modes(packets=N, turns=1)
    assert [timed.unaccounted for timed in found.timed.values()] == [0, 0]
    assert [row[0] for row in found.table().rows] == ["native", "generic"]
    assert all(found.whole_ns(mode) > 0 for mode in found.timed)


def test_slots_are_counted_with_a_stopwatch() -> None:
    """How many is a matter of time, and others on this machine may have some: each program is timed, and each packet found."""
    found = lesson.dispatcher_slots(packets=N, turns=2)
    assert len(found.attach_ms) >= found.had_slot > 0
    assert len(found.attach_ms) > SLOTS
    assert all(took > 0 for took in found.attach_ms)
    assert found.timed.unaccounted == 0
    assert f"{found.had_slot} got a slot" in found.picture().svg


def test_the_edge_is_found_between_long_and_short_and_nowhere_else() -> None:
    long, short = (8.0, 16.1, 7.7, 9.0, 30.0), (0.4, 2.5, 0.3, 0.3, 0.3)
    assert edge(long * 9 + short) == 45
    assert edge(long + short * 9) == 5
    assert edge(long * 3) == 15
    assert edge(short * 3) == 15


def test_a_late_slot_counts_and_an_early_gap_does_not() -> None:
    """Another's program left meanwhile: two without a slot, then two with one."""
    long, short = (8.0, 16.1, 7.7, 9.0, 30.0), (0.4, 2.0, 0.3, 0.3, 0.3)
    times = long * 9 + short[-2:] + long[:2] + short[-2:] * 3
    assert took_long(times) == (True,) * 45 + (False,) * 2 + (True,) * 2 + (False,) * 6
    assert took_long(long * 3) == (True,) * 15


def test_the_arithmetic_of_the_thread_and_how_far_it_goes() -> None:
    assert PUBLISHED[0].saved_ns == pytest.approx(19.69, abs=0.01)
    assert PUBLISHED[2].saved_ns == pytest.approx(14.90, abs=0.01)
    copied = PUBLISHED[3]
    assert copied.saved_ns < copied.precision_ns  # 1.9 to 2.0 says nothing
    assert "1,000/21.9 − 1,000/38.5 = 45.7 − 26.0" in str(lesson.published_table())


def test_a_projection_is_the_packet_without_the_steps() -> None:
    lanes = {cost.DROP: 80.0, cost.ASKED: 84.0, cost.NOBODY: 100.0, cost.MINIMAL: 150.0}
    timed = Timed(N, {name: (ns,) * 8 for name, ns in lanes.items()}, {})
    found = SkipCost(timed, 6)
    assert [row[1] for row in found.projection().rows] == [150.0, 140.0, 124.0]
    assert (found.least, found.most) == (Difference(4, 4, 4), Difference(20, 20, 20))
    assert found.most_share == pytest.approx(26 / 150)
    assert [part.cost.ns for part in found.parts] == [80, 4, 16, 50]


@pytest.mark.parametrize(("packets", "turns"), [(0, None), ("many", None), (2_049, None), (101, 0), (101, True)])
def test_what_can_not_be_measured_is_refused_by_name(packets: object, turns: object) -> None:
    with pytest.raises(LessonError, match="packets" if turns is None else "turns"):
        lesson.skip_cost(packets=packets, turns=turns)  # type: ignore[arg-type]


SLOT = "ctx->rx_queue_index, XDP_PASS"
MISTAKES = [
    # what is changed, a row that differs, a word of the first place to look
    ([("udp->dest != htons(9999)", "udp->dest != 9999")], "UDP to port 9999, by queue 0", "network byte order"),
    ([("udp->dest !=", "udp->source !=")], "UDP from port 9999 to port 53", "the destination's"),
    ([(SLOT, "ctx->rx_queue_index, 0")], "by queue 1", "XDP_ABORTED"),
    ([(SLOT, "0, XDP_PASS")], "by queue 1", "its own queue"),
    ([(" || is_later_fragment(ip)", "")], "later fragment", "is_later_fragment"),
    ([(" || ip->protocol != IPPROTO_UDP", "")], "TCP to port 9999", "belongs to the stack"),
    ([("eth && eth->h_proto == htons(ETH_P_IP) ?", "eth ?")], "IPv6", "belongs to the stack"),
    ([("? next_ipv4(&at) : NULL", "? next_ipv4(&at) : NULL;\n\tif (ip) at.at = ip + 1")], "options", "ip->ihl * 4"),
    ([("verdict(ctx, XDP_PASS);\n\tudp", "verdict(ctx, XDP_DROP);\n\tudp")], "ARP", "nothing is dropped"),
    ([(f"sockets.redirect_map({SLOT})", "XDP_REDIRECT")], "the map sockets", "Keep its name"),
]


@pytest.mark.parametrize(("changes", "row", "look"), MISTAKES)
def test_a_mistake_is_seen_and_its_cause_named(changes: list[tuple[str, str]], row: str, look: str) -> None:
    result = lk.check(ID, edited(ID, *changes))
    assert not result.passed
    assert result.error is None, result.error
    assert any(row in what for what in wrong(result)), result
    assert look in next(each.look for each in result.rows if row in each.what and not each.good), result
