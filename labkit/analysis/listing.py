"""C lines with the instructions they became: as compiled, as the kernel has rewritten them, and what the JIT made.

print(lk.listing(program))
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from labkit.analysis.code import Code, Line
from labkit.analysis.disassembly import in_words
from labkit.analysis.from_kernel import code_of_program
from labkit.analysis.from_spec import code_of_spec
from labkit.analysis.listing_jit import JitForm, jit_form
from labkit.analysis.listing_page import as_html, as_text
from labkit.analysis.opcodes import Kind
from labkit.compile import compile_source
from labkit.compile.source import shown
from labkit.errors import AnalysisError, LabError
from labkit.program.program import Program
from labkit.program.spec import ProgramSpec

__all__ = ["Cost", "Form", "ProgramListing", "Row", "listing"]


@dataclass(frozen=True)
class Row:
    """One instruction: its slot, how many slots of 8 bytes it takes, words, and where it may jump to."""

    slot: int
    slots: int
    words: str
    line: Line | None
    function: str
    target: int | None = None


@dataclass(frozen=True)
class Form:
    """One form of a program. ``instructions`` is counted as the kernel does: a 64-bit load is two."""

    name: str
    rows: tuple[Row, ...]

    @property
    def instructions(self) -> int:
        """Slots of 8 bytes, all of them."""
        return sum(row.slots for row in self.rows)


@dataclass(frozen=True)
class Cost:
    """What a C line costs: instructions of each form, bytes of machine code; None where the kernel doesn't show it."""

    line: Line
    compiled: int
    kernel: int | None
    jited: int | None


@dataclass(frozen=True, repr=False)
class ProgramListing:
    """A program line by line. ``kernel`` and ``jit`` are None where there is nothing to see; ``notes`` say why."""

    name: str
    source: str
    file: str
    compiled: Form
    kernel: Form | None = None
    jit: JitForm | None = None
    notes: tuple[str, ...] = field(default=())

    @property
    def forms(self) -> tuple[Form, ...]:
        """The forms that can be seen."""
        return (self.compiled,) if self.kernel is None else (self.compiled, self.kernel)

    @property
    def costs(self) -> tuple[Cost, ...]:
        """Every line that became instructions, the program's own file first; each form's add up to all it has, save for
        instructions without a line.
        """
        sums = [_sums(form) for form in self.forms]
        jited = dict(self.jit.by_line) if self.jit is not None else {}
        lines = sorted({*jited, *(key for each in sums for key in each)}, key=lambda key: (key[0] != self.file, key))
        text = {_key(row.line): row.line for form in self.forms for row in form.rows if row.line is not None}
        return tuple(
            Cost(
                text.get(key) or Line(*key, ""),
                sums[0].get(key, 0),
                sums[1].get(key, 0) if self.kernel is not None else None,
                jited.get(key, 0) if self.jit is not None and self.jit.by_line else None,
            )
            for key in lines
        )

    @property
    def facts(self) -> tuple[tuple[str, str], ...]:
        """Sizes and counts, in words."""
        found = [("instructions, as compiled", f"{self.compiled.instructions:,}")]
        if self.kernel is not None:
            found.append(("instructions, as the kernel rewrote it", f"{self.kernel.instructions:,}"))
        return (*found, *(self.jit.facts if self.jit is not None else ()))

    def __str__(self) -> str:
        return as_text(self)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return as_html(self)


def _key(line: Line) -> tuple[str, int]:
    return line.file, line.number


def _sums(form: Form) -> dict[tuple[str, int], int]:
    found: dict[tuple[str, int], int] = {}
    for row in form.rows:
        if row.line is not None:
            found[_key(row.line)] = found.get(_key(row.line), 0) + row.slots
    return found


def listing(what: Program | ProgramSpec | str | os.PathLike[str], function: str | None = None) -> ProgramListing:
    """C lines and what became of them: of a loaded program, of what lk.compile returned, or of a C file.

    ``function`` says which, where there are several. Raises AnalysisError for what is none of these, CompileError,
    StateError for a closed program. What the kernel doesn't show to this process is a note.
    """
    if isinstance(what, str | os.PathLike):
        return listing(compile_source(path=what), function)
    if isinstance(what, Program):
        return _of_program(what)
    if not isinstance(what, ProgramSpec):
        raise AnalysisError(
            f"{type(what).__name__} can't be listed.",
            tried="to list a program",
            remedy="give what lab.load(…) or lk.compile(…) returned, or the path of a C file",
        )
    chosen = what.function(function)
    file = shown(Path(what.path)) if what.path else f"{what.name}.c"
    notes = ("It isn't loaded: what the kernel and its JIT make of it can be seen once it is.",)
    return ProgramListing(
        chosen.name, what.source, file, _form("compiled", code_of_spec(what, chosen.name)), notes=notes
    )


def _of_program(program: Program) -> ProgramListing:
    fd = program.fd  # raises where it is closed
    made = replace(listing(program.spec, program.name), notes=())
    notes = []
    kernel: Form | None = None
    try:
        kernel = _form("kernel", _named(code_of_program(program), program))
    except LabError as error:
        notes.append(f"{error.message} {error.remedy[:1].upper()}{error.remedy[1:]}.")
    jit, why = jit_form(fd, program.spec.btf)
    if not jit.cost.translated_bytes:
        notes = [why]  # one cause for both
    elif why:
        notes.append(why)
    return replace(made, kernel=kernel, jit=jit, notes=tuple(notes))


def _named(code: Code, program: Program) -> Code:
    """With the names of maps, of which the kernel shows the ids."""
    names = {each.id: name for name, each in program.maps.items()}
    wide = {slot: each.imm for slot, each in code.instructions.items() if each.operation.startswith("map_")}
    return replace(code, maps={slot: names[number] for slot, number in wide.items() if number in names})


def _form(name: str, code: Code) -> Form:
    return Form(name, tuple(_rows(code)))


def _rows(code: Code) -> Iterator[Row]:
    """One after another: a line holds until the next record, and no longer than its function."""
    line, function = None, ""
    for slot, each in sorted(code.instructions.items()):
        here = code.function_at(slot).name if slot in {f.start for f in code.functions} or not function else function
        line = code.lines.get(slot, line if here == function else None)
        function = here
        target = None if each.kind is Kind.CALL else each.target
        yield Row(slot, each.slots, in_words(code, each), line, function, target)
