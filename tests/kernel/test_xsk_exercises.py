"""The exercises of lesson 08, functions in Python: each plausible mistake is seen, and its cause named.

That stubs fail and solutions pass, tests/kernel/test_exercises.py shows for every exercise.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import labkit as lk
from labkit import lesson
from labkit.lesson.python_answer import AnswerError

SOLUTIONS = Path(__file__).resolve().parents[2] / "notebooks" / "solutions"
RECEIVER, SENDER, RESPONDER = "fill-the-fill-ring", "stalled-transmitter", "answer-requests"


@pytest.fixture(autouse=True)
def progress(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDP_LAB_PROGRESS", str(tmp_path / "progress.json"))


def edited(id: str, *changes: tuple[str, str]) -> str:
    text = (SOLUTIONS / lesson.exercise(id).file_name).read_text()
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return text


BACK = "xsk.recycle(batch)"
WAIT = "    while xsk.transmit_waiting:\n        xsk.kick()\n        xsk.complete()\n"
ASKED = ' and frame[20:22] == b"\\x00\\x01"'
FOR_US = " and frame[38:42] == ip"
REPLY = 'b"\\x00\\x02" + mac + ip + asks'
WHOM = '(version, protocol, to, icmp) == (b"\\x45", b"\\x01", ip, b"\\x08")'
ADDRESSES = "ip + frame[26:30]"
FOLD = "(total & 0xFFFF) + (total >> 16)"

MISTAKES = [
    (RECEIVER, [(BACK, "xsk.recycle(batch[:1])")], "packets taken", "how many"),
    (RECEIVER, [(BACK, "xsk.recycle(batch[1:])")], "ring afterwards", "how many"),
    (RECEIVER, [(BACK, "xsk.umem.give_back(batch.addresses)")], "packets taken", "where you give them back"),
    (RECEIVER, [(BACK, "xsk.recycle(batch[:1]); xsk.recycle(batch)")], "two places", "how often"),
    (RECEIVER, [("return len(batch)", "return None")], "you said", "what you return"),
    (RECEIVER, [("xsk.take(64)", "xsk.take(0)")], "left in the receive ring", "the receive ring"),
    (SENDER, [(WAIT, "")], "driver saw", "the kernel: packets lie"),
    (SENDER, [(WAIT, "    xsk.kick()\n    xsk.complete()\n")], "handed over|driver saw", "how often"),
    (SENDER, [("        xsk.complete()\n", ""), ("    xsk.complete()\n", ""), ("while", "if")], "driver", "the completion ring"),
    (SENDER, [("xsk.transmit(batch,", "xsk.transmit(batch[:0],")], "handed over", "the transmit ring"),
    (SENDER, [("return queued", "return None")], "you said", "what you return"),
    (RESPONDER, [(ASKED, "")], "an ARP reply", "what is asked"),
    (RESPONDER, [(FOR_US, "")], "10.0.1.78", "whom the question is for"),
    (RESPONDER, [(REPLY, 'b"\\x00\\x01" + mac + ip + asks')], "the operation", "the ARP answer"),
    (RESPONDER, [(WHOM, '(version, protocol, icmp) == (b"\\x45", b"\\x01", b"\\x08")')], "a ping of", "whom the ping is for"),
    (RESPONDER, [(WHOM, '(version, protocol, to) == (b"\\x45", b"\\x01", ip)')], "an echo reply", "what is asked"),
    (RESPONDER, [(WHOM, '(version, to, icmp) == (b"\\x45", ip, b"\\x08")')], "a UDP datagram", "what is asked"),
    (RESPONDER, [(ADDRESSES, "frame[26:34]")], "8 bytes", "the echo reply"),
    (RESPONDER, [(FOLD, "total & 0xFFFF")], "overflows", "the checksum"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("id", "changes", "rows", "look"), MISTAKES, ids=[f"{m[0]}-{i}" for i, m in enumerate(MISTAKES)]
)
def test_a_mistake_is_seen_and_its_cause_named(id: str, changes: list[tuple[str, str]], rows: str, look: str) -> None:
    result = lk.check(id, edited(id, *changes))
    assert result.error is None, str(result)
    wrong = [row.what for row in result.rows if not row.good]
    assert any(row in what for what in wrong for row in rows.split("|")), str(result)
    assert look in result.looks[0], str(result)
    assert len(result.looks) <= 3, result.looks


def test_ways_that_are_as_good() -> None:
    def drops(xsk: Any) -> int:
        return int(xsk.drop())

    def one_at_a_time(xsk: Any) -> int:
        batch = xsk.take(1)
        xsk.recycle(batch)
        return len(batch)

    def flushes(xsk: Any, batch: Any) -> int:
        queued = xsk.transmit(batch)
        xsk.flush()
        xsk.complete()
        return int(queued)

    for id, function in ((RECEIVER, drops), (RECEIVER, one_at_a_time), (SENDER, flushes)):
        assert lk.check(id, function, strict=True).passed


def raises(*_: object) -> int:
    raise ValueError("not today")


def waits_for_ever(xsk: Any) -> int:
    while True:
        xsk.take()


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (raises, "ValueError: not today"),
        ("def receive_turn(xsk)\n    return 0\n", "SyntaxError"),
        ("def another(xsk):\n    return 0\n", "There is no function receive_turn"),
        (7, "7 is no function"),
        ("no/such/file.py", "is no function"),
        ("def receive_turn():\n    return 0\n", "TypeError"),
        ("def receive_turn(xsk):\n    xsk.recycle(7)\n", "XskError"),
    ],
)
def test_what_is_no_answer_is_told_kindly(answer: Any, said: str) -> None:
    result = lk.check(RECEIVER, answer)
    assert not result.passed
    assert result.error is not None
    assert said in result.error.message
    assert result.error.remedy
    assert result.sentence.startswith("Not yet: your program")


def test_a_function_that_does_not_return_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("labkit.lesson.xsk_trial._PATIENCE_S", 0.2)
    result = lk.check(RECEIVER, waits_for_ever)
    assert isinstance(result.error, AnswerError)
    assert "did not return" in result.error.message


@pytest.mark.parametrize("answer", [lambda *_: "text", lambda *_: b"short", lambda *_: 7])
def test_an_answer_that_is_no_frame(answer: Callable[..., object]) -> None:
    result = lk.check(RESPONDER, answer)
    assert isinstance(result.error, AnswerError)
    assert "which is no frame" in result.error.message


def test_hints_go_from_a_nudge_to_nearly_the_answer() -> None:
    for id in (RECEIVER, SENDER, RESPONDER):
        hints = lesson.exercise(id).hints
        assert len(set(hints)) == len(hints) >= 3
