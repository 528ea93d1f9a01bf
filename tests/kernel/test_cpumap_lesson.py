"""Lesson 03: work moved between CPUs, queues that overflow, order, GRO; every packet found again."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

import labkit as lk
from labkit import lesson
from labkit.errors import LessonError
from labkit.lesson import cpumap_order, workshop
from labkit.lesson.cpumap_work import ALL, IN_DRIVER, OTHER, OWN
from labkit.uapi import AttachType, XdpAction

BPF = Path(__file__).resolve().parents[2] / "bpf"
N = 2_003  # a prime
several = pytest.mark.skipif(len(workshop.usable_cpus()) < 2, reason="one CPU only: run it where there are two or more")


@pytest.fixture
def one_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a machine with one CPU."""
    only = (workshop.usable_cpus()[0],)
    for module in ("workshop", "cpumap_order"):
        monkeypatch.setattr(f"labkit.lesson.{module}.numbered_cpus", lambda: (0,))
    monkeypatch.setattr("labkit.lesson.workshop.usable_cpus", lambda: only)


def test_cpus_are_those_this_process_may_use() -> None:
    allowed = os.sched_getaffinity(0)
    assert set(workshop.usable_cpus()) <= allowed
    assert workshop.numbered_cpus()[0] == 0
    cpu = max(allowed)
    with lesson.staying_on(cpu):
        assert os.sched_getaffinity(0) == {cpu}
        assert workshop.usable_cpus() == (cpu,)
        assert workshop.numbered_cpus() == (0,)
    assert os.sched_getaffinity(0) == allowed


def test_the_first_packets_across(lab: lk.Lab) -> None:
    """The second program runs on the CPU named, by its own count and by what a socket behind it read."""
    here, *others = lesson.usable_cpus()
    there = (others or [here])[0]
    program = lab.load(lk.compile(path=BPF / "to_cpu.c"))
    on_cpu = lab.load(lk.compile(path=BPF / "on_cpu.c"), expected_attach_type=AttachType.XDP_CPUMAP)
    on_cpu.maps["action"][0] = XdpAction.PASS
    program.maps["cpus"][there] = 192, on_cpu
    program.maps["target"][0] = there
    program.attach(lab["server"]["eth0"])
    with lk.UdpSink(lab["server"]) as sink, lesson.staying_on(here):
        lk.generate(lab["client"]["eth0"], lk.udp(lab["client"], lab["server"]), 101)
        assert sink.wait(101, 5.0) == 101
        ledger = lab.ledger()
    assert (ledger.delivered, ledger.unaccounted) == (101, 0)
    assert on_cpu.maps["verdicts"].per_cpu(XdpAction.PASS)[there] == 101
    table = lesson.ran_on(program, on_cpu)
    assert [sum(row[1:]) for row in table.rows] == [101, 101]  # type: ignore[arg-type]
    assert f"packets on CPU {there}" in table.head


def test_an_empty_slot_aborts(lab: lk.Lab) -> None:
    program = lab.load(lk.compile(path=BPF / "to_cpu.c"))
    program.attach(lab["server"]["eth0"])
    lk.generate(lab["client"]["eth0"], lk.udp(lab["client"], lab["server"]), N)
    assert lab.ledger().losses == {"XDP_ABORTED": N}


@pytest.mark.parametrize("work_us", [0, 1])
def test_who_works(work_us: float) -> None:
    division = lesson.who_works(work_us, packets=N, runs=2)
    assert {share.name for share in division.shares} >= {IN_DRIVER, OWN}
    for share in division.shares:
        assert share.ledger.sent == sum(share.packets_by_cpu.values()) == N
        assert share.ledger.unaccounted == 0
        assert len(share.runs_ms) == 2
        assert min(share.runs_ms) >= N * work_us * 0.0003 / len(share.packets_by_cpu)  # ms; the clock may run faster
    assert division.times_as_long(IN_DRIVER) == 1
    assert division.soonest in [share.name for share in division.shares]
    assert "unaccounted" in str(division)
    assert "<svg" in division._repr_html_()
    with pytest.raises(LessonError, match="no way 'elsewhere'"):
        division["elsewhere"]


