"""Lesson 04: bytes before the packet are carried, counted, refused, and part of no frame."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import labkit as lk
from labkit import lesson
from labkit.demo import run_demo
from labkit.errors import LessonError
from labkit.lesson import metadata_adjust as adjust
from labkit.lesson import metadata_gro as gro
from labkit.lesson.metadata_post import Post, Way
from labkit.lesson.metadata_ways import CONSUMERS
from labkit.uapi import AttachType, ProgType

BPF = Path(__file__).resolve().parents[2] / "bpf"
N = 503  # a prime


@pytest.fixture
def router() -> Iterator[lk.Lab]:
    """client – router – server."""
    with lk.Lab(lk.Topology.router(), name="test") as made:
        yield made


# By consumer: whether the note comes to it in native and in generic mode, on Linux 6.18.
ON_6_18 = {
    "TC ingress": (True, True),
    "TC egress, forwarded": (True, True),
    "XDP next host, forwarded": (False, False),
    "TC next host, forwarded": (True, True),
    "devmap program": (True, False),
    "XDP next host": (True, False),
    "TC next host": (True, False),
    "cpumap program": (True, False),
    "TC behind the cpumap": (True, False),
    "XDP at the sender": (True, False),
    "AF_XDP socket": (True, True),
}
# These hold since metadata exists; the others are what kernels differ in.
ANYWHERE = {
    "TC ingress": (True, True),
    "devmap program": (True, None),
    "XDP next host": (True, None),
    "cpumap program": (True, None),
    "XDP at the sender": (True, None),
}


def test_who_reads_metadata() -> None:
    ways = lesson.who_reads_metadata(N)
    assert [each.name for each in CONSUMERS] == list(ON_6_18)
    for (name, origin), reading in ways.readings.items():
        assert reading.sent == reading.right + reading.none + reading.other == N, (name, origin)
        assert reading.ledger.unaccounted == 0, (name, origin)
        assert reading.ledger.sent == N, (name, origin)
        if reading.right:
            assert reading.carried, (name, origin)  # each note once, by the sum of their numbers
    for name, (native, generic) in ANYWHERE.items():
        assert ways.arrives(name, adjust.GENERATED) is native, name
        assert ways.arrives(name, adjust.SOCKET) is native, name
        assert generic in (None, ways.arrives(name, adjust.GENERIC)), name
    if os.uname().release.startswith("6.18."):
        assert {name: (ways.arrives(name), ways.arrives(name, adjust.GENERIC)) for name in ON_6_18} == ON_6_18
    assert "XDP next host, forwarded (server eth0)" in ways.picture.description
    assert ways.picture.svg.count("<rect") == 1 + len(CONSUMERS)
    assert f"{N} of {N}" in str(ways)


def test_pages_used_again_bring_no_old_notes_along() -> None:
    """The generator's pages come round many times, each time with the length of the metadata they had before."""
    packets = 20_011  # prime
    with Post("notes") as post, post.in_mode("native"), post.next_host():
        reading = post.carry(Way.TO_DEVICE, packets)
    assert (reading.right, reading.none, reading.other) == (packets, 0, 0)
    assert reading.carried
    assert reading.ledger.unaccounted == 0


def test_reading_another_mark_is_not_carrying(lab: lk.Lab) -> None:
    """The reader takes neither half a note nor somebody else's for its own."""
    reader = lab.load(
        lk.compile(path=BPF / "meta_read.c"),
        "meta_read_tc",
        type=ProgType.SCHED_CLS,
        expected_attach_type=AttachType.TCX_INGRESS,
    )
    writer, short = (lab.load(lk.compile(path=BPF / f"{name}.c")) for name in ("meta_write", "meta_short"))
    writer.maps["plan"][0] = {"mark": 8, "way": 0, "cpu": 0, "same": 0}
    short.maps["mark"][0] = 7
    reader.maps["wanted"][0] = {"mark": 7, "take": 1}
    server = lab["server"]["eth0"]
    with lesson.places.at_tc(reader, server):
        for program in (writer, short):
            with program.attach(server):
                lk.generate(lab["client"]["eth0"], lk.udp(lab["client"], lab["server"]), N)
                ledger = lab.ledger()
    assert reader.maps["found"][0] == {"right": 0, "numbers": 0, "none": 0, "other": 2 * N}
    assert (ledger.losses, ledger.unaccounted) == ({"TC_INGRESS": 2 * N}, 0)


