"""Code of an object file, as clang makes it: sections joined as a loader does it, names put to maps and functions.

A program is a function in a section of its own kind ("xdp", "xdp/…"); what it calls lies in ".text", or elsewhere, and is
found by relocations. All that a program needs is laid behind it, call by call, and the calls are made anew to lead there.
Nothing is loaded; the kernel isn't asked.
"""

from __future__ import annotations

import io
import struct
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from elftools.common.exceptions import ELFError
from elftools.elf.constants import SH_FLAGS
from elftools.elf.elffile import ELFFile
from elftools.elf.relocation import RelocationSection
from elftools.elf.sections import SymbolTableSection

from labkit.analysis.btf_lines import lines_by_section
from labkit.analysis.code import Code, Line, Origin, build
from labkit.analysis.instruction import SLOT_BYTES, decode
from labkit.analysis.opcodes import Kind, Pseudo
from labkit.errors import AnalysisError

__all__ = ["ObjectFile", "Part"]

_EM_BPF = 247
_HELPERS_OF_A_LOADER = ".text"


@dataclass(frozen=True)
class Part:
    """A function as it lies in its section: bytes ``start`` to ``end``."""

    name: str
    section: str
    start: int
    end: int


@dataclass(frozen=True)
class _Target:
    """What a relocation names: a part of a section, or something from outside (``section`` "")."""

    name: str
    section: str
    value: int
    is_section: bool


@dataclass
class _Joined:
    """A program in the making."""

    code: bytearray = field(default_factory=bytearray)
    at: dict[Part, int] = field(default_factory=dict)  # first slot of each part
    maps: dict[int, str] = field(default_factory=dict)
    kfuncs: dict[int, str] = field(default_factory=dict)
    lines: dict[int, Line] = field(default_factory=dict)


