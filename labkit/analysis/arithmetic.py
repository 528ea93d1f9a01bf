"""What eBPF arithmetic and comparisons give, on unsigned 64-bit numbers: one place for interpreter and analysis.

RFC 9669, sections 4.1 and 4.2. A result of 32 bits has an upper half of zeroes. Nothing is undefined: a division by
zero gives 0, a remainder by zero leaves the number, a shift is by its count's lower bits.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

__all__ = ["MASK64", "compute", "extended", "holds", "signed", "swapped"]

MASK64 = (1 << 64) - 1


def signed(value: int, bits: int) -> int:
    """The lower ``bits`` of ``value``, read as a signed number."""
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def extended(value: int, bits: int, to: int = 64) -> int:
    """The lower ``bits`` of ``value`` with their sign carried on up to ``to`` bits, as an unsigned number."""
    return signed(value, bits) & ((1 << to) - 1)


def compute(operation: str, left: int, right: int, bits: int) -> int:
    """``left operation right`` at a width of 32 or 64 bits; "neg" and moves take one of them."""
    mask = (1 << bits) - 1
    left, right = left & mask, right & mask
    if operation.startswith("movsx"):
        return extended(right, int(operation.removeprefix("movsx")), bits)
    return _OPERATIONS[operation](left, right, bits) & mask


def _divided(left: int, right: int, bits: int) -> int:
    a, b = signed(left, bits), signed(right, bits)
    if b == 0:
        return 0
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


def _remainder(left: int, right: int, bits: int) -> int:
    a, b = signed(left, bits), signed(right, bits)
    if b == 0:
        return left
    rest = abs(a) % abs(b)
    return -rest if a < 0 else rest


_OPERATIONS: dict[str, Callable[[int, int, int], int]] = {
    "add": lambda a, b, _: a + b,
    "sub": lambda a, b, _: a - b,
    "mul": lambda a, b, _: a * b,
    "div": lambda a, b, _: a // b if b else 0,
    "mod": lambda a, b, _: a % b if b else a,
    "sdiv": _divided,
    "smod": _remainder,
    "or": lambda a, b, _: a | b,
    "and": lambda a, b, _: a & b,
    "xor": lambda a, b, _: a ^ b,
    "lsh": lambda a, b, bits: a << (b & (bits - 1)),
    "rsh": lambda a, b, bits: a >> (b & (bits - 1)),
    "arsh": lambda a, b, bits: signed(a, bits) >> (b & (bits - 1)),
    "neg": lambda a, _, __: -a,
    "mov": lambda _, b, __: b,
}


def swapped(operation: str, value: int, bits: int) -> int:
    """``value`` after a byte swap of its lower ``bits``: "le" and "be" swap on machines of the other order only."""
    value &= (1 << bits) - 1
    if operation == "bswap" or operation != {"little": "le", "big": "be"}[sys.byteorder]:
        return int.from_bytes(value.to_bytes(bits // 8, "little"), "big")
    return value


def holds(operation: str, left: int, right: int, bits: int) -> bool:
    """Whether a conditional jump is taken."""
    mask = (1 << bits) - 1
    left, right = left & mask, right & mask
    if operation.startswith("s") and operation != "set":
        return _COMPARISONS[operation[1:]](signed(left, bits), signed(right, bits))
    return _COMPARISONS[operation](left, right)


_COMPARISONS: dict[str, Callable[[int, int], bool]] = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "set": lambda a, b: bool(a & b),
}
