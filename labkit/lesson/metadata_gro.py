"""What metadata does to GRO: segments whose metadata differ are not joined."""

from __future__ import annotations

from dataclasses import replace

from labkit.compile import compile_source
from labkit.compile.source import lesson_directory
from labkit.lab import Lab
from labkit.lesson.cpumap_gro import exchange
from labkit.lesson.metadata_post import Way
from labkit.lesson.page import Table
from labkit.lesson.pictures import Picture, bars
from labkit.lesson.race import scaled
from labkit.topology import Topology
from labkit.traffic.checks import check_whole

__all__ = ["ALIKE", "DIFFERENT", "NO_METADATA", "metadata_and_gro"]

_BYTES, _MOST = 1_000_003, 100_000_000
_MARK = 7
NO_METADATA, ALIKE, DIFFERENT = "no metadata", "the same in all segments", "a number of its own in each"


def metadata_and_gro(*, nbytes: int | None = None) -> Picture:
    """A TCP exchange with GRO on at the server, whose program writes no metadata, alike, or different; lab "gro".

    ``nbytes`` go there and come back: 1,000,003 by default, fewer where ``$LAB_SCALE`` says so. Raises TrafficError
    where they don't come back whole.
    """
    number = scaled(_BYTES) if nbytes is None else check_whole("nbytes", nbytes, 1, _MOST, "to exchange bytes over TCP")
    plan = {"mark": _MARK, "way": Way.TO_STACK, "cpu": 0}
    notes = {NO_METADATA: {"mark": 0, "same": 0}, ALIKE: {"same": 1}, DIFFERENT: {"same": 0}}
    rows = []
    with Lab(Topology.pair(), name="gro") as lab:
        server = lab["server"]["eth0"]
        server.set_feature("gro", True)
        program = lab.load(compile_source(path=lesson_directory() / "meta_write.c"))
        with program.attach(server):
            for name, note in notes.items():
                program.maps["plan"][0] = plan | note
                program.maps["written"][0] = 0
                segments, packets, _ = exchange(lab, number)
                rows.append((name, program.maps["written"][0], segments, packets, segments / packets))
    head = ("metadata", "notes written", "segments that came", "packets for the stack", "segments a packet")
    title = f"TCP, {number:,} bytes to the server and back, GRO on: segments in a packet for the stack"
    joined = {str(row[0]): float(row[4]) for row in rows}
    return replace(bars(joined, "segments", title), table=Table(head, tuple(rows)))
