"""What the kernel says a loaded program costs: its machine code, the work of the verifier, its runs (struct bpf_prog_info)."""

from __future__ import annotations

import ctypes
import struct
from dataclasses import dataclass

from labkit.kernel.gate import system_call
from labkit.uapi import BpfCmd

__all__ = ["Jited", "ProgCost", "prog_cost", "prog_jited"]

_INFO_BYTES = 232  # struct bpf_prog_info, include/uapi/linux/bpf.h; the offsets below are in it
_TAG, _JITED_LENGTH, _TRANSLATED_LENGTH, _CODE, _LOADED = 8, 16, 20, 24, 40
_KSYMS, _LENGTHS, _LINES, _LINE_SIZE = (104, 112), (108, 120), (168, 160), 176  # each: where its number, its address is
_RUNS, _VERIFIED = 192, 216


@dataclass(frozen=True)
class ProgCost:
    """Bytes of both forms (0 where the kernel doesn't show them, or has no JIT); ``verified_insns`` instructions that the
    verifier went through, on all ways; ``loaded_ns`` by CLOCK_BOOTTIME; runs and their ns, while kernel.bpf_stats_enabled.
    """

    id: int
    tag: str
    jited_bytes: int
    translated_bytes: int
    verified_insns: int
    loaded_ns: int
    run_ns: int
    runs: int


@dataclass(frozen=True)
class Jited:
    """Machine code, function after function, of ``lengths`` bytes each.

    ``starts`` are the functions' addresses, ``lines`` those of each line record: both empty where the kernel hides its
    addresses from this process (kernel.kptr_restrict), and so is ``code``.
    """

    code: bytes
    lengths: tuple[int, ...]
    starts: tuple[int, ...]
    lines: tuple[int, ...]


def prog_cost(fd: int) -> ProgCost:
    """What a loaded program costs. Raises OSError."""
    raw = _info(fd, bytes(_INFO_BYTES))
    ident, tag, jited, translated = struct.unpack_from("=4x I8sII", raw)
    (loaded,) = struct.unpack_from("=Q", raw, _LOADED)
    run_ns, runs = struct.unpack_from("=QQ", raw, _RUNS)
    (verified,) = struct.unpack_from("=I", raw, _VERIFIED)
    return ProgCost(ident, tag.hex(), jited, translated, verified, loaded, run_ns, runs)


def prog_jited(fd: int) -> Jited:
    """The machine code of a loaded program, as far as the kernel shows it. Raises OSError."""
    first = _info(fd, bytes(_INFO_BYTES))
    wanted = bytearray(_INFO_BYTES)
    (length,) = struct.unpack_from("=I", first, _JITED_LENGTH)
    code = ctypes.create_string_buffer(max(1, length))
    struct.pack_into("=I", wanted, _JITED_LENGTH, length)
    struct.pack_into("=Q", wanted, _CODE, ctypes.addressof(code))
    starts = _ask_for(first, wanted, _KSYMS, 8)
    lengths = _ask_for(first, wanted, _LENGTHS, 4)
    lines = _ask_for(first, wanted, _LINES, 8)
    struct.pack_into("=I", wanted, _LINE_SIZE, 8)
    second = _info(fd, bytes(wanted))
    (shown,) = struct.unpack_from("=Q", second, _CODE)  # 0 where it was not filled
    return Jited(
        code.raw[:length] if shown else b"",
        _numbers(second, _LENGTHS, lengths, "I"),
        _numbers(second, _KSYMS, starts, "Q"),
        _numbers(second, _LINES, lines, "Q"),
    )


def _ask_for(first: bytes, wanted: bytearray, field: tuple[int, int], size: int) -> ctypes.Array[ctypes.c_char]:
    """Room for an array of the kernel's, put into the question."""
    (count,) = struct.unpack_from("=I", first, field[0])
    room = ctypes.create_string_buffer(max(1, count * size))
    if count:
        struct.pack_into("=I", wanted, field[0], count)
        struct.pack_into("=Q", wanted, field[1], ctypes.addressof(room))
    return room


def _numbers(second: bytes, field: tuple[int, int], room: ctypes.Array[ctypes.c_char], kind: str) -> tuple[int, ...]:
    """What came into it; () where the kernel did not fill it."""
    (count,), (address,) = struct.unpack_from("=I", second, field[0]), struct.unpack_from("=Q", second, field[1])
    fits = address and count * struct.calcsize(f"={kind}") <= len(room)
    return struct.unpack_from(f"={count}{kind}", room.raw) if fits else ()


def _info(fd: int, asked: bytes) -> bytes:
    out = ctypes.create_string_buffer(asked, len(asked))
    system_call(BpfCmd.OBJ_GET_INFO_BY_FD, struct.pack("=IIQ", fd, len(asked), ctypes.addressof(out)))
    return out.raw
