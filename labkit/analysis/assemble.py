"""Bytes of instructions, for tests and for trying things out: the inverse of decoding, as far as that is needed."""

from __future__ import annotations

import struct

from labkit.analysis.opcodes import ALU_OPERATIONS, JUMP_OPERATIONS, SIZES, InstructionClass

__all__ = ["alu", "branch", "call", "exit_", "goto", "load", "slot", "store", "swap", "wide"]

_ALU = {name: number for number, name in ALU_OPERATIONS.items()}
_JUMPS = {name: number for number, name in JUMP_OPERATIONS.items()}
_SIZE = {size: bits for bits, size in SIZES.items()}


def slot(opcode: int, dst: int = 0, src: int = 0, off: int = 0, imm: int = 0) -> bytes:
    """One ``struct bpf_insn``."""
    imm = (imm & 0xFFFFFFFF) - (1 << 32 if imm & 0x80000000 else 0)
    pair = dst | src << 4 if struct.pack("=H", 1)[0] else src | dst << 4
    return struct.pack("=BBhi", opcode, pair, off, imm)


def alu(operation: str, dst: int, *, src: int | None = None, imm: int = 0, bits: int = 64) -> bytes:
    """Arithmetic; "sdiv", "smod" and "movsx8" to "movsx32" too."""
    off = 0
    if operation in ("sdiv", "smod"):
        operation, off = operation[1:], 1
    elif operation.startswith("movsx"):
        operation, off = "mov", int(operation[5:])
    opcode = _ALU[operation] | (InstructionClass.ALU64 if bits == 64 else InstructionClass.ALU)
    return slot(opcode | (8 if src is not None else 0), dst, src or 0, off, 0 if src is not None else imm)


def swap(operation: str, dst: int, bits: int) -> bytes:
    """A byte swap: "le", "be", "bswap"."""
    opcodes = {"le": 0xD4, "be": 0xDC, "bswap": 0xD7}
    return slot(opcodes[operation], dst, imm=bits)


def branch(operation: str, dst: int, off: int, *, src: int | None = None, imm: int = 0, bits: int = 64) -> bytes:
    """A conditional jump over ``off`` slots."""
    opcode = _JUMPS[operation] | (InstructionClass.JMP if bits == 64 else InstructionClass.JMP32)
    return slot(opcode | (8 if src is not None else 0), dst, src or 0, off, 0 if src is not None else imm)


def goto(off: int) -> bytes:
    """A jump over ``off`` slots."""
    return slot(0x05, off=off)


def call(number: int, kind: int = 0) -> bytes:
    """A call: of a helper by number; ``kind`` 1: of a function, so many slots on."""
    return slot(0x85, src=kind, imm=number)


def exit_() -> bytes:
    """The end of a function."""
    return slot(0x95)


def load(dst: int, src: int, off: int, size: int, *, signed: bool = False) -> bytes:
    """A load of 1, 2, 4 or 8 bytes."""
    return slot((0x81 if signed else 0x61) | _SIZE[size], dst, src, off)


def store(dst: int, off: int, size: int, *, src: int | None = None, imm: int = 0) -> bytes:
    """A store of a register or a number."""
    if src is None:
        return slot(0x62 | _SIZE[size], dst, 0, off, imm)
    return slot(0x63 | _SIZE[size], dst, src, off)


def wide(dst: int, number: int, source: int = 0) -> bytes:
    """A load of 64 bits; ``source`` as labkit.analysis.opcodes.Pseudo."""
    return slot(0x18, dst, source, 0, number & 0xFFFFFFFF) + slot(0, imm=number >> 32)
