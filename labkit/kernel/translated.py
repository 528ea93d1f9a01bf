"""A loaded program as the kernel rewrote it (BPF_OBJ_GET_INFO_BY_FD): instructions, line records, names of its symbols."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from labkit.kernel.gate import system_call
from labkit.uapi import BpfCmd

__all__ = ["CALL_BASE", "Translated", "prog_translated", "symbols"]

CALL_BASE = "__bpf_call_base"  # what the number in a helper's call is relative to
_INFO_BYTES = 232  # struct bpf_prog_info, include/uapi/linux/bpf.h
_CODE_LENGTH, _CODE, _LINES_COUNT, _LINES, _LINE_SIZE = 20, 32, 148, 152, 172


@dataclass(frozen=True)
class Translated:
    """``instructions`` as the kernel shows them; ``line_info`` holds ``struct bpf_line_info`` of ``line_bytes`` each.

    Both are empty for whoever has no privilege over the whole machine.
    """

    instructions: bytes
    line_info: bytes
    line_bytes: int


def prog_translated(fd: int) -> Translated:
    """The program behind a descriptor, in the kernel's own form. Raises OSError."""
    first = _info(fd, bytes(_INFO_BYTES))
    (length,), (count,) = struct.unpack_from("=I", first, _CODE_LENGTH), struct.unpack_from("=I", first, _LINES_COUNT)
    (size,) = struct.unpack_from("=I", first, _LINE_SIZE)
    code, lines = ctypes.create_string_buffer(max(1, length)), ctypes.create_string_buffer(max(1, count * size))
    wanted = bytearray(_INFO_BYTES)
    struct.pack_into("=I", wanted, _CODE_LENGTH, length)
    struct.pack_into("=Q", wanted, _CODE, ctypes.addressof(code))
    if count:
        struct.pack_into("=IQ", wanted, _LINES_COUNT, count, ctypes.addressof(lines))
        struct.pack_into("=I", wanted, _LINE_SIZE, size)
    _info(fd, bytes(wanted))
    return Translated(code.raw[:length], lines.raw[: count * size], size)


def _info(fd: int, asked: bytes) -> bytes:
    out = ctypes.create_string_buffer(asked, len(asked))
    system_call(BpfCmd.OBJ_GET_INFO_BY_FD, struct.pack("=IIQ", fd, len(asked), ctypes.addressof(out)))
    return out.raw


def symbols(offsets: Iterable[int]) -> dict[int, str]:
    """Names of the kernel's functions by their offset from ``CALL_BASE``, signed, 32 bits.

    Empty where the kernel hides its addresses from this process (kernel.kptr_restrict).
    """
    wanted = set(offsets)
    at: dict[int, str] = {}
    base = 0
    for line in Path("/proc/kallsyms").read_text(encoding="utf-8").splitlines():
        address, kind, name = line.split(None, 3)[:3]
        if kind in "tTwW":
            at.setdefault(int(address, 16), name)
            if name == CALL_BASE:
                base = int(address, 16)
    if not any(at):
        return {}
    return {offset: at[base + offset] for offset in wanted if base + offset in at}
