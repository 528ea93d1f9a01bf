"""What an editor is asked for, checked: a slip in a call is told as such."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from labkit.compile.source import located, read
from labkit.errors import StateError
from labkit.interface import Interface
from labkit.lab import Lab
from labkit.program.link import MODES, Link
from labkit.widgets.editor_versions import Origin

__all__ = ["MOST_CHARACTERS", "TRIED", "asked_for"]

MOST_CHARACTERS = 200_000
TRIED = "to edit a program"
_EXAMPLE = 'as in ProgramEditor(link), or ProgramEditor(lab, server["eth0"], path="bpf/pass.c")'


def asked_for(
    target: Any, interface: Any, path: Any, text: Any, mode: Any, function: Any
) -> tuple[Lab, Interface, Origin, str]:
    """What the editor is asked for, checked: lab, interface, where the text is from, and the text. Raises LabError."""
    if isinstance(target, Link):
        _need(interface is None and path is None and text is None, "A link brings its interface and its text.")
        _need(not target.closed, "This link is closed.")
        at, program = target.interface, target.program
        assert isinstance(at, Interface)
        origin = Origin(program.spec.name, program.spec.path, function or program.name)
        return at.host.lab, at, origin, program.spec.source
    _need(isinstance(target, Lab), f"{type(target).__name__} is neither a link nor a lab.")
    _need(not target.closed, f"The lab {target.name} is closed.")
    _need(isinstance(interface, Interface) and interface.host.lab is target, "The interface is not one of the lab's.")
    _need((path is None) != (text is None), "Give either path or text.")
    _need(isinstance(mode, str) and mode in MODES, f"There is no XDP mode {mode!r}.")
    _need(function is None or isinstance(function, str), f"function can't be {function!r}.")
    if path is None:
        _need(isinstance(text, str), f"text can't be of type {type(text).__name__}.")
        _need(len(text) <= MOST_CHARACTERS, f"The text has {len(text):,} characters; {MOST_CHARACTERS:,} are the most.")
        return target, interface, Origin(function=function), text
    _need(isinstance(path, (str, os.PathLike)), f"path can't be of type {type(path).__name__}.")
    file = located(Path(path))
    found = read(file)
    _need(len(found) <= MOST_CHARACTERS, f"{path} has {len(found):,} characters; {MOST_CHARACTERS:,} are the most.")
    return target, interface, Origin(file.stem, str(file), function), found


def _need(fits: bool, message: str) -> None:
    if not fits:
        raise StateError(message, tried=TRIED, remedy=f"give a link, or a lab, an interface and a text, {_EXAMPLE}")
