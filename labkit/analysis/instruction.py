"""One eBPF instruction: what its eight bytes say, and nothing that they don't.

``decode`` knows the whole set as RFC 9669 has it and what the kernel added: both widths of arithmetic and jumps, signed
division, moves and loads, byte swaps, 64-bit loads of two slots with all sources, atomics of all sizes, the long goto,
may_goto, calls of helpers, functions and kernel functions, and the old packet loads. Whatever else is an AnalysisError
that names the place and the opcode: a guess would make every verdict worthless. Reserved fields must be zero, as the
kernel demands, for they are where the next instruction will come from.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass, replace

from labkit.analysis.opcodes import (
    ALU_OPERATIONS,
    ATOMIC_OPERATIONS,
    JUMP_OPERATIONS,
    SIZES,
    InstructionClass,
    Kind,
    Pseudo,
)
from labkit.errors import AnalysisError

__all__ = ["SLOT_BYTES", "Instruction", "decode"]

SLOT_BYTES = 8
_SLOT = struct.Struct("=BBhi")  # struct bpf_insn: code, dst and src of four bits each, off, imm
_WIDE, _JA, _CALL, _EXIT, _JCOND, _GOTOL, _NOSPEC, _CALLX = 0x18, 0x05, 0x85, 0x95, 0xE5, 0x06, 0xC2, 0x8D
_FRAME_POINTER, _SCRATCH = 10, 11
_MEM, _MEMSX, _ABS, _IND, _ATOMIC = 0x60, 0x80, 0x20, 0x40, 0xC0


@dataclass(frozen=True)
class Instruction:
    """An instruction at slot ``index``; a wide load takes two slots.

    ``operation`` is the word of labkit.analysis.opcodes; ``bits`` the width of arithmetic, swaps and comparisons, 32 or
    64; ``size`` that of memory accesses, in bytes; ``by_register`` whether the right-hand side is ``src``, else it is
    ``imm`` (signed; of a wide load all 64 bits, unsigned). ``target`` is the slot a jump, or a call of a BPF function,
    goes to.
    """

    index: int
    opcode: int
    dst: int
    src: int
    off: int
    imm: int
    kind: Kind = Kind.EXIT
    operation: str = ""
    bits: int = 64
    size: int = 0
    by_register: bool = False
    signed: bool = False
    target: int | None = None

    @property
    def slots(self) -> int:
        """Slots that it takes: 2 for a wide load."""
        return 2 if self.kind is Kind.WIDE else 1

    @property
    def following(self) -> int:
        """The slot after it."""
        return self.index + self.slots

    @property
    def successors(self) -> tuple[int, ...]:
        """Slots that can come next within the function; a call comes back, an exit has none."""
        if self.kind is Kind.EXIT:
            return ()
        if self.kind is Kind.GOTO and self.target is not None:
            return (self.target,)
        if self.kind in (Kind.BRANCH, Kind.MAY_GOTO) and self.target is not None:
            return (self.following, self.target)
        return (self.following,)


def decode(code: bytes, *, translated: bool = False) -> dict[int, Instruction]:
    """Instructions by slot; the second slot of a wide load has no entry.

    ``code`` is ``struct bpf_insn`` after ``struct bpf_insn`` in this machine's byte order. ``translated``: it is the
    kernel's own form of a loaded program, which has a further register and some instructions that no program may bring.
    Raises AnalysisError for whatever isn't an eBPF instruction.
    """
    if not code or len(code) % SLOT_BYTES:
        raise AnalysisError(
            f"{len(code)} bytes are not a program: an instruction has {SLOT_BYTES}.",
            tried="to decode eBPF",
            remedy="give the bytes of one function, all of them",
        )
    found: dict[int, Instruction] = {}
    index, slots = 0, len(code) // SLOT_BYTES
    while index < slots:
        opcode, registers, off, imm = _SLOT.unpack_from(code, index * SLOT_BYTES)
        low, high = registers & 15, registers >> 4
        dst, src = (low, high) if struct.pack("=H", 1)[0] else (high, low)
        raw = Instruction(index, opcode, dst, src, off, imm)
        found[index] = _Decoder(raw, code, translated).instruction()
        index += found[index].slots
    return found


class _Decoder:
    """One instruction's rules."""

    def __init__(self, raw: Instruction, code: bytes, translated: bool) -> None:
        self.raw, self.code, self.translated = raw, code, translated

    def instruction(self) -> Instruction:
        raw = self.raw
        self.demand(max(raw.dst, raw.src) <= (_SCRATCH if self.translated else _FRAME_POINTER), "has no such register")
        kinds: dict[InstructionClass, Callable[[], Instruction]] = {
            InstructionClass.LD: self.wide_or_packet,
            InstructionClass.LDX: self.load,
            InstructionClass.ST: self.store,
            InstructionClass.STX: self.store,
            InstructionClass.ALU: self.arithmetic,
            InstructionClass.ALU64: self.arithmetic,
            InstructionClass.JMP: self.jump,
            InstructionClass.JMP32: self.jump,
        }
        made = kinds[InstructionClass(raw.opcode & 7)]()
        writes = made.kind in (Kind.ARITHMETIC, Kind.SWAP, Kind.WIDE, Kind.LOAD)
        self.demand(not (writes and made.dst == _FRAME_POINTER), "writes r10, which can only be read")
        return made

    def demand(self, fits: bool, why: str) -> None:
        if not fits:
            raw = self.raw
            raise AnalysisError(
                f"Instruction {raw.index}, opcode {raw.opcode:#04x}, {why}.",
                slot=raw.index,
                opcode=raw.opcode,
                tried="to decode eBPF",
                detail=f"dst r{raw.dst}, src r{raw.src}, off {raw.off}, imm {raw.imm}",
                remedy="nothing is guessed: an instruction that labkit.analysis doesn't know ends the analysis",
            )

    def zero(self, *fields: str) -> None:
        """A field that this instruction has no use for must be zero."""
        for name in fields:
            self.demand(getattr(self.raw, name) == 0, f"has {name} {getattr(self.raw, name)}, which is reserved for it")

    def made(self, kind: Kind, operation: str = "", **more: object) -> Instruction:
        return replace(self.raw, kind=kind, operation=operation, **more)  # type: ignore[arg-type]

    def unknown(self) -> Instruction:
        self.demand(False, "is not an eBPF instruction")
        raise AssertionError

    # --- arithmetic

    def arithmetic(self) -> Instruction:
        raw = self.raw
        bits = 64 if raw.opcode & 7 == InstructionClass.ALU64 else 32
        by_register = bool(raw.opcode & 8)
        operation = ALU_OPERATIONS.get(raw.opcode & 0xF0)
        if operation is None:
            return self.unknown()
        if operation == "end":
            return self.swap(bits, by_register)
        if operation == "neg":
            self.demand(not by_register, "is not an eBPF instruction")
            self.zero("src", "off", "imm")
            return self.made(Kind.ARITHMETIC, "neg", bits=bits)
        if operation == "mov" and by_register:
            return self.move(bits)
        self.zero("imm" if by_register else "src")
        if operation in ("div", "mod"):
            self.demand(raw.off in (0, 1), f"has off {raw.off}: a division is unsigned (0) or signed (1)")
            operation = ("s" if raw.off else "") + operation
        else:
            self.zero("off")
        return self.made(Kind.ARITHMETIC, operation, bits=bits, by_register=by_register)

    def move(self, bits: int) -> Instruction:
        raw = self.raw
        if bits == 64 and raw.off == 1:  # BPF_ADDR_SPACE_CAST: the kernel's addresses of an arena and the user's
            return self.made(Kind.ARITHMETIC, "cast", by_register=True)
        if bits == 64 and raw.off == -1 and self.translated:  # BPF_ADDR_PERCPU
            return self.made(Kind.ARITHMETIC, "percpu", by_register=True)
        self.zero("imm")
        if raw.off == 0:
            return self.made(Kind.ARITHMETIC, "mov", bits=bits, by_register=True)
        self.demand(raw.off in (8, 16, 32) and raw.off < bits, f"has off {raw.off}: it extends 8, 16 or 32 bits")
        return self.made(Kind.ARITHMETIC, f"movsx{raw.off}", bits=bits, by_register=True)

    def swap(self, bits: int, upper: bool) -> Instruction:
        self.zero("src", "off")
        self.demand(self.raw.imm in (16, 32, 64), f"has imm {self.raw.imm}: it swaps 16, 32 or 64 bits")
        if bits == 64:
            self.demand(not upper, "is not an eBPF instruction")
            return self.made(Kind.SWAP, "bswap", bits=self.raw.imm)
        return self.made(Kind.SWAP, "be" if upper else "le", bits=self.raw.imm)

    # --- memory

    def wide_or_packet(self) -> Instruction:
        raw, mode = self.raw, self.raw.opcode & 0xE0
        if mode in (_ABS, _IND) and raw.opcode & 0x18 != 0x18:
            self.zero("dst", "off", *(["src"] if mode == _ABS else []))
            return self.made(Kind.PACKET_LOAD, "ind" if mode == _IND else "abs", size=SIZES[raw.opcode & 0x18])
        if raw.opcode != _WIDE:
            return self.unknown()
        self.zero("off")
        self.demand(raw.src in list(Pseudo), f"has source {raw.src}, which no wide load has")
        end = (raw.index + 2) * SLOT_BYTES
        self.demand(end <= len(self.code), "is a wide load whose second half is missing")
        code, registers, off, upper = _SLOT.unpack_from(self.code, end - SLOT_BYTES)
        self.demand(code == registers == off == 0, "is a wide load whose second slot is another instruction")
        number = (raw.imm & 0xFFFFFFFF) | (upper & 0xFFFFFFFF) << 32
        target = raw.index + 1 + raw.imm if raw.src == Pseudo.FUNC else None
        return self.made(Kind.WIDE, Pseudo(raw.src).name.lower(), imm=number, target=target)

    def load(self) -> Instruction:
        raw, mode = self.raw, self.raw.opcode & 0xE0
        size = SIZES[raw.opcode & 0x18]
        if mode not in (_MEM, _MEMSX) or (mode == _MEMSX and size == 8):
            return self.unknown()
        self.zero("imm")
        return self.made(Kind.LOAD, "load", size=size, signed=mode == _MEMSX)

    def store(self) -> Instruction:
        raw, mode = self.raw, self.raw.opcode & 0xE0
        by_register = raw.opcode & 7 == InstructionClass.STX
        size = SIZES[raw.opcode & 0x18]
        if raw.opcode == _NOSPEC and self.translated:
            return self.made(Kind.FENCE, "nospec")
        if mode == _ATOMIC and by_register:
            return self.atomic(size)
        if mode != _MEM:
            return self.unknown()
        self.zero("imm" if by_register else "src")
        return self.made(Kind.STORE, "store", size=size, by_register=by_register)

    def atomic(self, size: int) -> Instruction:
        operation, fetches = ATOMIC_OPERATIONS.get(self.raw.imm, ("", False))
        self.demand(bool(operation), f"has imm {self.raw.imm:#x}, which is no atomic operation")
        small = operation in ("load_acquire", "store_release")
        self.demand(small or size >= 4, f"is an atomic of {size} bytes, which only load_acquire and store_release have")
        if operation == "load_acquire":
            self.demand(self.raw.dst != _FRAME_POINTER, "writes r10, which can only be read")
        elif fetches:
            self.demand(self.raw.src != _FRAME_POINTER, "writes r10, which can only be read")
        return self.made(Kind.ATOMIC, operation, size=size, by_register=True, signed=False)

    # --- jumps

    def jump(self) -> Instruction:
        raw, here = self.raw, self.raw.index + 1
        if raw.opcode == _JA:
            self.zero("dst", "src", "imm")
            return self.made(Kind.GOTO, "goto", target=here + raw.off)
        if raw.opcode == _GOTOL:
            self.zero("dst", "src", "off")
            return self.made(Kind.GOTO, "gotol", target=here + raw.imm)
        if raw.opcode == _JCOND:
            self.zero("dst", "src", "imm")
            return self.made(Kind.MAY_GOTO, "may_goto", target=here + raw.off)
        if raw.opcode == _EXIT:
            self.zero("dst", "src", "off", "imm")
            return self.made(Kind.EXIT, "exit")
        if raw.opcode == _CALL:
            return self.call()
        self.demand(
            raw.opcode != _CALLX, "calls through a register, as clang makes it at -O0: the kernel takes no such call"
        )
        operation = JUMP_OPERATIONS.get(raw.opcode & 0xF0)
        if operation is None:
            return self.unknown()
        by_register = bool(raw.opcode & 8)
        self.zero("imm" if by_register else "src")
        bits = 32 if raw.opcode & 7 == InstructionClass.JMP32 else 64
        return self.made(Kind.BRANCH, operation, bits=bits, by_register=by_register, target=here + raw.off)

    def call(self) -> Instruction:
        raw = self.raw
        self.zero("dst")
        self.demand(raw.src in (0, 1, 2), f"is a call of kind {raw.src}, which isn't known")
        operation = ("helper", "function", "kfunc")[raw.src]
        if operation == "function":
            # The kernel keeps the way to a function it has translated in off, and its number in imm.
            return self.made(Kind.CALL, operation, target=raw.index + 1 + (raw.off if self.translated else raw.imm))
        if operation == "helper":
            self.zero("off")
        return self.made(Kind.CALL, operation)
