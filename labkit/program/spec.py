"""Programs as data: what a compiler makes of C text, before the kernel has seen any of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from labkit.errors import LabError
from labkit.uapi import MapType

__all__ = ["INSTRUCTION_BYTES", "FunctionSpec", "MapSpec", "ProgramSpec"]

INSTRUCTION_BYTES = 8  # struct bpf_insn, include/uapi/linux/bpf.h


@dataclass(frozen=True)
class MapSpec:
    """One map as the C text declares it; sizes in bytes.

    ``key_type`` and ``value_type`` are BTF type ids within ``ProgramSpec.btf``; 0 where unknown.
    """

    name: str
    type: MapType
    key_size: int
    value_size: int
    max_entries: int
    flags: int = 0
    key_type: int = 0
    value_type: int = 0


@dataclass(frozen=True)
class FunctionSpec:
    """The bytecode of one function: ``struct bpf_insn`` records in the machine's byte order.

    ``map_references`` pairs the index of a two-slot load instruction, whose number is 0 so far,
    with the name of the map it wants. ``func_info`` and ``line_info`` are the kernel's records
    (``struct bpf_func_info`` and ``struct bpf_line_info``) of the given record sizes, for the type
    information of the whole ``ProgramSpec``.
    """

    name: str
    instructions: bytes
    map_references: tuple[tuple[int, str], ...] = ()
    func_info: bytes = b""
    func_info_rec_size: int = 0
    line_info: bytes = b""
    line_info_rec_size: int = 0

    def __len__(self) -> int:
        """Instruction slots; a 64-bit load takes two."""
        return len(self.instructions) // INSTRUCTION_BYTES

    def __repr__(self) -> str:
        maps = ", ".join(sorted({name for _, name in self.map_references})) or "none"
        return f"<function {self.name}: {len(self)} instructions, maps: {maps}>"


@dataclass(frozen=True)
class ProgramSpec:
    """Compiled C text: its functions, its maps and its type information. Nothing of it is in the
    kernel yet.

    ``source`` is the text as the author wrote it; ``path`` its file, None for text from a cell.
    """

    name: str
    source: str
    path: str | None
    functions: Mapping[str, FunctionSpec]
    maps: Mapping[str, MapSpec]
    btf: bytes
    license: str = "GPL"
    warnings: tuple[str, ...] = ()

    def function(self, name: str | None = None) -> FunctionSpec:
        """The function called ``name``; with None the only one there is.

        Raises LabError, naming the choices, where there is no such function or more than one to
        choose from.
        """
        choices = ", ".join(self.functions)
        if name is None:
            if len(self.functions) == 1:
                return next(iter(self.functions.values()))
            raise LabError(
                f"{self.name} has {len(self.functions)} functions: {choices}",
                tried=f"to choose a function of {self.name}",
                remedy='say which one, as in function="…"',
            )
        try:
            return self.functions[name]
        except (KeyError, TypeError):
            raise LabError(
                f"{self.name} has no function {name!r}; it has: {choices}",
                tried=f"to choose a function of {self.name}",
                remedy="take one of those, or check the spelling (static functions don't count)",
            ) from None

    def __repr__(self) -> str:
        lines = [f"<program {self.name}" + (f" from {self.path}" if self.path else "") + ">"]
        lines += [f"  {function!r}" for function in self.functions.values()]
        for m in self.maps.values():
            lines.append(
                f"  <map {m.name}: {m.type.name.lower()}, {m.key_size} → {m.value_size} bytes, {m.max_entries} entries>"
            )
        lines += [f"  warning: {text}" for text in self.warnings]
        return "\n".join(lines)
