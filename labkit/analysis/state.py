"""What is known of a machine at one place of a program: registers and stack, as numbers, pointers or nothing.

A value is an ``int`` (exactly this unsigned number), a Pointer (into this memory), or None: it can be anything. Two ways
that meet keep what both know (``joined``), so each place is revisited a few times at the most.
"""

from __future__ import annotations

import sys
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

__all__ = ["CONTEXT", "MAP", "STACK", "Pointer", "State", "Value"]

CONTEXT, MAP, STACK = "context", "map value", "stack"


class Pointer(NamedTuple):
    """Points into ``memory``; of the stack, into the ``frame`` of a function (0: the outermost), where ``offset`` is
    from its top, downwards negative, and None where unknown.
    """

    memory: str
    frame: int = 0
    offset: int | None = None

    def moved(self, by: int | None) -> Pointer | None:
        """The same after an addition; ``by`` None: of something unknown.

        A map's value may be NULL, a plain 0, and then something unknown, added to it, any pointer: nothing is known.
        """
        if self.memory != STACK:
            return self if by is not None else None
        return self._replace(offset=None if by is None or self.offset is None else self.offset + by)


Value = int | Pointer | None
# A byte in memory: a number, or one of the eight bytes of a pointer.
Byte = int | tuple[Pointer, int]
REGISTERS = 12  # r0 to r10, and the one that the kernel keeps for itself


def _common(a: Value, b: Value) -> Value:
    if a == b:
        return a
    if isinstance(a, Pointer) and isinstance(b, Pointer) and a[:2] == b[:2]:
        return a._replace(offset=None)
    return None


@dataclass(frozen=True)
class State:
    """``registers`` by number; ``saved`` has r6 to r9 of each caller; ``memory`` the known bytes of the stack by frame
    and offset.
    """

    registers: tuple[Value, ...] = (None,) * REGISTERS
    saved: tuple[tuple[Value, ...], ...] = ()
    memory: Mapping[tuple[int, int], Byte] = field(default_factory=dict)

    @staticmethod
    def entry() -> State:
        """On entry to a program: r1 is the context, r10 the top of the stack."""
        registers: list[Value] = [None] * REGISTERS
        registers[1], registers[10] = Pointer(CONTEXT), Pointer(STACK, 0, 0)
        return State(tuple(registers))

    @staticmethod
    def callback() -> State:
        """On entry to a function that a helper calls: of everything outside nothing is known."""
        registers: list[Value] = [None] * REGISTERS
        registers[10] = Pointer(STACK, 0, 0)
        return State(tuple(registers))

    def with_registers(self, values: Mapping[int, Value]) -> State:
        """With some registers set anew."""
        registers = list(self.registers)
        for number, value in values.items():
            registers[number] = value
        return replace(self, registers=tuple(registers))

    def called(self) -> State:
        """In a BPF function just called: a frame of its own, the arguments in r1 to r5."""
        depth = len(self.saved) + 1
        registers = (None, *self.registers[1:6], None, None, None, None, Pointer(STACK, depth, 0), None)
        return State(registers, (*self.saved, self.registers[6:10]), self._without(depth))

    def returned(self) -> State:
        """Back in the caller: r0 is the result, r6 to r9 are the caller's, r1 to r5 are lost."""
        depth = len(self.saved)
        result = self.registers[0]
        if isinstance(result, Pointer) and result.memory == STACK and result.frame >= depth:
            result = None
        frame = Pointer(STACK, depth - 1, 0)
        registers = (result, *(None,) * 5, *self.saved[-1], frame, None)
        return State(registers, self.saved[:-1], self._without(depth))

    def after_helper(self, result: Value) -> State:
        """After a call into the kernel, which may have written to any stack it was given."""
        return State((result, *(None,) * 5, *self.registers[6:]), self.saved, {})

    def stored(self, where: Pointer, size: int, value: Value) -> State:
        """After a store to the stack. With an unknown offset, nothing is known of that frame any more."""
        if where.offset is None:
            return replace(self, memory=self._without(where.frame, only=True))
        memory = dict(self.memory)
        for i, byte in enumerate(_bytes(value, size)):
            key = where.frame, where.offset + i
            if byte is None:
                memory.pop(key, None)
            else:
                memory[key] = byte
        return replace(self, memory=memory)

    def loaded(self, where: Pointer, size: int) -> Value:
        """What a load from the stack gives."""
        if where.offset is None:
            return None
        found = [self.memory.get((where.frame, where.offset + i)) for i in range(size)]
        numbers = [byte for byte in found if isinstance(byte, int)]
        if len(numbers) == size:
            return int.from_bytes(bytes(numbers), sys.byteorder)
        first = found[0]
        if isinstance(first, tuple) and found == [(first[0], i) for i in range(8)]:
            return first[0]
        return None

    @property
    def key(self) -> Hashable:
        """Equal for equal states."""
        return self.registers, self.saved, frozenset(self.memory.items())

    def forgetting_stacks(self) -> State:
        """After a store that may have gone anywhere."""
        return replace(self, memory={})

    def joined(self, other: State) -> State:
        """What holds in both."""
        pairs = zip(self.saved, other.saved, strict=True)
        return State(
            tuple(_common(a, b) for a, b in zip(self.registers, other.registers, strict=True)),
            tuple(tuple(_common(a, b) for a, b in zip(x, y, strict=True)) for x, y in pairs),
            {key: byte for key, byte in self.memory.items() if other.memory.get(key) == byte},
        )

    def _without(self, frame: int, only: bool = False) -> dict[tuple[int, int], Byte]:
        """Memory without a frame's bytes and, unless ``only``, those of the frames below it."""
        return {key: byte for key, byte in self.memory.items() if (key[0] != frame if only else key[0] < frame)}


def _bytes(value: Value, size: int) -> list[Byte | None]:
    if isinstance(value, int):
        whole = value & ((1 << 8 * size) - 1)
        return list(whole.to_bytes(size, sys.byteorder))
    if isinstance(value, Pointer) and size == 8:
        return [(value, i) for i in range(8)]
    return [None] * size
