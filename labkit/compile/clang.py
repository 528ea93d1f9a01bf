"""What clang and BCC print, turned into a CompileError that speaks of the author's own lines."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from labkit.compile.compiler_messages import COMPILER, DIALECT
from labkit.compile.messages import explain
from labkit.compile.remarks import remark_at
from labkit.compile.source import HEAD, Flat
from labkit.errors import CompileError, Remark

__all__ = ["Diagnostic", "backend_error", "compile_error", "diagnostics", "readable", "remarks", "snippet"]

_LINE = re.compile(r"^(?P<file>[^\s:]+):(?P<line>\d+):(?P<column>\d+): (?P<kind>[a-z ]+): (?P<text>.*)$")
# LLVM's code generator: the place is in the rewritten text, or <unknown>
_BACKEND = re.compile(
    r"^error: (?P<file>\S+?):(?P<line>\d+):\d+: in function (?P<function>\w+) .*?\): (?P<text>.*)$",
    re.M,
)
_FROM = re.compile(r"^(?:In file included from|\s+from) (?P<file>[^\s:]+):(?P<line>\d+)")
_MARKED = re.compile(r"(?:(?<=\s)|^|(?<=[\"']))(?:\./)?lab-(\d+)(?=[:\"'])(?::(\d+))?", re.MULTILINE)


@dataclass(frozen=True)
class Diagnostic:
    """One message: ``kind`` is clang's word (error, fatal error, warning, note); ``line`` 0 outside
    the author's files.
    """

    file: str
    line: int
    column: int
    kind: str
    text: str
    source_line: str = ""
    by_way_of: Diagnostic | None = None  # the author's #include, for a message inside another's header

    @property
    def is_error(self) -> bool:
        """Whether it stops the compilation."""
        return self.kind.endswith("error")

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}: {self.kind}: {self.text}"


def readable(said: str, flat: Flat) -> str:
    """The compiler's words with the author's file names."""

    def name(found: re.Match[str]) -> str:
        line = f":{int(found[2]) % HEAD}" if found[2] else ""
        return flat.files[int(found[1])].name + line

    return _MARKED.sub(name, said)


def diagnostics(said: str, flat: Flat) -> list[Diagnostic]:
    """Every message in the compiler's words, each once, in their order."""
    found: dict[Diagnostic, None] = {}
    included: Diagnostic | None = None
    for said_line in said.splitlines():
        if match := _FROM.match(said_line):
            here = _at(flat, match["file"], int(match["line"]), 1, "note", "included here")
            included = here if here.source_line else included
        elif match := _LINE.match(said_line):
            place = match["file"], int(match["line"]), int(match["column"])
            here = _at(flat, *place, match["kind"], match["text"])
            found[replace(here, by_way_of=None if here.source_line else included)] = None
            included = None
    return list(found)


def _at(flat: Flat, name: str, line: int, column: int, kind: str, text: str) -> Diagnostic:
    line %= HEAD
    file = flat.file(name)
    source = file.lines[line - 1] if file and 0 < line <= len(file.lines) else ""
    if source:  # clang counts bytes
        column = len(source.encode()[: column - 1].decode(errors="replace")) + 1
    return Diagnostic(file.name if file else name, line, column, kind, text, source)


def compile_error(said: str, flat: Flat) -> CompileError:
    """The error for a text that did not compile."""
    everything = diagnostics(said, flat)
    name = flat.files[0].name
    log = readable(said, flat)
    errors = [d for d in everything if d.is_error]
    if not errors:
        last = log.strip().splitlines()[-1:] or ["the compiler gave no reason"]
        return CompileError(
            f"{name} did not compile: {last[0]}",
            tried=flat.tried,
            log=log,
            detail=log[-2000:],
            remarks=(Remark("error", last[0]),),
        )
    first = errors[0]
    place, meaning, remedy = _explained(first, everything)
    return CompileError(
        f"{place.file}:{place.line}:{place.column}: {first.text}",
        line=place.line or None,
        column=place.column,
        source_line=place.source_line,
        messages=tuple(str(d) for d in everything if d.kind != "note"),
        remarks=remarks(everything, flat),
        log=log,
        tried=flat.tried,
        detail=_detail(place, meaning, len(errors) - 1),
        remedy=remedy,
    )


def _explained(one: Diagnostic, everything: list[Diagnostic]) -> tuple[Diagnostic, str, str]:
    """Where in the author's files a diagnostic has its place, its meaning and its remedy."""
    place = one
    if not one.source_line:  # in a header or macro that is not the author's: the way there from the author's text
        after = everything[everything.index(one) + 1 :]
        place = one.by_way_of or next((d for d in after if d.source_line), one)
    meaning, remedy = explain(DIALECT, place.source_line)
    if not meaning:
        meaning, remedy = explain(COMPILER, one.text)
    return place, meaning, remedy


def remarks(everything: list[Diagnostic], flat: Flat) -> tuple[Remark, ...]:
    """Each error and warning with its place in the main file, errors first; notes go with what they explain."""
    found: list[Remark] = []
    for number, one in enumerate(everything):
        if one.kind == "note":
            continue
        place, meaning, remedy = _explained(one, everything)
        header = "" if one.source_line else f"{one.file}, line {one.line}"
        notes = []
        for note in everything[number + 1 :]:
            if note.kind != "note":
                break
            notes.append(f"{note.file}, line {note.line}: {note.text}")
        kind = "error" if one.is_error else "warning"
        here = remark_at(flat, place.file, place.line, one.text, meaning, remedy, kind=kind, column=place.column)
        found.append(replace(here, header=here.header or header, notes=tuple(notes)))
    return tuple(sorted(found, key=lambda each: each.kind != "error"))


def backend_error(said: str, flat: Flat) -> CompileError | None:
    """The error for what LLVM's code generator said before it gave up; None where it said nothing
    of a function.
    """
    found = _BACKEND.search(said)
    if not found:
        return None
    place = flat.place(found["file"], int(found["line"])) if int(found["line"]) else None
    where = f"{place[0].name}:{place[1]}: " if place else ""
    source_line = place[0].lines[place[1] - 1] if place and place[0].lines else ""
    meaning, remedy = explain(COMPILER, found["text"])
    log = readable(said, flat)
    return CompileError(
        f"{where}in function {found['function']}: {found['text']}",
        line=place[1] if place else None,
        source_line=source_line,
        messages=(found["text"],),
        remarks=(
            remark_at(flat, place[0].name if place else "", place[1] if place else 0, found["text"], meaning, remedy),
        ),
        log=log,
        tried=flat.tried,
        detail=(snippet(place[1], source_line) + "\n" if place else "") + (f"that is: {meaning}" if meaning else ""),
        remedy=remedy or "write that part of the function another way",
    )


def snippet(line: int, source_line: str, column: int | None = None) -> str:
    """A source line with its number and, under it, a caret at ``column`` (from 1)."""
    number = f"{line:>5} | "
    shown = number + source_line.expandtabs(8)
    if column is None:
        return shown
    return f"{shown}\n{' ' * (len(number) - 2)}| {' ' * len(source_line[: column - 1].expandtabs(8))}^"


def _detail(place: Diagnostic, meaning: str, more: int) -> str:
    parts = [snippet(place.line, place.source_line, place.column)] if place.source_line else []
    if meaning:
        parts.append(f"that is: {meaning}")
    if more:
        parts.append(f"({more} more {'error' if more == 1 else 'errors'}: see .messages; fix this one first)")
    return "\n".join(parts)
