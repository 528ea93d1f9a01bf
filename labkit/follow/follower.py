"""Follows one frame through a program, instruction by instruction: which way each branch goes, and why.

It is labkit.analysis' interpreter with the memory of a real run: the frame in its page, the maps as they were, and
helpers that answer what the kernel would. Beside each number goes where it came from.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from itertools import pairwise

from labkit.analysis.arithmetic import MASK64, holds
from labkit.analysis.code import Code
from labkit.analysis.helpers import MAP_LOOKUP, helper_name
from labkit.analysis.instruction import Instruction
from labkit.analysis.interpret import Interpreter
from labkit.analysis.memory import Fault, Region
from labkit.analysis.opcodes import Kind, Pseudo
from labkit.follow.answers import Answers
from labkit.follow.buffer import HEADROOM, Buffer
from labkit.follow.copies import Content
from labkit.follow.models import CannotFollow, MapModel
from labkit.follow.origin import NOWHERE, Origin, Origins, merged
from labkit.follow.way import Branch, Called, Side
from labkit.program.relocate import kernel_function

__all__ = ["Follower"]

_CONTEXT = ("data", "data_end", "data_meta", "ingress_ifindex", "rx_queue_index", "egress_ifindex")
_MAP_FIRST = 0x0F00_0000_0000  # where maps themselves seem to be: below all regions
_MAP_APART = 0x100
_KEEPS = ("mov", "lsh", "rsh", "arsh", "and")  # may leave a number as it was read; a swap tells it in the other order


class Follower(Interpreter):
    """One run. ``way`` has the branches and calls in order, ``slots`` every instruction, ``reads`` (offset, bytes) of the
    frame as it came, ``keys`` where the keys of lookups came from. ``flip``: which branch, counted from 0, to send the other way.

    ``run`` raises CannotFollow, Fault, AnalysisError; what came before is kept.
    """

    def __init__(
        self,
        code: Code,
        frame: bytes,
        metadata: bytes,
        maps: Mapping[str, Content],
        answers: Answers,
        *,
        cpu: int = 0,
        place: tuple[int, int] = (1, 0),
        flip: int | None = None,
        most: int = 200_000,
    ) -> None:
        super().__init__(code, lambda _n, _a: 0, packet=Buffer.page(), most=most)
        self.buffer = Buffer(self.packet.data, frame, metadata)
        self.answers, self.place, self.flip = answers, place, flip
        self.maps = {name: MapModel(content, self.memory, cpu) for name, content in maps.items()}
        self._names = list(maps)
        self.way: list[Branch | Called] = []
        self.branches = 0
        self.slots: list[int] = []
        self.reads: set[tuple[int, int]] = set()
        self.entries: dict[int, tuple[str, bytes]] = {}  # by the address of the region
        self.keys: dict[tuple[str, bytes], Origins] = {}  # where the key of a lookup came from
        self.origins: list[Origins] = [NOWHERE] * 12
        self.exact: list[tuple[Origin, int] | None] = [None] * 12
        self._stored: dict[int, Origins] = {}
        self._exactly: dict[int, tuple[Origin, int] | None] = {}
        self._callers: list[tuple[list[Origins], list[tuple[Origin, int] | None]]] = []
        self._asked: tuple[str, bytes] | None = None

    # What answers may use

    def map_at(self, pointer: int) -> MapModel | None:
        """The map that a wide load gave this number."""
        number = (pointer - _MAP_FIRST) // _MAP_APART
        return self.maps[self._names[number]] if 0 <= number < len(self._names) else None

    def bytes_at(self, address: int, size: int) -> bytes:
        """Memory that the program hands over. Raises Fault."""
        region, at = self._find(address & MASK64, size)
        return bytes(region.data[at : at + size])

    def write(self, address: int, data: bytes) -> None:
        """Memory that a helper writes."""
        region, at = self._find(address & MASK64, len(data))
        region.data[at : at + len(data)] = data
        for each in range(address, address + len(data)):
            self._stored[each], self._exactly[each] = NOWHERE, None

    def copied(self, at: int, size: int, to: int) -> None:
        """bpf_xdp_load_bytes: bytes of the packet go to memory."""
        self.write(to, bytes(self.packet.data[at : at + size]))
        self._read(at, size)
        for each in range(size):
            self._stored[to + each] = frozenset({Origin("frame", offset=at + each - HEADROOM, length=1)})

    def looked_up(self, name: str, key: bytes, region: Region | None, pointer: int = 0) -> None:
        """A lookup that was just answered; ``pointer``: where the program had the key."""
        self._asked = (name, key)
        came = [self._stored.get(pointer + i, NOWHERE) for i in range(len(key))] if pointer else []
        self.keys[name, key] = merged(*came)
        if region is not None:
            self.entries[region.address] = (name, key)

    # The machine

    def _step(self, each: Instruction) -> int | None:
        self.slots.append(each.index)
        if each.kind is Kind.BRANCH:
            return self._branch(each)
        before = self.origins[each.dst], self.origins[each.src]
        following = super()._step(each)
        if each.kind is Kind.ARITHMETIC:
            self._came_by_arithmetic(each, *before)
        elif each.kind is Kind.WIDE:
            self.origins[each.dst], self.exact[each.dst] = NOWHERE, None
        return following

    def _branch(self, each: Instruction) -> int | None:
        left, right = self.registers[each.dst], self._right(each)
        taken = holds(each.operation, left, right, each.bits)
        if self.branches == self.flip:
            taken = not taken
        self.branches += 1
        sides = self._side(each.dst, left), self._side(each.src, right) if each.by_register else self._constant(each)
        self.way.append(Branch(each.index, each.operation, each.bits, *sides, taken))
        return each.target if taken else each.following

    @staticmethod
    def _constant(each: Instruction) -> Side:
        return Side(each.imm & MASK64, NOWHERE, None, None, constant=True)

    def _side(self, register: int, number: int) -> Side:
        exact = self.exact[register]
        read = exact[0] if exact is not None and exact[1] == number else self._as_in_the_frame(register, number)
        return Side(number, self.origins[register], read, self._pointer(number), not self.origins[register])

    def _as_in_the_frame(self, register: int, number: int) -> Origin | None:
        """The bytes that a number was put together from, where it is the very number that they are.

        A header that is packed is read byte by byte; what was turned round is told by the name "swapped".
        """
        parts = sorted(self.origins[register], key=lambda each: each.offset)
        if not parts or any(each.kind != "frame" for each in parts):
            return None
        if any(one.offset + one.length != two.offset for one, two in pairwise(parts)):
            return None
        start, end = parts[0].offset, parts[-1].offset + parts[-1].length
        data = bytes(self.packet.data[HEADROOM + start : HEADROOM + end])
        if number == int.from_bytes(data, sys.byteorder):
            return Origin("frame", offset=start, length=end - start)
        return Origin("frame", "swapped", start, end - start) if number == int.from_bytes(data, "big") else None

    def _pointer(self, number: int) -> tuple[str, int] | None:
        for region in (self.packet, *self.memory.regions[FIRST_MADE:]):
            at = number - region.address
            if 0 <= at <= len(region.data):
                return region.kind, at
        return None

    def _came_by_arithmetic(self, each: Instruction, left: Origins, right: Origins) -> None:
        moves = each.operation.startswith("mov")
        given = right if each.by_register else NOWHERE
        self.origins[each.dst] = given if moves else merged(left, given)
        if each.operation == "mov":
            self.exact[each.dst] = self.exact[each.src] if each.by_register else None
        elif each.operation not in _KEEPS:
            self.exact[each.dst] = None

    def _wide(self, each: Instruction) -> int:
        name = self.code.maps.get(each.index)
        if name is not None:
            return _MAP_FIRST + _MAP_APART * self._names.index(name)
        if each.operation != Pseudo.NUMBER.name.lower():
            raise CannotFollow(f"it uses {each.operation.replace('_', ' ')}, which can't be followed")
        return each.imm

    def _find(self, address: int, size: int) -> tuple[Region, int]:
        region, at = self.memory.find(address, size)
        if region is self.packet and not self.buffer.meta <= at <= at + size <= self.buffer.end:
            raise Fault(f"{size} bytes at {at - self.buffer.data} of the frame, which ends before")
        return region, at

    def _load(self, each: Instruction, address: int) -> int:
        address &= MASK64
        region, at = self._find(address, each.size)
        if region is self.context:
            value = self._from_context(at, each.size)
            self._came(each.dst, Origin("context", _CONTEXT[at // 4]), value)
            return value
        value = super()._load(each, address)
        if region is self.packet:
            self._read(at, each.size)
            self._came(each.dst, Origin("frame", offset=at - HEADROOM, length=each.size), value)
        elif region.kind == "stack":
            self.origins[each.dst] = merged(*(self._stored.get(address + i, NOWHERE) for i in range(each.size)))
            self.exact[each.dst] = self._exactly.get(address)
        else:
            name, key = self.entries.get(region.address, (region.kind, b""))
            self._came(each.dst, Origin("map", name, at, each.size, key), value)
        return value

    def _came(self, register: int, origin: Origin, value: int) -> None:
        self.origins[register], self.exact[register] = frozenset({origin}), (origin, value)

    def _read(self, at: int, size: int) -> None:
        self.reads.add((at - HEADROOM, size))

    def _from_context(self, at: int, size: int) -> int:
        buffer, base = self.buffer, self.packet.address
        whole = (base + buffer.data, base + buffer.end, base + buffer.meta, *self.place, 0)[at // 4]
        if at // 4 < 3:  # pointers; 32 bits in the text, 64 in the kernel
            return whole
        raw = whole.to_bytes(4, sys.byteorder)[at % 4 : at % 4 + size]
        return int.from_bytes(raw, sys.byteorder)

    def _store(self, each: Instruction, value: int) -> None:
        address = (self.registers[each.dst] + each.off) & MASK64
        self._find(address, each.size)
        super()._store(each, value)
        given = self.origins[each.src] if each.by_register else NOWHERE
        for i in range(each.size):
            self._stored[address + i], self._exactly[address + i] = given, None
        if each.by_register and (exact := self.exact[each.src]) is not None and exact[1] < 1 << 8 * each.size:
            self._exactly[address] = exact

    def _atomic(self, each: Instruction) -> None:
        if each.operation != "load_acquire":
            self._find((self.registers[each.dst] + each.off) & MASK64, each.size)
        super()._atomic(each)
        fetched = 0 if each.operation == "cmpxchg" else each.src if each.imm & 1 else None
        if fetched is not None and each.operation not in ("load_acquire", "store_release"):
            self.origins[fetched], self.exact[fetched] = NOWHERE, None

    # Calls

    def _call(self, each: Instruction) -> int | None:
        callee = self.code.callees[each.index]
        if callee.target is not None:
            self._callers.append((self.origins[6:10], self.exact[6:10]))
            return super()._call(each)
        number = -1 if callee.helper is None else callee.helper
        asked = kernel_function(number) or (callee.name if callee.helper is None else None)
        if asked is not None and number not in self.answers.fixed:
            raise CannotFollow(f"{asked} asks the driver, and a replay has none to ask")
        self._asked = None
        answer = self.answers.answer(number, tuple(self.registers[1:6]), self)
        self.way.append(Called(each.index, asked or helper_name(number), answer, self._asked))
        self.registers[0] = answer
        name, key = self._asked or ("", b"")
        told = (
            Origin("entry", name, key=key) if number == MAP_LOOKUP else Origin("answer", asked or helper_name(number))
        )
        self.origins[0], self.exact[0] = frozenset({told}), None
        for register in range(1, 6):
            self.registers[register] = self.noise.getrandbits(64)
            self.origins[register], self.exact[register] = NOWHERE, None
        return each.following

    def _return(self) -> int | None:
        if self.frames:
            self.origins[6:10], self.exact[6:10] = self._callers.pop()
        return super()._return()


FIRST_MADE = 11  # regions: eight stacks, the context, the packet, and the interpreter's own value come first
