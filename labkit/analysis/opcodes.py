"""Numbers of the eBPF instruction set: classes, operations, sizes, sources of wide loads.

include/uapi/linux/bpf.h and bpf_common.h, RFC 9669; the instructions that came later (may_goto, load-acquire,
store-release) from the kernel's own headers.
"""

from __future__ import annotations

from enum import Enum, IntEnum

__all__ = [
    "ALU_OPERATIONS",
    "ATOMIC_OPERATIONS",
    "JUMP_OPERATIONS",
    "SIZES",
    "InstructionClass",
    "Kind",
    "Pseudo",
]


class InstructionClass(IntEnum):
    """The lower three bits of an opcode."""

    LD = 0
    LDX = 1
    ST = 2
    STX = 3
    ALU = 4
    JMP = 5
    JMP32 = 6
    ALU64 = 7


class Kind(Enum):
    """What an instruction is, as the analysis tells them apart."""

    ARITHMETIC = "arithmetic"
    SWAP = "byte swap"
    WIDE = "wide load"
    LOAD = "load"
    PACKET_LOAD = "packet load"
    STORE = "store"
    ATOMIC = "atomic"
    GOTO = "goto"
    BRANCH = "branch"
    MAY_GOTO = "may_goto"
    CALL = "call"
    EXIT = "exit"
    FENCE = "fence"


class Pseudo(IntEnum):
    """What a wide load's source register says that its number stands for: ``BPF_PSEUDO_*``."""

    NUMBER = 0
    MAP_FD = 1
    MAP_VALUE = 2
    BTF_ID = 3
    FUNC = 4
    MAP_IDX = 5
    MAP_IDX_VALUE = 6


# The upper four bits of an opcode of ALU and ALU64. "neg", "mov" and "end" have rules of their own.
ALU_OPERATIONS = {
    0x00: "add",
    0x10: "sub",
    0x20: "mul",
    0x30: "div",
    0x40: "or",
    0x50: "and",
    0x60: "lsh",
    0x70: "rsh",
    0x80: "neg",
    0x90: "mod",
    0xA0: "xor",
    0xB0: "mov",
    0xC0: "arsh",
    0xD0: "end",
}

# The upper four bits of a conditional jump's opcode.
JUMP_OPERATIONS = {
    0x10: "eq",
    0x20: "gt",
    0x30: "ge",
    0x40: "set",
    0x50: "ne",
    0x60: "sgt",
    0x70: "sge",
    0xA0: "lt",
    0xB0: "le",
    0xC0: "slt",
    0xD0: "sle",
}

# The size bits of a load or store: bytes.
SIZES = {0x00: 4, 0x08: 2, 0x10: 1, 0x18: 8}

# An atomic's immediate: its operation, and whether the old value is fetched.
ATOMIC_OPERATIONS = {
    0x00: ("add", False),
    0x01: ("add", True),
    0x40: ("or", False),
    0x41: ("or", True),
    0x50: ("and", False),
    0x51: ("and", True),
    0xA0: ("xor", False),
    0xA1: ("xor", True),
    0xE1: ("xchg", True),
    0xF1: ("cmpxchg", True),
    0x100: ("load_acquire", True),
    0x110: ("store_release", False),
}
