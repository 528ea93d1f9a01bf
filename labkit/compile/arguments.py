"""What ``compile_source`` is given, checked: a slip in a call is told as such, before any compiler sees it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from labkit.errors import CompileError

__all__ = ["check_arguments"]

_EXAMPLE = 'as in compile(path="bpf/pass.c"), or compile(text="…the C text…")'


def check_arguments(text: Any, path: Any, cflags: Any, name: Any) -> None:
    """Raise CompileError for arguments that ``compile_source`` can't be meant to get."""
    _need((text is None) != (path is None), "give either text or path", _EXAMPLE)
    _need(text is None or isinstance(text, str), f"text can't be {_kind(text)}", f"give the C text, {_EXAMPLE}")
    _need(path is None or _is_path(path), f"path can't be {_shown(path)}", f"give a file's name, {_EXAMPLE}")
    _need(
        not isinstance(cflags, str) and isinstance(cflags, Sequence) and all(_is_text(flag) for flag in cflags),
        f"cflags can't be {_shown(cflags)}",
        'give a list of options, as cflags=["-DLIMIT=3"]',
    )
    _need(name is None or _is_text(name), f"name can't be {_shown(name)}", "give a text, or leave it out")
    _need("\0" not in (text or ""), "the C text has a zero byte in it", "take it out")
    _need(_encodes(text or ""), "the C text has half a character in it (a lone surrogate)", "take it out")


def _need(fits: bool, message: str, remedy: str) -> None:
    if not fits:
        raise CompileError(message, tried="to compile a C text", remedy=remedy)


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and "\0" not in value and _encodes(value)


def _is_path(value: Any) -> bool:
    return isinstance(value, (str, os.PathLike)) and _is_text(os.fspath(value)) and bool(os.fspath(value))


def _encodes(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _kind(value: Any) -> str:
    return f"of type {type(value).__name__}"


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:79] + "…"
