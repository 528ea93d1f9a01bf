"""An instruction as a line to read, much as the verifier writes them."""

from __future__ import annotations

from collections.abc import Callable

from labkit.analysis.code import Code
from labkit.analysis.instruction import Instruction
from labkit.analysis.opcodes import Kind, Pseudo

__all__ = ["in_words"]

_SIGNS = {
    **{"add": "+", "sub": "-", "mul": "*", "div": "/", "or": "|", "and": "&", "lsh": "<<", "rsh": ">>"},
    **{"mod": "%", "xor": "^", "arsh": "s>>", "sdiv": "s/", "smod": "s%"},
}
_COMPARED = {
    **{"eq": "==", "gt": ">", "ge": ">=", "set": "&", "ne": "!=", "sgt": "s>", "sge": "s>="},
    **{"lt": "<", "le": "<=", "slt": "s<", "sle": "s<="},
}
_WIDE = {
    Pseudo.MAP_FD.name.lower(): "map",
    Pseudo.MAP_IDX.name.lower(): "map",
    Pseudo.MAP_VALUE.name.lower(): "value of map",
    Pseudo.MAP_IDX_VALUE.name.lower(): "value of map",
    Pseudo.BTF_ID.name.lower(): "kernel variable",
}


def in_words(code: Code, each: Instruction) -> str:
    """``r1 = *(u16 *)(r2 + 12)``, ``→ 31 if r1 != 17``: r registers have 64 bits, w is the lower half of one."""
    write: dict[Kind, Callable[[], str]] = {
        Kind.ARITHMETIC: lambda: _arithmetic(each),
        Kind.SWAP: lambda: f"r{each.dst} = {each.operation}{each.bits} r{each.dst}",
        Kind.WIDE: lambda: f"r{each.dst} = {_wide(code, each)}",
        Kind.LOAD: lambda: f"r{each.dst} = {_memory(each, each.src)}",
        Kind.PACKET_LOAD: lambda: f"r0 = packet[{f'r{each.src} + ' if each.operation == 'ind' else ''}{each.imm}]",
        Kind.STORE: lambda: f"{_memory(each, each.dst)} = {_right(each)}",
        Kind.ATOMIC: lambda: _atomic(each),
        Kind.GOTO: lambda: f"→ {each.target}",
        Kind.MAY_GOTO: lambda: f"→ {each.target} if it has taken too long",
        Kind.BRANCH: lambda: f"→ {each.target} if {_left(each)} {_COMPARED[each.operation]} {_right(each)}",
        Kind.CALL: lambda: f"call {code.callees[each.index].name}",
        Kind.EXIT: lambda: "exit",
        Kind.FENCE: lambda: "fence against speculation",
    }
    return write[each.kind]()


def _left(each: Instruction) -> str:
    return f"{'w' if each.bits == 32 else 'r'}{each.dst}"


def _right(each: Instruction) -> str:
    return f"{'w' if each.bits == 32 else 'r'}{each.src}" if each.by_register else str(each.imm)


def _arithmetic(each: Instruction) -> str:
    left, right = _left(each), _right(each)
    if each.operation == "neg":
        return f"{left} = -{left}"
    if each.operation == "mov":
        return f"{left} = {right}"
    if each.operation.startswith("movsx"):
        return f"{left} = (s{each.operation[5:]}){right}"
    if each.operation == "percpu":
        return f"{left} = this CPU's {right}"
    if each.operation == "cast":
        return f"{left} = address space cast of {right}"
    return f"{left} {_SIGNS[each.operation]}= {right}"


def _wide(code: Code, each: Instruction) -> str:
    if each.operation == "func":
        return f"function at {each.target}"
    known = code.maps.get(each.index)
    what = _WIDE.get(each.operation, "map" if known else "")
    if not what:
        return f"{each.imm:#x} ll"
    return f"{what} {known or each.imm & 0xFFFFFFFF}"


def _memory(each: Instruction, base: int) -> str:
    sign = "-" if each.off < 0 else "+"
    return f"*({'s' if each.signed else 'u'}{each.size * 8} *)(r{base} {sign} {abs(each.off)})"


def _atomic(each: Instruction) -> str:
    return f"atomic {each.operation.replace('_', ' ')}: {_memory(each, each.dst)}, r{each.src}"
