"""The exercise spread-flows: plausible mistakes are seen and named, with several CPUs and with one."""

from __future__ import annotations

from pathlib import Path

import pytest

import labkit as lk
from labkit import lesson
from labkit.lesson.workshop import usable_cpus

ROOT = Path(__file__).resolve().parents[2]
ID = "spread-flows"
CHOICE = "(u64)hash * *count >> 32"


@pytest.fixture(autouse=True)
def progress(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDP_LAB_PROGRESS", str(tmp_path / "progress.json"))


@pytest.fixture(params=["one CPU", "all CPUs"])
def cpus(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """As many CPUs as there are, and only one of them: the exercise is the same."""
    if request.param == "one CPU":
        monkeypatch.setattr("labkit.lesson.workshop.usable_cpus", lambda: (0,))
    elif len(usable_cpus()) < 2:
        pytest.skip("one CPU only: run the tests where there are two or more")
    return str(request.param)


def solution() -> str:
    return (ROOT / "notebooks" / "solutions" / "spread_flows.c").read_text()


def edited(old: str, new: str) -> str:
    assert old in solution()
    return solution().replace(old, new)


def test_stub_fails_and_solution_passes(cpus: str) -> None:
    stub = lk.check(ID)
    assert not stub.passed
    assert len(stub.looks) < 4
    assert "what is the same in all packets of a flow?" in stub.looks[0]
    assert lk.check(ID, solution(), strict=True).passed


@pytest.mark.parametrize(
    ("old", "new", "row", "look"),
    [
        ("hash ^= (u32)ports->source << 16 | ports->dest;", ";", "64 source ports: flows by CPU", "the ports are part"),
        (
            "hash = ip->saddr ^ ip->daddr ^ ip->protocol;",
            "hash = ip->protocol;",
            "64 source addresses: flows by CPU",
            "the addresses are part",
        ),
        ("0x3fff", "0x1fff", "fragments", "later ones have no ports"),
        ("!(ip->frag_off & htons(0x3fff))", "1", "fragments", "later ones have no ports"),
        ("if (ip->protocol == IPPROTO_UDP || ip->protocol == IPPROTO_TCP)", "if (1)", "ping", "ICMP has no ports"),
        (
            "next_udp(&at)",
            "(void *)(eth + 1) + 28 <= at.end ? (void *)(eth + 1) + 20 : NULL",
            "IPv4 options",
            "ip->ihl * 4",
        ),
        (CHOICE, "hash % *count", "64 source ports: flows by CPU", "which bits of your number decide?"),
        ("^ ip->protocol;", "^ ip->protocol ^ ip->id;", "one flow, 7 × UDP", "what is the same in all packets"),
        (CHOICE, "(u64)hash * 2 >> 32", "cpus_in_use is 1", "cpus_in_use says how many"),
        ("return verdict(ctx, XDP_PASS)", "return verdict(ctx, XDP_DROP)", "ARP", "not IPv4"),
    ],
)
def test_a_mistake_is_seen_and_named(cpus: str, old: str, new: str, row: str, look: str) -> None:
    result = lk.check(ID, edited(old, new))
    assert result.error is None, str(result)
    assert any(row in wrong.what for wrong in result.rows if not wrong.good), str(result)
    assert look in result.looks[0], result.looks
    assert len(result.looks) < 4


def test_slots_that_nobody_filled() -> None:
    if len(usable_cpus()) < 2:
        pytest.skip("with one CPU an empty slot stands for the second: run the tests where there are two or more")
    result = lk.check(ID, edited(CHOICE, "hash >> 26"))
    assert result.error is None, str(result)
    assert any("on no CPU" in row.seen for row in result.rows)
    assert "the slots behind are empty" in result.looks[0]


@pytest.mark.parametrize(("old", "new"), [("LAB_CPUMAP(cpus", "LAB_CPUMAP(others"), ("cpus_in_use", "how_many")])
def test_maps_of_other_names_are_named(old: str, new: str) -> None:
    text = edited(old, new)
    result = lk.check(ID, text.replace(" cpus.redirect", " others.redirect") if "others" in new else text)
    assert result.error is None, str(result)
    assert "the maps as the stub has them" in result.looks[0]


def test_hints_end_with_nearly_the_answer() -> None:
    hints = lesson.exercise(ID).hints
    assert len(hints) == 4
    assert ">> 32" in hints[-1]
