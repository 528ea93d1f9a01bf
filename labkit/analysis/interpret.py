"""An interpreter of the same instruction set, which remembers all that somebody outside could see of an execution.

It is the measure of the detectors: whatever dataflow claims must hold in each execution here; and of itself, as the
kernel runs the same programs beside it (BPF_PROG_TEST_RUN). What the kernel leaves to chance is noise here: registers
nobody set, the stack on entry, r1 to r5 after a call.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from labkit.analysis.arithmetic import MASK64, compute, extended, holds, swapped
from labkit.analysis.code import Code
from labkit.analysis.helpers import MAP_LOOKUP
from labkit.analysis.instruction import Instruction
from labkit.analysis.memory import FRAME_BYTES, Fault, Memory
from labkit.analysis.opcodes import Kind, Pseudo
from labkit.errors import AnalysisError

__all__ = ["Event", "Execution", "Interpreter"]

MOST_STEPS = 100_000
MOST_FRAMES = 8
# struct xdp_md, include/uapi/linux/bpf.h: offsets of data, data_end, data_meta. 24 bytes.
_CONTEXT_BYTES, _DATA, _DATA_END, _DATA_META = 24, 0, 4, 8

Helper = Callable[[int, tuple[int, ...]], int]


@dataclass(frozen=True)
class Event:
    """Something seen from outside: a call of helper ``helper`` (-1: of a kernel function) with its result, or ``what``
    was done to which memory; ``slot`` is where in the program.
    """

    slot: int
    what: str
    helper: int | None = None
    result: int = 0


@dataclass(frozen=True)
class Execution:
    """One run: ``result`` is r0 at the end, all 64 bits; ``events`` in order; ``steps`` instructions."""

    result: int
    events: tuple[Event, ...]
    steps: int

    @property
    def verdict(self) -> int:
        """What a driver gets: 32 bits."""
        return self.result & 0xFFFFFFFF


@dataclass
class _Frame:
    back: int
    saved: list[int]


class Interpreter:
    """A machine with ``code`` in it. ``helper(number, arguments)`` answers calls into the kernel; a lookup in a map that
    isn't answered with 0 gives a value of 64 bytes. ``most``: instructions, until an execution is given up.
    """

    def __init__(
        self, code: Code, helper: Helper, *, packet: bytes = bytes(64), seed: int = 0, most: int = MOST_STEPS
    ) -> None:
        self.code, self.helper, self.most = code, helper, most
        self.noise = random.Random(seed)
        self.memory = Memory(self.noise)
        self.stack = [self.memory.add("stack", FRAME_BYTES) for _ in range(MOST_FRAMES)]
        self.context = self.memory.add("context", _CONTEXT_BYTES)
        self.packet = self.memory.add("packet", len(packet), packet)
        self.value = self.memory.add("map value", 64)
        self.registers = [self.noise.getrandbits(64) for _ in range(12)]
        self.frames: list[_Frame] = []
        self.events: list[Event] = []

    def run(self) -> Execution:
        """Run to the end. Raises Fault for what no accepted program does, AnalysisError where it won't end."""
        self.registers[1], self.registers[10] = self.context.address, self._top(0)
        slot: int | None = 0
        for step in range(self.most):
            if slot is None:
                return Execution(self.registers[0], tuple(self.events), step)
            slot = self._step(self.code.instructions[slot])
        raise AnalysisError(
            f"{self.code.name} was still running after {self.most:,} instructions.", tried="to interpret a program"
        )

    def _top(self, depth: int) -> int:
        return self.stack[depth].address + FRAME_BYTES

    def _right(self, each: Instruction) -> int:
        return self.registers[each.src] if each.by_register else each.imm & MASK64

    def _step(self, each: Instruction) -> int | None:
        """Do one instruction; the slot of the next, None at the end."""
        registers = self.registers
        if each.kind is Kind.EXIT:
            return self._return()
        if each.kind is Kind.CALL:
            return self._call(each)
        if each.kind is Kind.GOTO:
            return each.target
        if each.kind is Kind.BRANCH:
            way = holds(each.operation, registers[each.dst], self._right(each), each.bits)
            return each.target if way else each.following
        if each.kind is Kind.MAY_GOTO:
            return each.target if self.noise.random() < 0.2 else each.following
        if each.kind is Kind.ARITHMETIC:
            self._arithmetic(each)
        elif each.kind is Kind.SWAP:
            registers[each.dst] = swapped(each.operation, registers[each.dst], each.bits)
        elif each.kind is Kind.WIDE:
            registers[each.dst] = self._wide(each)
        elif each.kind is Kind.LOAD:
            registers[each.dst] = self._load(each, registers[each.src] + each.off)
        elif each.kind is Kind.STORE:
            self._store(each, self._right(each))
        elif each.kind is Kind.ATOMIC:
            self._atomic(each)
        else:
            raise Fault(f"{each.kind.value} is not for an XDP program")
        return each.following

    def _arithmetic(self, each: Instruction) -> None:
        if each.operation in ("cast", "percpu"):
            raise Fault(f"{each.operation}: addresses that only the kernel has")
        self.registers[each.dst] = compute(each.operation, self.registers[each.dst], self._right(each), each.bits)

    def _wide(self, each: Instruction) -> int:
        if each.operation == Pseudo.NUMBER.name.lower():
            return each.imm
        if each.operation in (Pseudo.MAP_VALUE.name.lower(), Pseudo.MAP_IDX_VALUE.name.lower()):
            return self.value.address
        return 0xFFFF_8880_0000_0000 | each.index

    def _load(self, each: Instruction, address: int) -> int:
        address &= MASK64
        region, at = self.memory.find(address, each.size)
        if region is self.context and each.size == 4 and at in (_DATA, _DATA_END, _DATA_META):
            return self.packet.address + (len(self.packet.data) if at == _DATA_END else 0)
        if region is self.packet:
            self.events.append(Event(each.index, "reads packet"))
        value = self.memory.load(address, each.size)
        return extended(value, 8 * each.size) if each.signed else value

    def _store(self, each: Instruction, value: int) -> None:
        address = (self.registers[each.dst] + each.off) & MASK64
        self._seen(each, address)
        self.memory.store(address, each.size, value)

    def _seen(self, each: Instruction, address: int) -> None:
        region, _ = self.memory.find(address, each.size)
        if region.kind != "stack":
            self.events.append(Event(each.index, f"writes {region.kind}"))

    def _atomic(self, each: Instruction) -> None:
        self.events.append(Event(each.index, "atomic"))
        if each.operation == "load_acquire":
            self.registers[each.dst] = self._load(each, self.registers[each.src] + each.off)
            return
        source = self.registers[each.src]
        if each.operation == "store_release":
            return self._store(each, source)
        address = (self.registers[each.dst] + each.off) & MASK64
        old = self.memory.load(address, each.size)
        if each.operation == "cmpxchg":
            mask = (1 << 8 * each.size) - 1
            if old == self.registers[0] & mask:
                self._store(each, source)
            self.registers[0] = old
            return None
        new = source if each.operation == "xchg" else compute(each.operation, old, source, 8 * each.size)
        self._store(each, new)
        if each.imm & 1:
            self.registers[each.src] = old
        return None

    def _call(self, each: Instruction) -> int | None:
        callee = self.code.callees[each.index]
        if callee.target is not None:
            depth = len(self.frames) + 1
            if depth >= MOST_FRAMES:
                raise Fault("calls too deep")
            self.frames.append(_Frame(each.following, self.registers[6:11]))
            self.registers[10] = self._top(depth)
            for number in (0, *range(6, 10)):
                self.registers[number] = self.noise.getrandbits(64)
            return callee.target
        number = -1 if callee.helper is None else callee.helper
        result = self.helper(number, tuple(self.registers[1:6])) & MASK64
        if number == MAP_LOOKUP and result:
            result = self.value.address
        self.events.append(Event(each.index, callee.name, number, result))
        self.registers[0] = result
        for register in range(1, 6):
            self.registers[register] = self.noise.getrandbits(64)
        return each.following

    def _return(self) -> int | None:
        if not self.frames:
            return None
        frame = self.frames.pop()
        self.registers[6:11] = frame.saved
        for register in range(1, 6):
            self.registers[register] = self.noise.getrandbits(64)
        return frame.back
