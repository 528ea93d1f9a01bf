"""C text made ready for BCC, and the way back from BCC's line numbers to the author's.

BCC rewrites map calls (``counters.lookup(&key)``) in its main file only, so lesson headers are
pasted into it. BCC also adds lines of its own around functions, so a ``#line`` goes in wherever a
statement or a declaration begins. Functions that BCC loads get a line before their head: heads are
numbered from ``HEAD`` on, to be told apart and put right by ``Flat.place``.
"""

from __future__ import annotations

import functools
import os
import re
from bisect import bisect_right
from dataclasses import dataclass, field
from pathlib import Path

from labkit.errors import CompileError, resources

__all__ = ["HEAD", "Flat", "SourceFile", "flatten", "lesson_directory", "located", "read", "shown"]

_INCLUDE = re.compile(r'\s*#\s*include\s*([<"])([^>"]+)[>"]')
_ONCE = re.compile(r"^\s*#\s*pragma\s+once\b", re.MULTILINE)
_NOT_LOADED = re.compile(r"\b(?:static|inline|__always_inline|typedef|struct|union|enum)\b")
_MARK = re.compile(r"(?:\S*/)?lab-(\d+)$")
_DEEPEST = 32

HEAD = 2_000_000  # more lines than a text has, and the 22 bits of struct bpf_line_info hold it


@dataclass(frozen=True)
class SourceFile:
    """One file of the author's: the name to show, and its lines without line ends."""

    name: str
    lines: tuple[str, ...]
    heads: list[int] = field(default_factory=list)
    included: tuple[SourceFile, int] | None = None  # by which file, on which of its lines; None for the main file

    @property
    def way_in(self) -> int | None:
        """The line of the main file whose #include leads here; None for the main file itself."""
        if self.included is None:
            return None
        by, line = self.included
        return by.way_in or line


@dataclass
class Flat:
    """Text for BCC and the files it came from, the main file first."""

    files: list[SourceFile] = field(default_factory=list)
    out: list[str] = field(default_factory=list)
    once: set[Path] = field(default_factory=set)
    path: Path | None = None

    @property
    def text(self) -> str:
        """What BCC is given."""
        return "\n".join(self.out) + "\n"

    @property
    def tried(self) -> str:
        """What is attempted with it, for errors."""
        name = self.files[0].name if self.files else ""
        return f"to compile {name}" if self.path else f"to compile {name.removesuffix('.c')}, from text in a cell"

    def file(self, name: str) -> SourceFile | None:
        """The file that a name in BCC's output stands for; None for any other file."""
        found = _MARK.match(name)
        return self.files[int(found[1])] if found else None

    def place(self, name: str, line: int) -> tuple[SourceFile, int] | None:
        """The file and line, from 1, of a place in the rewritten text; None outside the author's
        files.
        """
        file = self.file(name)
        if file is None:
            return None
        if line >= HEAD:
            line -= HEAD
            line = file.heads[max(bisect_right(file.heads, line - 1) - 1, 0)]
        return file, min(max(line, 1), len(file.lines))


def lesson_directory() -> Path:
    """The directory of the lessons' C files, under which ``common/`` is found."""
    return Path(__file__).resolve().parents[2] / "bpf"


def located(path: Path) -> Path:
    """``path``; where it is relative and leads nowhere, but does from the checkout's root, the file there."""
    from_root = lesson_directory().parent / path
    return from_root if not os.path.exists(path) and os.path.exists(from_root) else path


def flatten(text: str, name: str, path: Path | None, search: tuple[Path, ...]) -> Flat:
    """``text`` with the headers it includes from its own directory or from ``search`` pasted in.

    Raises CompileError where headers include one another without end, or one can't be read.
    """
    flat = Flat(path=path)
    _paste(flat, SourceFile(name, _lines(text)), path, search, 0)
    return flat


