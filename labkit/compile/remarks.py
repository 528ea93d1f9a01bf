"""Where a remark belongs in the text that the author has before the eyes: a header's line is not in it, its #include is."""

from __future__ import annotations

import re
from pathlib import Path

from labkit.compile.compiler_messages import COMPILER
from labkit.compile.messages import explain
from labkit.compile.source import Flat, flatten, lesson_directory, shown
from labkit.errors import CompileError, Remark
from labkit.program.spec import ProgramSpec

__all__ = ["flat_of", "remark_at", "warnings_of"]

_WARNING = re.compile(r"^(?P<file>[^:]+):(?P<line>\d+):(?P<column>\d+): warning: (?P<text>.*)$")


def remark_at(
    flat: Flat,
    file: str,
    line: int,
    said: str,
    meaning: str = "",
    remedy: str = "",
    *,
    kind: str = "error",
    column: int | None = None,
) -> Remark:
    """The remark for a place, by the file's name to show and its line; a header is named, and its #include is the place."""
    found = next((each for each in flat.files if each.name == file), None)
    if found is None or not line:
        header = f"{file}, line {line}" if file and line else ""
        return Remark(kind, said, header=header, meaning=meaning, remedy=remedy)
    way_in = found.way_in
    if way_in is None:
        return Remark(kind, said, line, column, meaning=meaning, remedy=remedy)
    return Remark(kind, said, way_in, header=f"{file}, line {line}", meaning=meaning, remedy=remedy)


def flat_of(spec: ProgramSpec) -> Flat:
    """The files that a compiled program came from, as they are now; the main file alone where a header has gone."""
    path = Path(spec.path) if spec.path else None
    label = shown(path) if path else f"{spec.name}.c"
    try:
        return flatten(spec.source, label, path and path.resolve(), (lesson_directory(),))
    except CompileError:
        return flatten(spec.source, label, None, ())


def warnings_of(spec: ProgramSpec) -> tuple[Remark, ...]:
    """What was said of a program that did compile."""
    flat = flat_of(spec) if spec.warnings else Flat()
    found = []
    for text in spec.warnings:
        match = _WARNING.match(text)
        said = match["text"] if match else text
        meaning, remedy = explain(COMPILER, said)
        file, line, column = (match["file"], int(match["line"]), int(match["column"])) if match else ("", 0, 0)
        found.append(remark_at(flat, file, line, said, meaning, remedy, kind="warning", column=column))
    return tuple(found)
