"""The C of a lesson on the page, with line numbers and light highlighting; plain text beside it."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from html import escape
from pathlib import Path

from labkit.errors import LessonError
from labkit.lesson.page import block

__all__ = ["Listing", "source"]

_ROOT = Path(__file__).resolve().parents[2]
_TOKEN = re.compile(
    r"(?P<comment>/\*.*?\*/|//[^\n]*)|(?P<string>\"(?:\\.|[^\"\\])*\"|<[\w/.]+\.h>)"
    r"|(?P<word>\b(?:if|else|for|while|do|return|goto|switch|case|default|break|continue|static|struct|enum|union|sizeof|"
    r"volatile|const|void|int|char|bool|u8|u16|u32|u64|s32|s64|__be16|__be32|__always_inline)\b|^\s*#\s*\w+)"
    r"|(?P<constant>\b(?:XDP|ETH_P|IPPROTO|TC_ACT)_\w+|\b\d\w*\b|\bNULL\b)",
    re.DOTALL | re.MULTILINE,
)
_COLOURS = {
    "comment": "color:var(--lab-soft);font-style:italic",
    "string": "color:var(--lab-good)",
    "word": "font-weight:600",
    "constant": "color:var(--lab-accent)",
}


@dataclass(frozen=True)
class Listing:
    """C text to read, usable as a path too: ``lk.compile(path=listing)`` compiles the file that is shown."""

    text: str
    path: Path | None = None
    first: int = 1

    @property
    def lines(self) -> list[str]:
        """The lines shown, without line ends."""
        return self.text.rstrip("\n").split("\n")

    def __str__(self) -> str:
        return "\n".join(f"{i:4}  {line.expandtabs()}" for i, line in enumerate(self.lines, self.first))

    __repr__ = __str__

    def __fspath__(self) -> str:
        if self.path is None:
            raise LessonError("This text has no file.", tried="to use its path", remedy="use .text")
        return os.path.relpath(self.path)

    def _repr_html_(self) -> str:
        shown = self.path.relative_to(_ROOT) if self.path and self.path.is_relative_to(_ROOT) else self.path
        title = f'<p class="soft" style="margin:0">{escape(str(shown))}</p>' if shown else ""
        rows = "".join(
            f'<span class="soft" style="user-select:none;-webkit-user-select:none" aria-hidden="true">{i:3}  </span>{line}\n'
            for i, line in enumerate(
                _highlight("\n".join(line.expandtabs() for line in self.lines)).split("\n"), self.first
            )
        )
        return block(f'{title}<pre tabindex="0" aria-label="C source {escape(str(shown or ""))}">{rows}</pre>')


def source(
    path: str | os.PathLike[str] | None = None, *, text: str | None = None, function: str | None = None
) -> Listing:
    """The C text of a lesson's file (relative to here, or to the lab's own directory) or of ``text``.

    ``function`` shows that function alone, with the comment before it. Raises LessonError where there is no such file.
    """
    if (path is None) == (text is None):
        raise LessonError("Give either a path or text.", tried="to show C source")
    found = _find(path) if path is not None else None
    whole = found.read_text(encoding="utf-8") if found is not None else text or ""
    if function is None:
        return Listing(whole, found)
    return _only(whole, function, found)


def _find(path: str | os.PathLike[str]) -> Path:
    for candidate in (Path(path), _ROOT / path, _ROOT / "bpf" / path):
        if candidate.is_file():
            return candidate.resolve()
    raise LessonError(
        f"There is no file {os.fspath(path)!r}.",
        tried="to show C source",
        remedy="give a path as bpf/drop_by_protocol.c; the lessons' files are in bpf/",
    )


def _only(whole: str, function: str, path: Path | None) -> Listing:
    lines = whole.split("\n")
    head = re.compile(rf"^\w[\w\s*]*\b{re.escape(function)}\s*\(")
    for start, line in enumerate(lines):
        if head.match(line) and not line.rstrip().endswith(";"):
            end = next((i for i in range(start, len(lines)) if lines[i].startswith("}")), len(lines) - 1)
            while start and lines[start - 1].lstrip().startswith(("/*", "*", "//")):
                start -= 1
            return Listing("\n".join(lines[start : end + 1]), path, start + 1)
    raise LessonError(f"There is no function {function!r} in it.", tried="to show C source", on=str(path or "the text"))


def _highlight(text: str) -> str:
    """``text`` as HTML; a comment over several lines gets a span on each of them."""
    out, at = [], 0
    for found in _TOKEN.finditer(text):
        out.append(escape(text[at : found.start()]))
        style = _COLOURS[found.lastgroup or "word"]
        out.append("\n".join(f'<span style="{style}">{escape(part)}</span>' for part in found[0].split("\n")))
        at = found.end()
    return "".join([*out, escape(text[at:])])
