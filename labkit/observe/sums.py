"""Counters that go together, added and subtracted field by field."""

from __future__ import annotations

from dataclasses import astuple, dataclass
from typing import Self

__all__ = ["Sums"]


@dataclass(frozen=True)
class Sums:
    """For a dataclass of whole numbers."""

    def __add__(self, other: Self) -> Self:
        return type(self)(*(a + b for a, b in zip(astuple(self), astuple(other), strict=True)))

    def __sub__(self, other: Self) -> Self:
        return type(self)(*(new - old for new, old in zip(astuple(self), astuple(other), strict=True)))
