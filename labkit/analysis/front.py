"""The way in: a C file, an object file or what the compiler made, and the reports of its functions."""

from __future__ import annotations

import os
from pathlib import Path

from labkit.analysis.code import Code
from labkit.analysis.elf import ObjectFile
from labkit.analysis.from_kernel import code_of_program
from labkit.analysis.from_spec import code_of_spec
from labkit.analysis.report import Reports, examine
from labkit.compile import compile_source
from labkit.errors import AnalysisError
from labkit.program.program import Program
from labkit.program.spec import ProgramSpec

__all__ = ["analyse", "codes"]

_ELF = b"\x7fELF"


def analyse(what: ProgramSpec | Program | str | os.PathLike[str], function: str | None = None) -> Reports:
    """A report for each program in ``what``, or for ``function`` alone.

    ``what`` is a compiled C text, the path of a C file or of an object file; or a loaded program, of which the kernel's
    own form is looked at. Raises AnalysisError for what isn't BPF, CompileError for C that doesn't compile,
    PrivilegeError where the kernel doesn't show a program.
    """
    return Reports(examine(code) for code in codes(what, function))


def codes(what: ProgramSpec | Program | str | os.PathLike[str], function: str | None = None) -> tuple[Code, ...]:
    """The same programs, decoded; not looked at yet."""
    if function is not None and not isinstance(function, str):
        raise _wrong(f"function={function!r}: a function is told by its name, a text")
    if isinstance(what, Program):
        return (code_of_program(what),)
    if isinstance(what, ProgramSpec):
        return tuple(code_of_spec(what, name) for name in ([function] if function else what.functions))
    if not isinstance(what, str | os.PathLike):
        raise _wrong(f"{type(what).__name__} can't be analysed")
    path = Path(what)
    if _is_object_file(path):
        file = ObjectFile.read(path)
        return tuple(file.code(part) for part in file.choose(function))
    return codes(compile_source(path=path), function)


def _wrong(message: str) -> AnalysisError:
    return AnalysisError(
        f"{message}.",
        tried="to analyse a program",
        remedy="give the path of a C file or an object file, or what lk.compile(…) or lab.load(…) returned",
    )


def _is_object_file(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(len(_ELF)) == _ELF
    except OSError:
        return False  # the compiler looks for it in more places, and says what is wrong
