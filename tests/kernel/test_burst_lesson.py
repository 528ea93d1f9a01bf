"""Lesson 07 on the real kernel: a burst overflows a queue exactly, by two witnesses, and the exercise knows who counts it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import labkit as lk
from labkit.lesson import ring_model
from labkit.lesson.python_answer import AnswerError

SOLUTION = Path(__file__).resolve().parents[2] / "notebooks" / "solutions" / "what_became.py"
COUNTS = "who-counts-it"
PLACES = 256  # VETH_RING_SIZE, drivers/net/veth.c


@pytest.fixture(autouse=True)
def progress(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDP_LAB_PROGRESS", str(tmp_path / "progress.json"))


def test_a_burst_finds_as_many_places_as_there_are() -> None:
    found = ring_model.bursts_into_a_queue((251, 257, 509))
    for copies, arrived, lost, received, refused, unaccounted in found.table.rows:
        assert (arrived, lost) == (received, refused) == (min(copies, PLACES), max(0, copies - PLACES))
        assert unaccounted == 0
    assert found.answers == {"ring-burst": PLACES}


@pytest.mark.parametrize("wrong", [0, 1_025, "many", True])
def test_a_burst_that_can_t_be_is_refused(wrong: Any) -> None:
    with pytest.raises(lk.LabError, match="copies"):
        ring_model.bursts_into_a_queue((wrong,))


def edited(old: str, new: str) -> str:
    text = SOLUTION.read_text()
    assert old in text
    return text.replace(old, new)


@pytest.mark.parametrize(
    ("old", "new", "row", "look"),
    [
        ('came["rx_queue_0_xdp_packets"]', 'sending["tx_packets"]', "finds room", "received"),
        ('came["rx_queue_0_drops"]', "0", "nobody there", "refused"),
        ('sending["tx_queue_0_xdp_xmit_errors"]', "0", "too little", "ring full"),
        (
            'changed["server eth0"].get("rx_queue_0_xdp_packets", 0)',
            'changed["server eth0"].get("rx_queue_0_xdp_drops", 0)',
            "into a socket",
            "arrived",
        ),
        ('"refused":', '"lost":', "one at a time", "what you return"),
    ],
)
def test_a_wrong_counter_is_seen(old: str, new: str, row: str, look: str) -> None:
    result = lk.check(COUNTS, edited(old, new))
    assert result.error is None, str(result)
    assert any(row in each.what for each in result.rows if not each.good), str(result)
    assert result.looks[0].startswith(look), str(result)


def test_the_interface_counts_a_full_queue_too() -> None:
    assert lk.check(
        COUNTS, edited('sending["tx_queue_0_xdp_xmit_errors"]', 'sending["tx_dropped"]'), strict=True
    ).passed


@pytest.mark.parametrize("answer", [lambda changed: None, lambda changed: dict.fromkeys(("received", "arrived"), "1")])
def test_rubbish_is_no_answer(answer: Any) -> None:
    result = lk.check(COUNTS, answer)
    assert not result.passed
    assert result.error is None


def test_a_function_that_goes_round_for_ever_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("labkit.lesson.ring_model.bounded.PATIENCE_S", 0.3)

    def round_and_round(changed: Any) -> None:
        while changed:
            pass

    result = lk.check(COUNTS, round_and_round)
    assert isinstance(result.error, AnswerError)
    assert "did not return" in result.error.message
