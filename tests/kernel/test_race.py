"""Races: every lane accounted for, timed without the probe that would slow the lanes behind the driver."""

from __future__ import annotations

import contextlib

import pytest

import labkit as lk
from labkit import lesson
from labkit.errors import LessonError, TrafficError


def test_lanes_take_turns_and_balance(lab: lk.Lab, verdicts: lk.ProgramSpec) -> None:
    dropping, passing = lab.load(verdicts, "drop"), lab.load(verdicts, "pass")
    server = lab["server"]["eth0"]
    lanes = {"drop": lambda: dropping.attach(server), "pass": lambda: passing.attach(server)}
    found = lesson.race(lab, lanes, lk.udp(lab["client"], lab["server"]), packets=5_003, runs=3)
    assert found.unaccounted == 0
    assert found["drop"].ledger.losses == {"XDP_DROP": 5_003}
    assert found["pass"].ledger.losses == {"NO_SOCKET": 5_003}
    assert [len(lane.runs_mpps) for lane in found.lanes] == [3, 3]
    assert (dropping.verdicts() or {})["XDP_DROP"] == 4 * 5_003
    assert lab.attached == []


def test_a_lane_that_loses_packets_namelessly_is_no_lane(lab: lk.Lab) -> None:
    """A program that drops by TC while nobody may listen to drop reasons: the race refuses to give a rate."""

    @contextlib.contextmanager
    def deaf():  # type: ignore[no-untyped-def]
        with lesson.places.tc_drop(lab, lab["server"]["eth0"]), lab.observer.without_drop_reasons():
            yield

    with pytest.raises(TrafficError, match="'deaf', 1,009 of 1,009 packets are unaccounted for"):
        lesson.race(lab, {"deaf": deaf}, lk.udp(lab["client"], lab["server"]), packets=1_009, runs=1)


def test_without_drop_reasons_nothing_is_named_and_afterwards_it_is_again(lab: lk.Lab) -> None:
    client, server = lab["client"], lab["server"]
    with lab.observer.without_drop_reasons():
        lk.send_frames(client["eth0"], lk.udp(client, server), 31)
        assert lab.ledger(settle_s=0.05).unaccounted == 31
    lab.reset()
    lk.send_frames(client["eth0"], lk.udp(client, server), 31)
    assert lab.ledger().losses == {"NO_SOCKET": 31}


@pytest.mark.parametrize(("lanes", "runs"), [({}, 1), ({"a": contextlib.nullcontext}, 0)])
def test_no_race(lab: lk.Lab, lanes: dict[str, type[contextlib.nullcontext[None]]], runs: int) -> None:
    with pytest.raises(LessonError, match="needs lanes and runs"):
        lesson.race(lab, lanes, lk.udp(lab["client"], lab["server"]), runs=runs)
