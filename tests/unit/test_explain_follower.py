"""What the follower works out by itself: moved ends, metadata, and programs that a kernel without a helper wouldn't take."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from labkit.analysis import assemble as asm
from labkit.analysis.code import Origin, build
from labkit.analysis.from_spec import code_of_spec
from labkit.compile import compile_source
from labkit.follow.answers import Answers
from labkit.follow.buffer import HEADROOM, Buffer, longest_frame
from labkit.follow.copies import Content, with_answers
from labkit.follow.follower import Follower

ROOT = Path(__file__).resolve().parents[2]


def buffer(frame: bytes, metadata: bytes = b"") -> Buffer:
    return Buffer(bytearray(Buffer.page()), frame, metadata)


def test_metadata_comes_in_whole_words_up_to_what_there_is_room_for() -> None:
    moved = buffer(bytes(64))
    assert (moved.adjust_meta(-8), len(moved.metadata)) == (0, 8)
    assert moved.adjust_meta(-2) == -errno.EACCES
    assert moved.adjust_meta(9) == -errno.EINVAL  # beyond data
    assert moved.adjust_meta(-HEADROOM) == -errno.EINVAL
    assert (moved.adjust_meta(8), moved.metadata) == (0, b"")


def test_a_frame_that_grows_in_front_takes_its_metadata_along() -> None:
    moved = buffer(bytes(range(64)), b"note")
    assert moved.adjust_head(-4) == 0
    assert (moved.metadata, moved.frame[4:]) == (b"note", bytes(range(64)))
    assert moved.adjust_head(64 + 4 - 13) == -errno.EINVAL  # less than an Ethernet header would be left


def test_a_frame_grows_behind_with_zeroes_as_far_as_the_page_goes() -> None:
    moved = buffer(b"\xff" * 64)
    assert (moved.adjust_tail(-50), moved.adjust_tail(8)) == (0, 0)
    assert moved.frame == b"\xff" * 14 + bytes(8)
    assert moved.adjust_tail(longest_frame() - 22) == 0
    assert moved.adjust_tail(1) == -errno.EINVAL


@pytest.mark.parametrize("mark", [0, 7])
def test_a_note_is_written_before_the_packet(mark: int) -> None:
    """bpf/meta_write.c, without the kernel: not every one takes bpf_xdp_adjust_meta."""
    spec = compile_source(path=ROOT / "bpf" / "meta_write.c")
    plan = {bytes(4): mark.to_bytes(4, "little") + bytes(12)}
    maps = {name: Content(each, plan if name == "plan" else {}) for name, each in spec.maps.items()}
    followed = Follower(code_of_spec(spec), bytes(64), b"", maps, Answers({}, {}, 0, (1, 0), lambda job: job()))
    assert followed.run().verdict == 2
    assert followed.buffer.metadata == (mark.to_bytes(4, "little") + bytes(4) if mark else b"")
    assert followed.buffer.frame == bytes(64)


def test_a_call_becomes_a_call_of_a_number_and_nothing_moves() -> None:
    code = asm.call(5) + asm.alu("mov", 6, src=0) + asm.call(8) + asm.call(5) + asm.alu("xor", 0, src=6) + asm.exit_()
    given = with_answers(code, {5: 0x1234_5678_9ABC_DEF0, 7: 1})
    assert len(given) == len(code) + 3 * 8  # a wide load and an exit, once
    assert given[16:24] == code[16:24]
    program = build("told", given, origin=Origin.SPEC)
    assert [each.start for each in program.functions] == [0, 6]
    answers = Answers({}, {}, 3, (1, 0), lambda job: job())
    assert Follower(program, bytes(64), b"", {}, answers).run().result == 0