def _paste(flat: Flat, file: SourceFile, path: Path | None, search: tuple[Path, ...], depth: int) -> None:
    number = len(flat.files)
    flat.files.append(file)
    for index, (line, safe) in enumerate(zip(file.lines, _beginnings(file.lines), strict=True)):
        if safe is not None:
            head = safe == 0 and line.strip() and not _NOT_LOADED.search(line.split("(")[0])
            if head:
                file.heads.append(index + 1)
            flat.out.append(f'#line {index + 1 + (HEAD if head else 0)} "lab-{number}"')
            header = _header(line, path, search)
            if header is not None:
                if depth == _DEEPEST:
                    raise CompileError(
                        f"{header.name} includes itself, directly or by way of others",
                        tried=flat.tried,
                        line=index + 1,
                        source_line=line,
                        remedy="guard each header with #ifndef NAME, #define NAME … #endif",
                    )
                _paste_header(flat, header, (file, index + 1), search, depth)
                flat.out.append(f'#line {index + 2} "lab-{number}"')
                continue
        flat.out.append(line)


def _paste_header(
    flat: Flat, header: Path, included: tuple[SourceFile, int], search: tuple[Path, ...], depth: int
) -> None:
    text = read(header)
    if _ONCE.search(text):
        if header in flat.once:
            return
        flat.once.add(header)
        text = _ONCE.sub("", text)
    _paste(flat, SourceFile(shown(header), _lines(text), included=included), header, search, depth + 1)


def read(path: Path) -> str:
    """The text of a C file. Raises CompileError where it can't be read as text."""
    tried = f"to read {path}"
    if os.path.exists(path) and not os.path.isfile(path):  # a device or a pipe may have no end
        raise CompileError("the C file can't be read: it is no file", tried=tried, remedy="give a file's name")
    try:
        with resources(tried):
            text = path.read_text(encoding="utf-8-sig")
    except OSError as cause:
        remedy = "check the path and its permissions"
        if not path.is_absolute():
            remedy = f"check the path; looked for {Path.cwd() / path} and {lesson_directory().parent / path}"
        raise CompileError("the C file can't be read", tried=tried, errno=cause.errno, remedy=remedy) from cause
    except UnicodeDecodeError as cause:
        raise CompileError("the C file is not UTF-8 text", tried=tried, remedy="save it as UTF-8") from cause
    if "\0" in text:
        raise CompileError("the C text has a zero byte in it", tried=tried, remedy="take it out")
    return text


def shown(path: Path) -> str:
    """A file's name for messages: from ``bpf/`` on for the lessons', else as given."""
    lessons, whole = lesson_directory(), path.resolve()
    return str(whole.relative_to(lessons.parent) if whole.is_relative_to(lessons) else path)


def _lines(text: str) -> tuple[str, ...]:
    """As the compiler counts them: str.splitlines would also split at form feeds and the like."""
    return tuple(line.removesuffix("\r") for line in text.removesuffix("\n").split("\n"))


def _header(line: str, path: Path | None, search: tuple[Path, ...]) -> Path | None:
    found = _INCLUDE.match(line)
    if not found:
        return None
    beside = (path.parent,) if path and found[1] == '"' else ()
    for directory in (*beside, *search):
        candidate: Path = directory / found[2]
        if candidate.is_file():
            return candidate.resolve()
    return None


_TOKENS = re.compile(r"""/\*|//|\*/|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|[(){}]|[^\s(){}/*"']+|.""", re.DOTALL)


@functools.lru_cache(maxsize=64)  # headers are the same for every lesson
def _beginnings(lines: tuple[str, ...]) -> list[int | None]:
    """For each line the depth of braces where something begins on it, else None: inside comments,
    calls, macros.
    """
    result: list[int | None] = []
    comment = continued = directive = False
    braces = parentheses = 0
    last = ";"
    for line in lines:
        begins = not comment and not continued and parentheses == 0 and last in ";{}"
        result.append(braces if begins else None)
        if not continued:
            directive = not comment and line.lstrip().startswith("#")
        continued = line.endswith("\\")
        for token in _TOKENS.findall(line):
            if comment:
                comment = token != "*/"
            elif token == "/*":
                comment = True
            elif token == "//":
                break
            elif directive or token.isspace():
                continue
            else:
                parentheses = max(parentheses + (token == "(") - (token == ")"), 0)
                braces = max(braces + (token == "{") - (token == "}"), 0)
                last = token[-1]
    return result
