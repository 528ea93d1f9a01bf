"""Questions to the kernel: a helper's answer to given arguments, by a program of a few instructions that asks just that.

What a routing table holds, or whether a slot of a map of sockets is filled, only the kernel can say. The program runs on
a frame that is its notepad (BPF_PROG_TEST_RUN) and is attached nowhere.
"""

from __future__ import annotations

import os
import struct
from dataclasses import dataclass

from labkit.analysis import assemble as asm
from labkit.kernel import bpf
from labkit.kernel.test_run import run_frame
from labkit.uapi import ProgType

__all__ = ["Asked", "Bytes", "Context", "MapFd", "ask"]

_MAP_FD = 1  # BPF_PSEUDO_MAP_FD
_HEAD = 16  # bytes of the notepad before what is handed over: the answer, and so many that it is a frame


@dataclass(frozen=True)
class MapFd:
    """An argument that is a map."""

    fd: int


@dataclass(frozen=True)
class Context:
    """An argument that is the program's context."""


@dataclass(frozen=True)
class Bytes:
    """An argument that is memory with this content, whole words of 4 bytes; the helper may write there."""

    content: bytes


@dataclass(frozen=True)
class Asked:
    """``answer`` is all 64 bits of r0; ``memory`` the content of each ``Bytes`` afterwards."""

    answer: int
    memory: tuple[bytes, ...]


Argument = int | MapFd | Context | Bytes


def ask(helper: int, arguments: tuple[Argument, ...], *, ifindex: int = 0, queue: int = 0) -> Asked:
    """What ``helper`` answers, in the namespace of the calling thread. Raises OSError where the kernel takes no such call."""
    memory = [each.content for each in arguments if isinstance(each, Bytes)]
    notepad = bytes(_HEAD) + b"".join(memory)
    code = _code(helper, arguments, len(notepad))
    fd = bpf.prog_load(ProgType.XDP, code, name="lab_asks")
    try:
        out = run_frame(fd, notepad, ifindex=ifindex, queue=queue).frame
    finally:
        os.close(fd)
    found, at = [], _HEAD
    for each in memory:
        found.append(out[at : at + len(each)])
        at += len(each)
    return Asked(struct.unpack_from("=Q", out)[0], tuple(found))


def _code(helper: int, arguments: tuple[Argument, ...], size: int) -> bytes:
    """r6 context, r7 the notepad; memory is handed over on the stack, as not every helper takes a packet's."""
    begin = asm.alu("mov", 6, src=1) + asm.load(7, 1, 0, 4) + asm.load(8, 1, 4, 4)
    begin += asm.alu("mov", 9, src=7) + asm.alu("add", 9, imm=size)
    work, places = b"", _places(arguments)
    for notepad, stack, length in places.values():
        for word in range(0, length, 4):
            work += asm.load(0, 7, notepad + word, 4) + asm.store(10, stack + word, 4, src=0)
    for number, each in enumerate(arguments, 1):
        work += _argument(number, each, places.get(number))
    work += asm.call(helper)
    again = asm.load(7, 6, 0, 4) + asm.load(8, 6, 4, 4) + asm.alu("mov", 9, src=7) + asm.alu("add", 9, imm=size)
    write = asm.store(7, 0, 8, src=0)
    for notepad, stack, length in places.values():
        for word in range(0, length, 4):
            write += asm.load(1, 10, stack + word, 4) + asm.store(7, notepad + word, 4, src=1)
    tail = asm.alu("mov", 0, imm=2) + asm.exit_()
    again += asm.branch("gt", 9, len(write) // 8, src=8) + write
    work += again
    return begin + asm.branch("gt", 9, len(work) // 8, src=8) + work + tail


def _places(arguments: tuple[Argument, ...]) -> dict[int, tuple[int, int, int]]:
    """For each argument that is memory: where in the notepad, where on the stack, how long."""
    found, at, stack = {}, _HEAD, 0
    for number, each in enumerate(arguments, 1):
        if isinstance(each, Bytes):
            length = len(each.content)
            stack -= (length + 7) & ~7
            found[number] = (at, stack, length)
            at += length
    return found


def _argument(number: int, given: Argument, place: tuple[int, int, int] | None) -> bytes:
    if isinstance(given, Context):
        return asm.alu("mov", number, src=6)
    if isinstance(given, MapFd):
        return asm.wide(number, given.fd, _MAP_FD)
    if place is not None:
        return asm.alu("mov", number, src=10) + asm.alu("add", number, imm=place[1])
    assert isinstance(given, int)
    return asm.wide(number, given)