class ObjectFile:
    """An object file of BPF programs. ``programs`` are what a loader could load, ``parts`` all functions."""

    def __init__(self, data: bytes, name: str = "the object file") -> None:
        """Raises AnalysisError for what isn't an ELF file of BPF in this machine's byte order."""
        self.name = name
        try:
            self._read(data)
        except (ELFError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError, struct.error) as error:
            raise self._error(f"It can't be read as an object file: {error}.") from error

    @classmethod
    def read(cls, path: Path) -> ObjectFile:
        """From a file. Raises AnalysisError."""
        try:
            return cls(path.read_bytes(), path.name)
        except OSError as error:
            raise AnalysisError(
                f"{path} can't be read.", tried="to analyse an object file", on=str(path), errno=error.errno
            ) from error

    def _error(self, message: str, remedy: str = "") -> AnalysisError:
        return AnalysisError(
            message,
            tried="to analyse an object file",
            on=self.name,
            remedy=remedy or "give a file that `clang -target bpf -c` made",
        )

    def _read(self, data: bytes) -> None:
        elf = ELFFile(io.BytesIO(data))
        if elf["e_machine"] not in ("EM_BPF", _EM_BPF):
            raise self._error(f"It holds code of {elf['e_machine']}, not of BPF.")
        if elf.little_endian != (sys.byteorder == "little"):
            raise self._error("It is of the other byte order than this machine.", "compile it for this machine")
        sections = list(elf.iter_sections())
        names = [section.name for section in sections]
        code_of = {
            section.name: section.data()
            for section in sections
            if section["sh_flags"] & SH_FLAGS.SHF_EXECINSTR
            and section["sh_type"] == "SHT_PROGBITS"
            and section["sh_size"]
        }
        self._code: Mapping[str, bytes] = code_of
        table = next((s for s in sections if isinstance(s, SymbolTableSection)), None)
        self.parts: tuple[Part, ...] = tuple(self._functions(table, names)) if table else ()
        self._relocations: dict[tuple[str, int], _Target] = {}
        for section in sections:
            if isinstance(section, RelocationSection) and table is not None:
                self._relocate(section, names, table)
        data_of = {section.name: section.data() for section in sections if section.name in (".BTF", ".BTF.ext")}
        self._lines: dict[str, dict[int, Line]] = {}
        if len(data_of) == 2:
            self._lines = lines_by_section(data_of[".BTF"], data_of[".BTF.ext"])

    def _functions(self, table: SymbolTableSection, names: list[str]) -> list[Part]:
        found = []
        for symbol in table.iter_symbols():
            index = symbol["st_shndx"]
            if symbol["st_info"]["type"] != "STT_FUNC" or not isinstance(index, int) or not symbol["st_size"]:
                continue
            section, start = names[index], symbol["st_value"]
            if section not in self._code or start % SLOT_BYTES or start + symbol["st_size"] > len(self._code[section]):
                raise ValueError(f"function {symbol.name} lies outside of its section")
            found.append(Part(symbol.name, section, start, start + symbol["st_size"]))
        return found

    def _relocate(self, section: RelocationSection, names: list[str], table: SymbolTableSection) -> None:
        code = names[section["sh_info"]]
        if code not in self._code:
            return
        for each in section.iter_relocations():
            symbol = table.get_symbol(each["r_info_sym"])
            index = symbol["st_shndx"]
            where = names[index] if isinstance(index, int) else ""
            is_section = symbol["st_info"]["type"] == "STT_SECTION"
            name = where if is_section else symbol.name
            self._relocations[code, each["r_offset"]] = _Target(name, where, symbol["st_value"], is_section)

    @property
    def programs(self) -> tuple[Part, ...]:
        """Functions that a loader takes for programs: those that are not in ".text"."""
        return tuple(part for part in self.parts if part.section != _HELPERS_OF_A_LOADER)

    def choose(self, function: str | None) -> tuple[Part, ...]:
        """The functions to look at: the one of that name, or every program. Raises AnalysisError."""
        found = [part for part in self.parts if part.name == function] if function else list(self.programs)
        if found:
            return tuple(found)
        names = ", ".join(part.name for part in self.parts) or "none"
        wanted = f"no function {function!r}" if function else "no program"
        raise self._error(f"It has {wanted}; its functions are: {names}.", "take one of those")

    def code(self, part: Part) -> Code:
        """``part`` with all that it calls. Raises AnalysisError."""
        joined = _Joined()
        waiting = [part]
        while waiting:
            waiting += self._append(joined, waiting.pop(0))
        names = {start: each.name for each, start in joined.at.items()}
        return build(
            part.name,
            bytes(joined.code),
            origin=Origin.ELF,
            names=names,
            kfuncs=joined.kfuncs,
            maps=joined.maps,
            lines=joined.lines,
            section=part.section,
        )

    def _append(self, joined: _Joined, part: Part) -> list[Part]:
        """Lay a function behind the others, once; what it calls. Its own calls lead to parts yet to come: the second pass
        of a linker is done here at once, as each part's place is known when it is first asked for.
        """
        if part in joined.at:
            return []
        base = len(joined.code) // SLOT_BYTES
        joined.at[part] = base
        first = part.start // SLOT_BYTES
        text = bytearray(self._code[part.section][part.start : part.end])
        joined.code += text
        wanted = []
        for index, each in decode(bytes(text)).items():
            target = self._relocations.get((part.section, part.start + index * SLOT_BYTES))
            if each.kind is Kind.CALL:
                if target is not None and not target.section:
                    self._kernel_call(joined, base + index, target)
                elif target is not None or each.operation == "function":
                    wanted.append((base + index, self._called(part, first + index, each.imm, target)))
            elif each.kind is Kind.WIDE and target is not None:
                if target.section in self._code:
                    slot = target.value // SLOT_BYTES + (each.imm // SLOT_BYTES if target.is_section else 0)
                    wanted.append((base + index, self._part_at(target.section, slot)))
                    joined.code[(base + index) * SLOT_BYTES + 1] = each.dst | Pseudo.FUNC << 4
                else:
                    self._map(joined, base + index, each.dst, target)
        self._take_lines(joined, part, base)
        found = []
        for slot, callee in wanted:
            found += self._append(joined, callee)
            struct.pack_into("=i", joined.code, slot * SLOT_BYTES + 4, joined.at[callee] - slot - 1)
        return found

    def _kernel_call(self, joined: _Joined, slot: int, target: _Target) -> None:
        """A function that neither the file nor a number names: one of the kernel's, found when it is loaded."""
        joined.code[slot * SLOT_BYTES + 1] = 2 << 4  # BPF_PSEUDO_KFUNC_CALL
        joined.kfuncs[slot] = target.name

    def _map(self, joined: _Joined, slot: int, dst: int, target: _Target) -> None:
        is_map = target.section in (".maps", "maps")
        kind = Pseudo.MAP_FD if is_map else Pseudo.MAP_VALUE if target.section else Pseudo.BTF_ID
        joined.code[slot * SLOT_BYTES + 1] = dst | kind << 4
        joined.maps[slot] = target.name

    def _called(self, part: Part, slot: int, imm: int, target: _Target | None) -> Part:
        """The function that a call in ``part`` leads to; ``slot`` is the call's within the section."""
        if target is None:
            return self._part_at(part.section, slot + 1 + imm)
        offset = imm + 1 if target.is_section else 0
        return self._part_at(target.section, target.value // SLOT_BYTES + offset)

    def _part_at(self, section: str, slot: int) -> Part:
        for part in self.parts:
            if part.section == section and part.start == slot * SLOT_BYTES:
                return part
        raise self._error(f"A call leads to slot {slot} of section {section}, where no function begins.")

    def _take_lines(self, joined: _Joined, part: Part, base: int) -> None:
        for offset, line in self._lines.get(part.section, {}).items():
            if part.start <= offset < part.end:
                joined.lines[base + (offset - part.start) // SLOT_BYTES] = line
