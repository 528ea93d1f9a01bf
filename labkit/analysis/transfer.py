"""What one instruction makes of what is known: the step of every walk through a program."""

from __future__ import annotations

from labkit.analysis.arithmetic import MASK64, compute, extended, holds, signed, swapped
from labkit.analysis.helpers import MAP_LOOKUP
from labkit.analysis.instruction import Instruction
from labkit.analysis.opcodes import Kind, Pseudo
from labkit.analysis.state import MAP, STACK, Pointer, State, Value

__all__ = ["address", "after", "after_call", "taken"]


def operand(state: State, each: Instruction) -> Value:
    """The right-hand side: a register, or the immediate carried on to 64 bits."""
    return state.registers[each.src] if each.by_register else each.imm & MASK64


def address(state: State, each: Instruction) -> Value:
    """The memory that a load, store or atomic reaches, as far as it is known."""
    reads = each.kind is Kind.LOAD or each.operation == "load_acquire"
    base = state.registers[each.src if reads else each.dst]
    return base.moved(each.off) if isinstance(base, Pointer) else None


def after(state: State, each: Instruction) -> State:
    """The state after an instruction that goes on to the next, and is no call."""
    if each.kind is Kind.ARITHMETIC:
        return state.with_registers({each.dst: _arithmetic(state, each)})
    if each.kind is Kind.SWAP:
        value = state.registers[each.dst]
        known = swapped(each.operation, value, each.bits) if isinstance(value, int) else None
        return state.with_registers({each.dst: known})
    if each.kind is Kind.WIDE:
        return state.with_registers({each.dst: _wide(each)})
    if each.kind is Kind.LOAD:
        return state.with_registers({each.dst: _loaded(state, each)})
    if each.kind is Kind.STORE:
        return _stored(state, each, operand(state, each))
    if each.kind is Kind.ATOMIC:
        return _atomic(state, each)
    if each.kind is Kind.PACKET_LOAD:
        return state.with_registers(dict.fromkeys(range(6)))
    return state


def after_call(state: State, helper: int | None) -> State:
    """The state after a call into the kernel whose result isn't known."""
    return state.after_helper(Pointer(MAP) if helper == MAP_LOOKUP else None)


def taken(state: State, each: Instruction) -> bool | None:
    """Whether a conditional jump is taken, None where both can be."""
    left, right = state.registers[each.dst], operand(state, each)
    if isinstance(left, int) and isinstance(right, int):
        return holds(each.operation, left, right, each.bits)
    return None


def _arithmetic(state: State, each: Instruction) -> Value:
    left, right = state.registers[each.dst], operand(state, each)
    if each.operation == "mov" and each.bits == 64:
        return right
    if each.operation in ("cast", "percpu"):
        return None
    if each.operation == "neg" or each.operation.startswith("mov"):
        value = left if each.operation == "neg" else right
        return compute(each.operation, value, value, each.bits) if isinstance(value, int) else None
    if isinstance(left, int) and isinstance(right, int):
        return compute(each.operation, left, right, each.bits)
    return _pointer_arithmetic(each, left, right)


def _pointer_arithmetic(each: Instruction, left: Value, right: Value) -> Value:
    if each.bits != 64 or each.operation not in ("add", "sub"):
        return None
    if isinstance(left, Pointer) and isinstance(right, int):
        by = signed(right, 64)
        return left.moved(by if each.operation == "add" else -by)
    if isinstance(left, Pointer) and right is None and each.operation == "add":
        return left.moved(
            None
        )  # not after "sub": less another pointer it is a number, to which any pointer can be added
    if isinstance(right, Pointer) and isinstance(left, int) and each.operation == "add":
        return right.moved(signed(left, 64))
    return None


def _wide(each: Instruction) -> Value:
    if each.operation == Pseudo.NUMBER.name.lower():
        return each.imm
    values = (Pseudo.MAP_VALUE.name.lower(), Pseudo.MAP_IDX_VALUE.name.lower())
    return Pointer(MAP) if each.operation in values else None


def _loaded(state: State, each: Instruction) -> Value:
    where = address(state, each)
    if not isinstance(where, Pointer) or where.memory != STACK:
        return None
    value = state.loaded(where, each.size)
    return extended(value, 8 * each.size) if each.signed and isinstance(value, int) else value


def _stored(state: State, each: Instruction, value: Value) -> State:
    where = address(state, each)
    if isinstance(where, Pointer):
        return state.stored(where, each.size, value) if where.memory == STACK else state
    return state.forgetting_stacks()


def _atomic(state: State, each: Instruction) -> State:
    if each.operation == "load_acquire":
        return state.with_registers({each.dst: _loaded(state, each)})
    if each.operation == "store_release":
        return _stored(state, each, state.registers[each.src])
    state = _stored(state, each, None)
    if each.operation == "cmpxchg":
        return state.with_registers({0: None})
    return state.with_registers({each.src: None}) if each.imm & 1 else state