def test_limits_of_every_bound() -> None:
    limits = {str(row[0]): row[2:] for row in lesson.adjust_limits().rows}
    room = limits["metadata"][0]
    assert room % 4 == 0  # type: ignore[operator]
    assert 128 <= room <= 252  # type: ignore[operator]
    assert limits["metadata"] == (room,) * 3
    assert limits["metadata, after head −64"][0] == min(252, (limits["frame longer in front"][0] - 64) // 4 * 4)  # type: ignore[operator]
    assert limits["metadata, after head +48"][0] == 252
    assert limits["frame longer in front, after meta −32"][0] == limits["frame longer in front"][0] - 32  # type: ignore[operator]
    assert limits["frame shorter in front"] == limits["frame shorter behind"] == (62 - 14,) * 3


def test_a_first_step_that_is_refused_is_told() -> None:
    with pytest.raises(LessonError, match="means nothing"):
        lesson.adjust_answers("meta", (-4,), after=("head", 49))
    with pytest.raises(LessonError, match="no bound 'middle'"):
        lesson.adjust_answers("middle", (-4,))


@pytest.mark.parametrize(
    ("bound", "by", "answer", "words"),
    [
        ("meta", -4, 0, "4 bytes more of metadata"),
        ("meta", 4, 0, "4 bytes less of metadata"),
        ("meta", -3, -errno.EACCES, "not a multiple of 4"),
        ("meta", -256, -errno.EACCES, "252 bytes: its length"),
        ("meta", -252, -errno.EINVAL, "no room in front"),
        ("meta", 4, -errno.EINVAL, "behind the packet's first byte"),
        ("meta", -4, -524, "keeps no metadata"),
        ("head", -250, -errno.EINVAL, "no room in front"),
        ("head", 60, -errno.EINVAL, "14 bytes, would be left"),
        ("head", 0, 0, "nothing moves"),
        ("head", -4, 0, "4 bytes longer"),
        ("tail", -4, 0, "4 bytes shorter"),
        ("tail", -49, -errno.EINVAL, "14 bytes, would be left"),
        ("tail", 4, -errno.EINVAL, "no room behind"),
        ("tail", 4, -errno.EOPNOTSUPP, "several buffers"),
        ("tail", 4, -errno.ENOMEM, "ENOMEM"),
    ],
)
def test_every_answer_has_words(bound: str, by: int, answer: int, words: str) -> None:
    assert words in adjust.adjust_meaning(bound, by, answer)


def test_segments_with_different_metadata_are_not_joined() -> None:
    rows = {row[0]: row[1:] for row in lesson.metadata_and_gro(nbytes=300_007).table.rows}
    for notes, segments, packets, ratio in rows.values():
        assert segments >= 300_007 // 1_448  # type: ignore[operator]
        assert ratio == segments / packets  # type: ignore[operator]
        assert notes in (0, segments)
    assert rows[gro.NO_METADATA][0] == 0
    assert rows[gro.NO_METADATA][3] > 1  # type: ignore[operator]
    assert rows[gro.ALIKE][3] > 1  # type: ignore[operator]
    assert rows[gro.DIFFERENT][3] == 1


def test_metadata_is_no_part_of_the_frame() -> None:
    none, some = lesson.unread_metadata(N).rows
    assert none[:2] == ("none", 0)
    assert some[:2] == ("8 bytes", N)
    assert none[2:] == some[2:] == (N, 64, N, 0, N, 0)


@pytest.mark.parametrize("send", [lk.generate, lk.send_frames])
def test_a_frame_without_headroom_goes_on_without_a_note(router: lk.Lab, send: object) -> None:
    before = router.load(lk.compile(path=BPF / "meta_no_room.c"))
    before.maps["ports"][0] = router["router"]["eth1"]
    before.attach(router["router"]["eth0"])
    after = router.load(lk.compile(path=BPF / "meta_write.c"))
    after.maps["plan"][0] = {"mark": 7, "way": 0, "cpu": 0, "same": 0}
    far = router["server"]["eth0"]
    after.attach(far)
    frame = bytes.fromhex(far.mac.replace(":", "")) + lk.udp(router["client"], far, size=62)[6:]
    with lk.UdpSink(router["server"]) as sink, lk.Capture(far) as tap:
        send(router["client"]["eth0"], frame, N)  # type: ignore[operator]
        assert sink.wait(N, 20) == N
        tap.wait(N, 20)
        ledger = router.ledger()
    assert (ledger.delivered, ledger.unaccounted) == (N, 0)
    assert {bytes(each) for each in tap.frames} == {frame}
    assert after.maps["written"][0] == 0
    assert before.maps["headroom"][0] > 0


@pytest.mark.parametrize("packets", [7, 1_009])
def test_the_demo_counts_what_was_decoded(packets: int) -> None:
    result = run_demo("metadata", packets=packets)
    found = result.as_dict()
    assert (found["decoded"], found["foreign"], found["unaccounted"]) == (packets, 0, 0)
    assert found["losses"] == {"XDP_DROP": packets}
    assert f"{packets:,} decoded, 0 foreign" in str(result)
    assert "decoded" not in run_demo("drop", packets=7).as_dict()


def test_nothing_is_left_of_a_post() -> None:
    before = set(threading.enumerate())
    with Post("test") as post, post.in_mode("native"), post.next_host():
        post.carry(Way.TO_DEVICE, 7)
    assert post.lab.closed
    assert set(threading.enumerate()) == before
