"""A program to analyse: decoded, cut into functions, with what is known of its calls, maps and source lines."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum

from labkit.analysis.helpers import REDIRECT, REDIRECT_MAP, TAIL_CALL, helper_name
from labkit.analysis.instruction import SLOT_BYTES, Instruction, decode
from labkit.analysis.opcodes import Kind, Pseudo
from labkit.errors import AnalysisError

__all__ = ["Callee", "Code", "Function", "Line", "Origin", "build"]


class Origin(Enum):
    """Where bytecode comes from, as words."""

    SPEC = "compiled by the lab"
    ELF = "an object file"
    KERNEL = "as the kernel translated it"


@dataclass(frozen=True)
class Line:
    """A line of the C text; ``number`` counts from 1."""

    file: str
    number: int
    text: str

    def __str__(self) -> str:
        return f"{self.file}:{self.number}: {self.text.strip()}"


@dataclass(frozen=True)
class Function:
    """Slots ``start`` to ``end``, the latter not in it. ``callback``: a helper calls it; the program may do so, too."""

    name: str
    start: int
    end: int
    callback: bool = False


@dataclass(frozen=True)
class Callee:
    """What a call calls: ``helper`` its number, or None; ``target`` the slot of a BPF function, or None."""

    name: str
    helper: int | None = None
    target: int | None = None


@dataclass(frozen=True)
class Code:
    """A whole program. ``functions`` begins with the one that the kernel enters; ``lines`` is by rising slot."""

    name: str
    instructions: Mapping[int, Instruction]
    functions: tuple[Function, ...]
    callees: Mapping[int, Callee]
    origin: Origin
    section: str = ""
    maps: Mapping[int, str] = field(default_factory=dict)
    lines: Mapping[int, Line] = field(default_factory=dict)

    @property
    def slots(self) -> int:
        """Length in slots of 8 bytes."""
        return max(function.end for function in self.functions)

    def function_at(self, slot: int) -> Function:
        """The function that ``slot`` belongs to."""
        return next(function for function in self.functions if function.start <= slot < function.end)

    def line_at(self, slot: int) -> Line | None:
        """The C line that ``slot`` was made of, where the program says."""
        starts = sorted(self.lines)
        found = starts[: bisect_right(starts, slot)]
        if not found or found[-1] < self.function_at(slot).start:
            return None
        return self.lines[found[-1]]

    def calls_of(self, helper: int) -> tuple[int, ...]:
        """Slots at which a helper is called, by its number."""
        return tuple(slot for slot, callee in sorted(self.callees.items()) if callee.helper == helper)

    @property
    def redirect_maps(self) -> tuple[int, ...]:
        """Slots of the calls of bpf_redirect_map."""
        return self.calls_of(REDIRECT_MAP)

    @property
    def redirects(self) -> tuple[int, ...]:
        """Slots of the calls of bpf_redirect."""
        return self.calls_of(REDIRECT)

    @property
    def tail_calls(self) -> tuple[int, ...]:
        """Slots of the calls of bpf_tail_call, which goes on in another program."""
        return self.calls_of(TAIL_CALL)


def build(
    name: str,
    code: bytes,
    *,
    origin: Origin,
    names: Mapping[int, str] | None = None,
    kfuncs: Mapping[int, str] | None = None,
    helpers: Mapping[int, Callee] | None = None,
    maps: Mapping[int, str] | None = None,
    lines: Mapping[int, Line] | None = None,
    section: str = "",
) -> Code:
    """The program in ``code``, whose first slot is where the kernel enters.

    ``names`` of functions by their first slot, ``kfuncs`` names of kernel functions by the slot of the call,
    ``helpers`` what calls are that a number doesn't tell. Raises AnalysisError for what isn't eBPF and for jumps that
    lead astray.
    """
    instructions = decode(code, translated=origin is Origin.KERNEL)
    callees = {
        slot: (helpers or {}).get(slot) or _callee(each, names or {}, kfuncs or {})
        for slot, each in instructions.items()
        if each.kind is Kind.CALL
    }
    functions = _functions(name, instructions, len(code) // SLOT_BYTES, names or {})
    _check_ways(instructions, functions)
    return Code(name, instructions, functions, callees, origin, section, dict(maps or {}), dict(lines or {}))


def _callee(call: Instruction, names: Mapping[int, str], kfuncs: Mapping[int, str]) -> Callee:
    if call.operation == "function" and call.target is not None:
        return Callee(names.get(call.target, f"function at {call.target}"), target=call.target)
    if call.operation == "kfunc":
        return Callee(kfuncs.get(call.index, f"kernel function {call.imm}"))
    return Callee(helper_name(call.imm), helper=call.imm)


def _functions(
    name: str, instructions: Mapping[int, Instruction], slots: int, names: Mapping[int, str]
) -> tuple[Function, ...]:
    called = {each.target for each in instructions.values() if each.kind is Kind.CALL and each.target is not None}
    handed = _handed(instructions.values())
    starts = sorted({0, *called, *handed, *names})
    if starts[0] < 0 or starts[-1] >= slots:
        raise AnalysisError(
            f"A call leads to slot {starts[0] if starts[0] < 0 else starts[-1]}, but the program has {slots}.",
            tried="to find the functions of a program",
            on=name,
        )
    if 0 in handed:
        raise AnalysisError(
            "A helper is to call the program itself.", tried="to find the functions of a program", on=name
        )
    ends = [*starts[1:], slots]
    return tuple(
        Function(names.get(start, name if start == 0 else f"function at {start}"), start, end, start in handed)
        for start, end in zip(starts, ends, strict=True)
    )


def _handed(instructions: Iterable[Instruction]) -> set[int]:
    """Functions whose address is taken: a helper will call them."""
    return {
        each.target
        for each in instructions
        if each.kind is Kind.WIDE and each.operation == Pseudo.FUNC.name.lower() and each.target is not None
    }


def _check_ways(instructions: Mapping[int, Instruction], functions: tuple[Function, ...]) -> None:
    for function in functions:
        inside = [instructions[slot] for slot in range(function.start, function.end) if slot in instructions]
        for each in inside:
            for to in each.successors:
                if not function.start <= to < function.end or to not in instructions:
                    raise AnalysisError(
                        f"Instruction {each.index} of {function.name} leads to slot {to}, where no instruction of it is.",
                        slot=each.index,
                        opcode=each.opcode,
                        tried="to follow a program's ways",
                        on=function.name,
                        remedy="a function must end in an exit or a jump, and a jump must stay within it",
                    )
