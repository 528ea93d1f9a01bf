"""A driver's answers in words: above all, no time is never a number."""

from __future__ import annotations

import errno
import random

import pytest

from labkit.errors import LessonError
from labkit.lesson.hints_driver_words import Answer, code_words, hash_words, timestamp_of, timestamp_words, vlan_words

NONE_HERE, NONE_EVER = -errno.ENODATA, -errno.EOPNOTSUPP
SEED = 20_230_119


@pytest.mark.parametrize(
    ("code", "value", "words"),
    [
        (0, 0, "no time (answered, with 0)"),
        (NONE_HERE, 0, "no time (ENODATA: this packet has none)"),
        (NONE_EVER, 0, "no time (EOPNOTSUPP: this driver has none for any packet)"),
        (NONE_HERE, 12_345, "no time (ENODATA: this packet has none)"),
        (0, 1_500_000_000, "received at 1.500000000 s of the device's clock"),
    ],
)
def test_a_timestamp_in_words(code: int, value: int, words: str) -> None:
    assert timestamp_words(code, value) == words
    assert (timestamp_of(code, value) is None) == words.startswith("no time")


def test_only_an_answer_that_is_not_zero_is_a_time() -> None:
    random.seed(SEED)
    for _ in range(2_003):
        code = random.choice([0, 0, NONE_HERE, NONE_EVER, -random.randrange(1, 134)])
        value = random.choice([0, random.randrange(1 << 64)])
        found = timestamp_of(code, value)
        assert found == (value if code == 0 and value else None)
        assert timestamp_words(code, value).startswith("no time" if found is None else "received at")


def test_codes() -> None:
    assert code_words(0) == "answered"
    assert code_words(NONE_HERE) == "ENODATA: this packet has none"
    assert code_words(NONE_EVER) == "EOPNOTSUPP: this driver has none for any packet"
    assert code_words(-errno.EINVAL) == "EINVAL: refused"
    for wrong in (1, True, "0", None, 0.0):
        with pytest.raises(LessonError, match="no return code"):
            code_words(wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("code", "type", "words"),
    [
        (0, 0, "a hash, of what it doesn't say (type 0)"),
        (0, 8, "a hash, ports in it (type 8)"),
        (0, 1 | 8 | 32, "a hash of IPv4 addresses, ports, UDP (type 41)"),
        (0, 2, "a hash of IPv6 addresses (type 2)"),
        (0, 1 << 20, "a hash, of what it doesn't say (type 1048576)"),
        (NONE_HERE, 8, "no hash (ENODATA: this packet has none)"),
    ],
)
def test_a_hash_in_words(code: int, type: int, words: str) -> None:
    assert hash_words(code, type) == words


def test_a_tag_in_words() -> None:
    assert vlan_words(0, 3 << 13 | 10) == "tag 10, priority 3"
    assert vlan_words(0, 0x0FFF) == "tag 4095, priority 0"
    assert vlan_words(NONE_HERE, 10) == "no tag (ENODATA: this packet has none)"


def test_an_answer_of_the_map() -> None:
    key = {
        "hash_code": 0,
        "hash_type": 8,
        "timestamp_code": 0,
        "timestamp_set": 0,
        "vlan_code": NONE_HERE,
        "vlan_tci": 0,
        "frame_proto": 0x8100,
    }
    answer = Answer.of(key, {"packets": 101, "timestamp_ns": 0, "hash": 0x1234})
    assert answer.codes == (0, 0, NONE_HERE)
    assert answer.words[1] == "no time (answered, with 0)"
    assert answer.in_the_frame == "0x8100, a VLAN tag"
    assert answer.packets == 101
