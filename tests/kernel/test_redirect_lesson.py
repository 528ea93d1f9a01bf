"""What lesson 02 measures, small: every packet of every run accounted for, and each loss in its place."""

from __future__ import annotations

from importlib import import_module

import pytest

import labkit as lk
from labkit import lesson
from labkit.errors import LessonError, TrafficError
from labkit.lesson import tracing
from labkit.lesson.overrun import Fate, Overrun
from labkit.lesson.race import Lane
from labkit.lesson.turns import Turn, must_balance, take_turns
from labkit.observe.ledger import Ledger, Row

N = 10_007  # prime
RUNS = 2

# 3 µs a packet: slower than any sender.
SLOW = """\
#include "common/verdict.h"

int slow(struct xdp_md *ctx)
{
	u64 until = bpf_ktime_get_ns() + 3000;

	for (int i = 0; i < 1000 && bpf_ktime_get_ns() < until; i++)
		;
	return verdict(ctx, XDP_DROP);
}
"""


def ledgers(found: lesson.Paired) -> dict[str, dict[str, int]]:
    return {lane.name: lane.ledger.losses for lane in found.lanes}


@pytest.fixture
def withheld(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where an instructor withholds tracing programs; that it is so in a real sandbox, tests/notebooks show."""
    for module in ("overrun", "redirect_costs", "tracing"):
        found = import_module(f"labkit.lesson.{module}")  # labkit.lesson.overrun is the function
        monkeypatch.setattr(found, "untraced", lambda lab: "Tracing programs don't run here")


def test_who_can_receive() -> None:
    table = lesson.who_can_receive(509)
    assert [row[:2] for row in table.rows] == [
        (how, end) for how in ("bpf_redirect_map", "XDP_TX") for end in ("nothing", "a program that passes", "GRO")
    ]
    assert [row[2] for row in table.rows] == ["509 XDP_REDIRECT"] * 3 + ["509 XDP_TX"] * 3, "they all say the same"
    assert [row[3] for row in table.rows] == [0, 509, 509, 0, 509, 0]
    assert [row[5] for row in table.rows] == [0] * 6, str(table)
    assert "EOPNOTSUPP" in str(table.rows[0][4])
    assert "ENXIO" in str(table.rows[3][4])
    assert "in flight" in str(table.rows[5][4])


def test_an_overrun_and_what_holding_back_makes_of_it() -> None:
    found = lesson.overrun(lk.compile(text=SLOW), hold_us=(50,), packets=50_021, runs=RUNS)
    assert found.unaccounted == 0
    assert list(found.lanes) == ["as it is", "hold back 50 µs"]
    for runs in found.lanes.values():
        assert len(runs) == RUNS
        for run in runs:
            assert run.sent == 2 * 50_021
            assert run.arrived + run.full + run.early == run.sent
    assert all(run.early == 0 for run in found.lanes["as it is"])
    assert found.effect in ("more", "about as many", "fewer")
    assert found.changed["router eth2", "tx_dropped"] <= found.lanes["as it is"][-1].full
    assert "ring full" in str(found)
    assert "<svg" in found._repr_html_()


def test_the_ring_overruns() -> None:
    """Two CPUs at once: on a machine that gives the senders their CPUs, within a few runs."""
    for _ in range(10):
        found = lesson.overrun(lk.compile(text=SLOW), hold_us=(), packets=50_021, runs=1)
        if full := found.lanes["as it is"][0].full:
            # Plain additions of two CPUs: the driver may count fewer.
            assert 0 < found.changed["router eth2", "tx_dropped"] <= full
            assert 0 < found.changed["router eth2", "tx_queue_0_xdp_xmit_errors"] <= full
            assert found.changed["router eth0", "rx_dropped"] == 0, "where the programs are nothing is to be seen"
            return
    pytest.fail("ten times two senders, and the ring was never full")


def test_without_tracing_an_overrun_has_one_lane_and_says_why(withheld: None) -> None:
    found = lesson.overrun(lk.compile(text=SLOW), packets=1_009, runs=1)
    assert list(found.lanes) == ["as it is"]
    assert found.effect == "it can't be shown here"
    assert "hold_back would not learn of a loss" in str(found)
    assert "hold_back would not learn of a loss" in found._repr_html_()


def test_effects_go_by_pairs_of_rates() -> None:
    def lane(*rates: int) -> tuple[Fate, ...]:
        return tuple(Fate(2000, rate, 2000 - rate, 0, 1.0) for rate in rates)

    with lk.Lab(lk.Topology.pair(), name="test") as lab:
        changed = lk.what_changed(lab)
    found = {
        effect: Overrun(1000, {"as it is": lane(1000, 500, 1000), "held": lane(*rates)}, changed).effect
        for effect, rates in (("more", (1300, 700, 900)), ("fewer", (700, 350, 1000)), ("same", (1000, 500, 10)))
    }
    assert found == {"more": "more", "fewer": "fewer", "same": "about as many"}


def test_what_a_loss_costs_has_each_loss_in_its_place() -> None:
    found = lesson.cost_of_a_loss(packets=N, runs=RUNS)
    assert ledgers(found) == {
        "dropped at the entry": {"XDP_DROP": N},
        "sent on, then lost": {"redirect ENXIO": N},
        "routed, then lost": {"redirect ENXIO": N},
    }
    assert [len(lane.runs_mpps) for lane in found.lanes] == [RUNS] * 3
    assert found.unaccounted == 0


def test_observers_alter_nothing_but_the_rate() -> None:
    found = lesson.observing_costs(packets=N, runs=RUNS)
    names = ["nobody watches", "a program per bulk", "a program per packet", "a line per packet"]
    assert ledgers(found) == {name: {"XDP_DROP": N} for name in names}
    assert f"Of {RUNS * N:,} lines" in found.notes[0]
    assert found.ratio("nobody watches") == 1
    assert found.more_ns("nobody watches") == 0


def test_without_tracing_nobody_watches(withheld: None) -> None:
    found = lesson.observing_costs(packets=1_009, runs=1)
    assert list(ledgers(found)) == ["nobody watches"]
    assert "what observing costs can't be shown" in str(found)
    assert "what observing costs can&#x27;t be shown" in found._repr_html_()


def test_redirects_by_index_and_by_map() -> None:
    found = lesson.redirect_race(packets=N, runs=RUNS)
    assert set(map(str, ledgers(found).values())) == {str({"XDP_DROP": N})}
    assert len(found.lanes) == 4
    assert "of the first" in str(found)
    assert "<svg" in found._repr_html_()


def test_ratios_are_medians_over_pairs() -> None:
    ledger = Ledger([Row("sent", "sent", "sent", "", 1, "")])
    found = lesson.Paired("test", 1, (Lane("a", (1.0, 2.0, 4.0), ledger), Lane("b", (2.0, 2.0, 8.0), ledger)))
    assert found.ratio("b") == 2.0  # of 2, 1 and 2
    assert found.ratio("a", "b") == 0.5
    assert found.more_ns("b") == pytest.approx(-125.0)  # of -500, 0 and -125
    assert "200 %" in str(found)


def test_a_run_that_does_not_balance_gives_no_rate(lab: lk.Lab) -> None:
    lost = Ledger([Row("sent", "sent", "sent", "", 101, ""), Row("loss", "XDP_DROP", "", "", 100, "")])
    with pytest.raises(TrafficError, match=r"lane 'a', 1 of 101 packets are unaccounted for"):
        must_balance("a", lost, 101)
    with pytest.raises(LessonError, match="needs lanes and runs"):
        take_turns(lab["client"]["eth0"], b"", {}, packets=1, runs=1, title="")
    with pytest.raises(LessonError, match="needs lanes and runs"):
        take_turns(lab["client"]["eth0"], b"", {"a": Turn(lambda: lab)}, packets=1, runs=0, title="")


def test_what_needs_tracing_is_shown_or_told(lab: lk.Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    assert lesson.if_traced(lab, "it", lambda: 7) == 7

    def refuse(*_: object, **__: object) -> None:
        raise lk.PrivilegeError("No.", tried="to load", errno=1)

    monkeypatch.setattr(lab, "load", refuse)
    told = lesson.if_traced(lab, "it", lambda: 7)
    assert not told
    assert str(told) == tracing.untraced(lab) + ": it can't be shown."
    assert "it can&#x27;t be shown." in told._repr_html_()


def test_a_star_is_a_fanout_by_other_names() -> None:
    plan, star = lk.Topology.fanout(3), lesson.star("hub", "a", "b", "c")
    assert star.hosts == ("hub", "a", "b", "c")
    assert [(end.interface, end.address, end.mac) for end in star.ends()] == [
        (end.interface, end.address, end.mac) for end in plan.ends()
    ]
    assert [end.host for end in star.ends_of("hub")] == ["hub"] * 3
    assert lesson.two_to_one().hosts == ("router", "left", "right", "receiver")


def test_a_star_is_drawn_with_its_programs(verdicts: lk.ProgramSpec) -> None:
    with lk.Lab(lesson.star("hub", "a", "b", "c"), name="test") as lab:
        lab.load(verdicts, "drop").attach(lab["c"]["eth0"])
        lab.load(verdicts, "pass").attach(lab["hub"]["eth1"])
        drawn = lesson.draw_star(lab, left=2)
        full = lk.draw(lab).table
    assert drawn.table == full
    for words in ("hub", "eth2", "10.0.3.2", "drop (native XDP)", "pass (native XDP)"):
        assert words in drawn.svg
    assert "hub eth0 is wired to a eth0" in drawn.svg


def test_the_way_of_a_redirect_names_who_counts() -> None:
    drawn = lesson.redirect_path()
    assert "rx_queue_0_drops" in str(drawn)
    assert "tx_dropped" in str(drawn)
    assert "<svg" in drawn._repr_html_()


def test_a_mac_address_for_a_map(lab: lk.Lab) -> None:
    assert lesson.mac_value(lab["client"]["eth0"]) == {"bytes": [2, 0, 0, 0, 1, 1]}