@several
def test_the_work_is_done_where_it_was_sent() -> None:
    here, other, *_ = workshop.usable_cpus()
    with workshop.Workshop("test", work_ns=500) as shop:
        assert 1 <= shop.rounds <= 512
        for cpus, wanted in (((), {here}), ((here,), {here}), ((other,), {other}), ((here, other), {here, other})):
            ledger = shop.run(N, cpus)
            assert set(shop.done) == wanted
            assert sum(shop.done.values()) == ledger.lost == N
            assert ledger.unaccounted == 0
        assert abs(shop.done[here] - shop.done[other]) <= 1


@several
def test_all_ways_are_there() -> None:
    assert [share.name for share in lesson.who_works(0, packets=101, runs=1).shares] == [IN_DRIVER, OWN, OTHER, ALL]


def test_with_one_cpu_the_lesson_says_so(one_cpu: None) -> None:
    division = lesson.who_works(0, packets=101, runs=1)
    assert [share.name for share in division.shares] == [IN_DRIVER, OWN]
    assert "one CPU only" in str(division)
    order = lesson.arrival_order(packets=101)
    assert [row[3] for row in order.table.rows] == [0, 0, 0]
    assert "one CPU only" in order.title
    assert lesson.queue_lengths((16_384,), packets=101).table.rows[0][2] == 101
    assert len(lesson.merged_by_gro(nbytes=10_007).table.rows) == 6


def test_queue_lengths() -> None:
    """What the program on the CPU has not seen, the ledger has by name."""
    short, long = lesson.queue_lengths((8, 16_384), packets=10_007).table.rows
    for _, sent, done, lost, _, named in (short, long):
        assert sent == 10_007 == done + lost  # type: ignore[operator]
        assert named == lost
    assert long[3] == 0
    assert short[3] > 1_000  # type: ignore[operator]


def test_the_driver_counts_a_redirect_into_a_full_queue_as_a_success() -> None:
    with workshop.Workshop("test", work_ns=1_000, queue=8) as shop:
        server = shop.lab["server"]["eth0"]
        before = server.driver_statistics()
        shop.run(10_007, ((shop.others or [shop.here])[0],))
        after = server.driver_statistics()
        gained = {name: value - before.get(name, 0) for name, value in after.items()}
        assert sum(shop.done.values()) < 10_007
    assert gained["rx_queue_0_xdp_redirect"] == 10_007
    assert gained["rx_queue_0_xdp_drops"] == gained["rx_queue_0_drops"] == 0


def test_late_packets_are_counted_by_flow() -> None:
    frame = bytes(64)
    frames = cpumap_order.numbered(frame, 12, 3)
    assert cpumap_order.late(frames) == 0
    assert cpumap_order.late([*frames[3:], *frames[:3]]) == 3  # each the first of its flow
    assert cpumap_order.late([frames[6], frames[0], frames[3], frames[9]]) == 2
    assert cpumap_order.late([frames[1], frames[0], frames[2]]) == 0  # of three flows


def test_flows_stay_in_order_packets_do_not() -> None:
    table = lesson.arrival_order(packets=5_003).table
    found = {row[0]: row[3] for row in table.rows}
    assert found[cpumap_order.DIRECT] == found[cpumap_order.FLOW_BY_FLOW] == 0
    assert [row[1] for row in table.rows] == [5_003] * 3


def test_gro_joins_on_the_other_side() -> None:
    table = lesson.merged_by_gro(nbytes=300_007).table
    found = {row[:2]: row for row in table.rows}
    assert len(found) == 6
    for (_, gro), (_, _, segments, packets, ratio, _) in found.items():
        assert segments >= 300_007 // 1_448  # type: ignore[operator]
        assert ratio == segments / packets  # type: ignore[operator]
        if gro == "off":
            assert segments == packets
    assert found[(cpumap_order.DIRECT, "on")][4] > 1  # type: ignore[operator]


def test_the_picture_says_the_same_in_words() -> None:
    picture = lesson.cpumap_path()
    assert "thread cpumap/1" in picture.description
    assert "CPU 1" in str(picture)
    assert picture.svg.count("<rect") == 8


def test_nothing_is_left_of_a_workshop() -> None:
    before = set(threading.enumerate())
    with workshop.Workshop("test", work_ns=0) as shop:
        shop.run(101, (shop.here,))
    assert shop.lab.closed
    assert set(threading.enumerate()) == before
