"""The exercises of lesson 06: each plausible mistake is seen, by packets and by pages, and its cause named.

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
HOME, FEW = "send-pages-home", "few-pages-out"


@pytest.fixture(autouse=True)
def progress(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDP_LAB_PROGRESS", str(tmp_path / "progress.json"))


def read_empty(sock: Any) -> list[bytes]:
    found = []
    try:
        while True:
            found.append(sock.recv(65536))
    except BlockingIOError:
        return found


def only_udp(sockets: Any) -> list[bytes]:
    return [*read_empty(sockets[0]), *read_empty(sockets[1])]


def closes_all(sockets: Any) -> list[bytes]:
    for sock in sockets:
        sock.close()
    return []


def first_only(sockets: Any) -> list[bytes]:
    sockets[2].close()
    return read_empty(sockets[0])


def a_few(sockets: Any) -> list[bytes]:
    sockets[2].close()
    return [sock.recv(65536) for sock in sockets[:2] for _ in range(10)]


def everything(sockets: Any) -> list[bytes]:
    return [datagram for sock in sockets for datagram in read_empty(sock)]


def counts(sockets: Any) -> int:
    return len(everything(sockets))


@pytest.mark.parametrize(
    ("answer", "row", "look"),
    [
        (only_udp, "pages away", "AF_PACKET"),
        (closes_all, "datagrams that you returned", "closing a socket"),
        (first_only, "second UDP socket", "the other UDP socket"),
        (a_few, "first UDP socket", "when a socket is empty"),
        (everything, "datagrams that you returned", "what you return"),
        (counts, "these are", "closing a socket|what you return"),
    ],
)
def test_a_wrong_way_home_is_seen(answer: Callable[[Any], Any], row: str, look: str) -> None:
    result = lk.check(HOME, answer)
    assert result.error is None, str(result)
    assert any(row in each.what for each in result.rows if not each.good), str(result)
    assert any(each in result.looks[0] for each in look.split("|")), str(result)
    assert len(result.looks) <= 2


def test_the_capture_may_be_read_instead_of_closed() -> None:
    def reads_it(sockets: Any) -> list[bytes]:
        found = only_udp(sockets)
        read_empty(sockets[2])
        return found

    assert lk.check(HOME, reads_it, strict=True).passed


def test_a_function_that_waits_for_ever_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("labkit.lesson.buffers.homecoming._PATIENCE_S", 0.3)

    def waits(sockets: Any) -> list[bytes]:
        sockets[0].setblocking(True)
        return [sockets[0].recv(65536) for _ in range(1_000)]

    result = lk.check(HOME, waits)
    assert isinstance(result.error, AnswerError)
    assert "did not return" in result.error.message


def edited(*changes: tuple[str, str]) -> str:
    text = (SOLUTIONS / lesson.exercise(FEW).file_name).read_text()
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return text


OUT, COUNT = "*out - *read >= *limit", "\t*out += 1;\n"
UDP = "if (!ip || ip->protocol != IPPROTO_UDP)\n\t\treturn verdict(ctx, XDP_PASS);\n"


@pytest.mark.parametrize(
    ("changes", "row", "look"),
    [
        ([(OUT, "*out - *read > *limit")], "nobody reads", "the limit"),
        ([(OUT, "0")], "nobody reads", "nothing is dropped yet"),
        ([(OUT, "*out >= *limit")], "were read", "what has come home"),
        ([(OUT, "*out - *read == *limit")], "most is", "a limit that is lowered"),
        (
            [(COUNT, ""), (f"\tif ({OUT}", f"\t*out += 1;\n\tif ({OUT.replace('>=', '>')}")],
            "were read",
            "what you count",
        ),
        ([(COUNT, "")], "nobody reads", "what you count"),
        ([(UDP, "if (!eth)\n\t\treturn verdict(ctx, XDP_PASS);\n")], "room for 7", "what is no UDP"),
        ([(UDP, UDP.replace("XDP_PASS", "XDP_DROP"))], "ARP", "what is no UDP"),
        ([("XDP_DROP", "XDP_ABORTED")], "aborted", "how you refuse"),
    ],
)
def test_a_wrong_limit_is_seen(changes: list[tuple[str, str]], row: str, look: str) -> None:
    result = lk.check(FEW, edited(*changes))
    assert result.error is None, str(result)
    assert any(row in each.what for each in result.rows if not each.good), str(result)
    assert any(look in each for each in result.looks), str(result)
    assert len(result.looks) <= 3


def test_maps_that_are_missing_are_named() -> None:
    text = '#include "common/verdict.h"\nint few_out(struct xdp_md *ctx) { return verdict(ctx, XDP_DROP); }\n'
    result = lk.check(FEW, text)
    assert [row.what for row in result.rows] == ["the map most", "the map taken", "the map passed"]


@pytest.mark.parametrize("id", [HOME, FEW])
def test_hints_go_from_a_nudge_to_nearly_the_answer(id: str) -> None:
    assert len(set(lesson.exercise(id).hints)) >= 3
