"""Metadata that says what it is: what the stack makes of it, from which size on, and what a new format does to old readers."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

from labkit.hints import Formats
from labkit.lesson.generic_hints_path import Consumed, GenericPath, Want
from labkit.lesson.page import Table
from labkit.lesson.race import scaled
from labkit.observe.protocols import read_protocols
from labkit.traffic.frames import udp
from labkit.traffic.generator import Generator
from labkit.traffic.report import TrafficReport

__all__ = ["believed_checksums", "composed_from", "swapped_formats"]

_NOBODY, _LOOKED, _CLAIMED = "nothing", "what it found", "right, unseen"
_SIZES = (64, 256, 1_024)
_THRESHOLDS = (0, 65, 257, 1_500)
_RUN_S = 0.5  # long enough that a swap finds the traffic running


def believed_checksums(packets: int = 101) -> Table:
    """Datagrams whose checksum is right, and wrong, with metadata that says so, says nothing, or says "right" unseen.

    Each row: ``packets`` datagrams from a packet socket to a UDP socket; lab "believed". GRO is off at the server, as it
    would add up every packet before the consumer is asked.
    """
    rows: list[tuple[object, ...]] = []
    marks = []
    with GenericPath("believed") as path:
        path.server.set_feature("gro", False)
        right = bytes(udp(path.lab["client"], path.lab["server"]))
        wrong = right[:-1] + bytes([right[-1] ^ 1])
        for frame, is_right in ((right, "right"), (wrong, "wrong")):
            for says, wanted in ((_NOBODY, Want.HASH), (_LOOKED, Want.CHECKSUM), (_CLAIMED, Want.CLAIM)):
                path.want(wanted)
                seen, refused = _delivered(path, frame, packets)
                if seen.ledger.delivered and is_right == "wrong":
                    marks.append((len(rows), 3, "bad"))
                rows.append((is_right, says, seen.used["checksums"], seen.ledger.delivered, refused))
    head = ("checksum is", "metadata says", "the stack was told", "delivered", "refused for its checksum")
    return Table(head, tuple(rows), f"{packets} datagrams each", tuple(marks))


def _delivered(path: GenericPath, frame: bytes, packets: int) -> tuple[Consumed, int]:
    """What came of the frames, and how many UDP refused for their checksum."""

    def refused() -> int:
        return int(path.server.run(read_protocols)["UdpInCsumErrors"])

    before = refused()
    seen = path.send([frame] * packets, deliver=True)
    return seen, refused() - before


def composed_from(thresholds: tuple[int, ...] = _THRESHOLDS, sizes: tuple[int, ...] = _SIZES) -> Table:
    """Frames of several sizes in turn, with each threshold: how many of each size came with metadata; lab "threshold"."""
    each = scaled(2_003)
    rows = []
    with GenericPath("threshold") as path:
        frames = [bytes(udp(path.lab["client"], path.lab["server"], size=size)) for size in sizes]
        for threshold in thresholds:
            path.threshold = threshold
            counts = [path.send([frame] * each).decoded_packets for frame in frames]
            rows.append((threshold, *counts))
    head = ("threshold (bytes)", *(f"decoded, of {each:,} of {size:,} bytes" for size in sizes))
    return Table(head, tuple(rows), "The threshold is a number in a map: setting it takes no new program")


def swapped_formats(packets: int | None = None) -> Consumed:
    """What a consumer reads while composers are swapped in the midst of traffic; lab "swapped".

    Half way the generic format gives way to two others, of another BTF object with ids of its own. Every packet is
    compared with its own headers. By default 1,000,003 packets, fewer where ``$LAB_SCALE`` says so.
    """
    number = packets or scaled(1_000_003)
    with Formats.load() as newer, GenericPath("swapped") as path:
        path.know(newer, "new ")
        following = path.load_composer(newer)
        path.choose("meta_flow", "meta_latency", program=following)
        swap = partial(path.link.replace, following)
        return path.watched(partial(_interrupted, path, number, swap))


def _interrupted(path: GenericPath, packets: int, act: Callable[[], object]) -> TrafficReport:
    """Send ``packets``; about half way, ``act()`` while they run."""
    frame = udp(path.lab["client"], path.lab["server"])
    source = Generator(path.client, frame, packets, flows=16, rate_pps=packets / _RUN_S).start()
    try:
        while source.running and source.report.sent < packets // 2:
            time.sleep(0.001)
        act()
    finally:
        report = source.wait()
    return report
