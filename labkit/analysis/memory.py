"""The memory of the interpreter: regions of bytes at made-up addresses, far apart."""

from __future__ import annotations

import random
import sys
from dataclasses import dataclass

from labkit.analysis.arithmetic import MASK64

__all__ = ["Fault", "Memory", "Region"]

FRAME_BYTES = 512  # MAX_BPF_STACK, include/linux/filter.h
_FIRST, _APART = 0x1000_0000_0000, 0x1_0000_0000


class Fault(Exception):
    """The execution did what no program that the verifier accepts can do."""


@dataclass(frozen=True)
class Region:
    """``bytes`` at ``address``; ``kind`` as "stack", "packet", "map value"."""

    kind: str
    address: int
    data: bytearray


class Memory:
    """All regions. What nobody has written holds noise."""

    def __init__(self, noise: random.Random) -> None:
        self.noise = noise
        self.regions: list[Region] = []

    def add(self, kind: str, size: int, data: bytes | None = None) -> Region:
        """A new region."""
        made = Region(kind, _FIRST + _APART * len(self.regions), bytearray(data or self.noise.randbytes(size)))
        self.regions.append(made)
        return made

    def find(self, address: int, size: int) -> tuple[Region, int]:
        """The region that holds all ``size`` bytes at ``address``, and where in it. Raises Fault."""
        for region in self.regions:
            at = address - region.address
            if at >= 0 and at + size <= len(region.data):
                return region, at
        raise Fault(f"{size} bytes at {address & MASK64:#x}, where nothing is")

    def load(self, address: int, size: int) -> int:
        """A number of ``size`` bytes."""
        region, at = self.find(address, size)
        return int.from_bytes(region.data[at : at + size], sys.byteorder)

    def store(self, address: int, size: int, value: int) -> None:
        """Write the lower ``size`` bytes of ``value``."""
        region, at = self.find(address, size)
        region.data[at : at + size] = (value & ((1 << 8 * size) - 1)).to_bytes(size, sys.byteorder)
