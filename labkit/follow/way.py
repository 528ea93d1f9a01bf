"""What a frame comes by on its way: conditional jumps, with both sides of the comparison, and calls of helpers."""

from __future__ import annotations

from dataclasses import dataclass

from labkit.follow.origin import Origin, Origins

__all__ = ["Branch", "Called", "Side"]


@dataclass(frozen=True)
class Side:
    """One side of a comparison: the number, where it came from, and ``read`` if it is as it was read from there.

    ``pointer``: what it points to ("packet", "map value", …) and where in it, or None for a number.
    """

    number: int
    origins: Origins
    read: Origin | None
    pointer: tuple[str, int] | None
    constant: bool = False


@dataclass(frozen=True)
class Branch:
    """A conditional jump that came by: ``operation`` as labkit.analysis.opcodes has it, ``taken`` whether it was."""

    slot: int
    operation: str
    bits: int
    left: Side
    right: Side
    taken: bool


@dataclass(frozen=True)
class Called:
    """A helper that was called, and what it answered; ``entry`` is (map, key) of a lookup or a redirect."""

    slot: int
    name: str
    answer: int
    entry: tuple[str, bytes] | None = None
