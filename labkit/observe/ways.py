"""What a program's bytecode and maps say of the ways it may send a packet."""

from __future__ import annotations

import struct

from labkit.program.program import Program
from labkit.program.spec import INSTRUCTION_BYTES
from labkit.uapi import MapType

__all__ = ["broadcasts", "has_map"]

_CALL, _MOV_IMMEDIATE = 0x85, 0xB7  # BPF_JMP | BPF_CALL, BPF_ALU64 | BPF_MOV | BPF_K
_REDIRECT_MAP, _BROADCAST = 51, 1 << 3  # BPF_FUNC_redirect_map, BPF_F_BROADCAST, include/uapi/linux/bpf.h
_FLAGS = 3  # the register of the third argument


def broadcasts(program: Program) -> bool:
    """Whether it calls bpf_redirect_map with BPF_F_BROADCAST among flags that are constants in its text."""
    code, flags = program.function.instructions, 0
    for at in range(0, len(code), INSTRUCTION_BYTES):
        number = struct.unpack_from("=i", code, at + 4)[0]
        if code[at] == _MOV_IMMEDIATE and code[at + 1] & 0x0F == _FLAGS:
            flags = number
        elif code[at] == _CALL and number == _REDIRECT_MAP and flags & _BROADCAST:
            return True
    return False


def has_map(program: Program, *kinds: MapType) -> bool:
    """Whether it uses a map of one of these kinds."""
    return any(each.spec.type in kinds for each in program.maps.values())
