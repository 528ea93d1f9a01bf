"""Metadata that a consumer must not misread: somebody else's bytes, formats it was never told of, formats cut short."""

from __future__ import annotations

from collections.abc import Iterator

from labkit.compile import compile_source
from labkit.compile.source import lesson_directory
from labkit.hints import Capture, Decoded, Formats, read
from labkit.lesson.generic_hints_path import FOREIGN, GenericPath, Tell
from labkit.lesson.page import Table
from labkit.program.program import Program
from labkit.traffic.frames import udp

__all__ = ["foreign_cases", "give_bytes"]

_HASH, _HASH_TYPE = 0x5EED_CAFE, 41  # of addresses and UDP ports, include/net/xdp.h
_NOTE = bytes.fromhex("07 00 00 00 2a 00 00 00")  # eight bytes that mean something to their writer alone
_PATIENCE_S = 20.0


def give_bytes(writer: Program, content: bytes) -> None:
    """Tell ``bpf/lab/meta_bytes.c`` what to put before each packet, a multiple of 4 bytes."""
    words = [int.from_bytes(content[at : at + 4], "little") for at in range(0, len(content), 4)]
    writer.maps["given"][0] = {"bytes": len(content), "words": words + [0] * (63 - len(words))}


def cases(known: Formats, foreign: Formats) -> Iterator[tuple[str, bytes | None]]:
    """What is written, and its bytes; None: lesson 04's program writes them."""
    values = {"hash": _HASH, "hash_type": _HASH_TYPE}
    flow = known["meta_flow"].encode(**values, mark=7)
    yield "nothing", b""
    yield "the note of lesson 04, eight bytes", None
    yield "meta_flow with another magic", flow[:-2] + bytes(2)
    yield "meta_flow of another lab", foreign["meta_flow"].encode(**values, mark=7)
    yield "meta_flow, its left half missing", flow[-32:]
    yield "the last twelve bytes of meta_flow", flow[-12:]
    yield "meta_flow", flow
    yield "meta_flow behind eight bytes of another program", _NOTE + flow


def foreign_cases(packets: int = 101) -> Table:
    """A row for each kind of metadata, with what TC and Python say to it, and whether its hash serves; lab "foreign"."""
    rows: list[tuple[object, ...]] = []
    with Formats.load() as foreign, GenericPath("foreign") as path:
        writer = path.lab.load(compile_source(path=lesson_directory() / "lab" / "meta_bytes.c"))
        noting = path.lab.load(compile_source(path=lesson_directory() / "meta_write.c"))
        noting.maps["plan"][0] = {"mark": 7}  # and lets every packet pass
        frame = bytes(udp(path.lab["client"], path.lab["server"]))
        path.tell = Tell.HASH
        for what, content in cases(path.formats, foreign):
            path.link.replace(noting if content is None else writer)
            give_bytes(writer, content or b"")
            with Capture(path.lab, path.server, packets=1) as capture:
                seen = path.send([frame] * packets)
                said = read(capture.take(1, timeout_s=_PATIENCE_S)[0], path.formats)
            tc = next(reason for reason, count in {**seen.decoded, **seen.foreign}.items() if count)
            python = said.format.name if isinstance(said, Decoded) else f"foreign: {said.reason}"
            rows.append((what, f"foreign: {tc}" if tc in FOREIGN else tc, python, seen.used["hashes"], seen.arrived))
    head = ("before the packet", "in TC", "in Python", "hash told to the stack", "packets")
    return Table(head, tuple(rows), "The same packets, read by two who know the same formats")
