"""Lesson 10 on the kernel: what the two steps do to packets, and every packet of a measurement. No figure has a bound."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

import labkit as lk
from labkit import lesson
from labkit.errors import LessonError
from labkit.lesson import fast_path_cost as cost
from labkit.lesson.fast_path_effect import lesson_reports
from labkit.lesson.tracing import Unseen
from labkit.program.program import Program

N = 5_003  # a prime


@pytest.fixture
def way() -> Iterator[tuple[lk.Lab, Program]]:
    """client ── router ── server, which drops and counts."""
    with lk.Lab(lk.Topology.router(), name="test") as lab:
        receiver = lab.load(lk.compile(path="bpf/drop_all.c"))
        receiver.attach(lab["server"]["eth0"])
        yield lab, receiver


def came(receiver: Program) -> int:
    return (receiver.verdicts() or {})["XDP_DROP"]


def sent(lab: lk.Lab, function: str) -> Program:
    program = lab.load(lk.compile(path="bpf/fast_two_steps.c"), function)
    program.maps["ports"][0] = lab["router"]["eth1"]
    program.attach(lab["router"]["eth0"])
    lab.reset()
    lk.generate(lab["client"]["eth0"], lk.udp(lab["client"], lab["server"]), N)
    return program


def test_the_call_alone_moves_nothing(way: tuple[lk.Lab, Program]) -> None:
    lab, receiver = way
    program = sent(lab, "only_asked")
    assert (program.verdicts() or {})["XDP_DROP"] == N
    assert lab.ledger().losses == {"XDP_DROP": N}
    assert lab["router"]["eth0"].driver_statistics()["rx_queue_0_xdp_drops"] == N
    assert came(receiver) == 0


def test_a_packet_goes_where_another_one_asked(way: tuple[lk.Lab, Program]) -> None:
    """All but those that begin a new round of the driver's work: they find no note, and are lost by name."""
    lab, receiver = way
    said = sent(lab, "asked_by_another").verdicts() or {}
    ledger = lab.ledger()
    assert said["XDP_DROP"] + said["XDP_REDIRECT"] == N
    assert ledger.unaccounted == 0
    assert 0 < came(receiver) <= said["XDP_REDIRECT"]
    refused = lab["router"]["eth0"].driver_statistics()["rx_queue_0_drops"]
    assert came(receiver) + refused == said["XDP_REDIRECT"]


def test_every_lane_of_the_cost_loses_its_packets_where_it_should() -> None:
    found = lesson.redirect_cost(packets=503, turns=2)
    timed = found.timed
    places = {name: list(ledger.losses.items()) for name, ledger in timed.ledgers.items()}
    for name in (cost.DROP, cost.MISS, cost.ABORTED, cost.CALL, cost.INDEX):  # veth counts an abort as a drop
        assert places[name] == [("XDP drop (driver)", 503)], name
    assert places[cost.NOBODY] == [("broadcast to nobody", 503)]
    assert places[cost.TAKEN] == [("devmap XDP_DROP", 503)]
    assert places[cost.SENT] == places[cost.INDEX_SENT] == places[cost.PASSED] == [("XDP_DROP", 503)]
    assert (timed.unaccounted, timed.turns) == (0, 2)
    assert all(ns > 0 for turns in timed.turns_ns.values() for ns in turns)
    assert re.search(r"drop \d+, empty slot, drop \d+, call, drop \d+", found.clock)
    assert f"{found.redirect_ns:.1f}" in str(found)


@pytest.mark.parametrize(("packets", "turns"), [(0, None), ("many", None), (101, 0), (101, True)])
def test_what_can_not_be_measured_is_refused_by_name(packets: object, turns: object) -> None:
    with pytest.raises(LessonError, match="packets" if turns is None else "turns"):
        lesson.redirect_cost(packets=packets, turns=turns)  # type: ignore[arg-type]


def test_an_effect_needs_a_cost() -> None:
    with pytest.raises(LessonError, match=r"12.7 is no cost") as caught:
        lesson.effect_on_lessons(12.7)  # type: ignore[arg-type]
    assert "redirect_cost()" in (caught.value.remedy or "")


def test_the_lessons_programs_and_the_one_that_qualifies() -> None:
    measured = lesson.redirect_cost(packets=101, turns=1)
    found = lesson.effect_on_lessons(measured, packets=503, turns=1)
    assert found.qualified == ("counted_before",)
    assert len(found.reports) == 12
    assert found.timed.unaccounted == 0
    assert all(ledger.losses == {"XDP_DROP": 503} for ledger in found.timed.ledgers.values())
    table = found.table()
    assert all(bool(row[2]) != (row[1] == "yes") for row in table.rows), "each no has its reason"
    assert sum(row[3] is not None for row in table.rows) == len(found.timed.turns_ns)


def test_every_program_of_the_lessons_that_redirects_calls_the_map() -> None:
    for (file, _), report in lesson_reports().items():
        assert report.sites, file
        assert not report.mixes, file


def test_the_kernels_own_form_of_the_calls(way: tuple[lk.Lab, Program]) -> None:
    lab, _ = way
    spec = lk.compile(path="bpf/fast_cost.c")
    shown = lesson.calls_in_the_kernel(lab.load(spec, "fast_send"), lab.load(spec, "fast_by_index"))
    if isinstance(shown, Unseen):
        assert "root" in str(shown)
        return
    assert [row[0] for row in shown.rows] == ["fast_send", "fast_by_index"]
    assert [row[1] for row in shown.rows] == ["bpf_redirect_map", "bpf_map_lookup_elem, bpf_redirect"]
    assert all("redirect" in str(row[2]) for row in shown.rows)
