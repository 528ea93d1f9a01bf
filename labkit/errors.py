"""The errors of the lab: each says what was tried, on what, the kernel's word for it, and the remedy."""

from __future__ import annotations

import contextlib
import errno as errno_names
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

__all__ = [
    "AnalysisError",
    "AttachError",
    "CaptureError",
    "CompileError",
    "FeatureError",
    "HintError",
    "LabError",
    "LessonError",
    "MapError",
    "PrivilegeError",
    "Register",
    "Remark",
    "StateError",
    "TopologyError",
    "TrafficError",
    "VerifierError",
    "XskError",
    "kernel_word",
    "resources",
]


def kernel_word(number: int) -> str:
    """The kernel's name and text of an errno, as ``EPERM, Operation not permitted``."""
    name = errno_names.errorcode.get(number, f"errno {number}")
    return f"{name}, {os.strerror(number)}"


class LabError(Exception):
    """Base of every error the lab raises on purpose.

    ``message`` is one sentence; ``tried`` what was attempted; ``on`` the object of the attempt; ``errno`` the
    kernel's number where it answered; ``remedy`` what the reader can do next; ``detail`` anything longer.
    """

    def __init__(
        self,
        message: str,
        *,
        tried: str = "",
        on: str = "",
        errno: int | None = None,
        remedy: str = "",
        detail: str = "",
    ) -> None:
        self.message = message
        self.tried = tried
        self.on = on
        self.errno = errno
        self.remedy = remedy
        self.detail = detail
        super().__init__(message)

    def __str__(self) -> str:
        lines = [self.message]
        if self.tried:
            lines.append(f"  tried:  {self.tried}" + (f" on {self.on}" if self.on else ""))
        if self.errno is not None:
            lines.append(f"  kernel: {kernel_word(self.errno)}")
        if self.detail:
            lines.extend("  " + line for line in self.detail.splitlines())
        if self.remedy:
            lines.append(f"  remedy: {self.remedy}")
        return "\n".join(lines)

    def _render_traceback_(self) -> list[str]:
        """What a notebook shows in place of a traceback (IPython's hook): the reader needs the message, not our frames."""
        return [f"{type(self).__name__}: {self}"]


class PrivilegeError(LabError):
    """The process may not do this; the remedy says how it could."""


class FeatureError(LabError):
    """The running kernel or the machine lacks something."""


class TopologyError(LabError):
    """A topology, a host or an interface is not what was asked for."""


class MapError(LabError):
    """A map was used with a key, value or operation it does not have."""


class AttachError(LabError):
    """A program could not be attached, replaced or detached."""


class TrafficError(LabError):
    """Traffic could not be made or sent."""


class XskError(TrafficError):
    """An AF_XDP socket or its memory can't be what was asked for, or was used wrongly."""


class CaptureError(TrafficError):
    """A capture file could not be read."""


class HintError(LabError):
    """Metadata, or a format of it, was used wrongly; what packets bring is never the cause."""


class LessonError(LabError):
    """A prediction, an exercise or a check was used wrongly."""


class StateError(LabError):
    """An object was used after it was closed, or in the wrong order."""


class ModelError(LabError):
    """A model that was asked for what it can't be: a ring of no entries, a time below 0."""


class AnalysisError(LabError):
    """Bytecode that can't be analysed: not eBPF, or too large to walk through.

    ``slot`` counts instructions from 0, ``opcode`` is the byte found there; None where no single one is meant. The rest,
    ``told``, is as for every LabError.
    """

    def __init__(self, message: str, *, slot: int | None = None, opcode: int | None = None, **told: Any) -> None:
        super().__init__(message, **told)
        self.slot = slot
        self.opcode = opcode


@dataclass(frozen=True)
class Remark:
    """One thing that the compiler or the verifier says of a C text, with its meaning and remedy where they are known.

    ``line`` and ``column`` count from 1 in the text itself; None where it names no place there. What is said of a
    header has the line that includes it, or by which the path went there, and ``header`` names the file and its line.
    """

    kind: str  # "error" or "warning"
    said: str
    line: int | None = None
    column: int | None = None
    header: str = ""
    meaning: str = ""
    remedy: str = ""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Register:
    """What the verifier knew of a register where it stopped: its own ``state``, the same in ``words``.

    ``line`` and ``text`` are of the C that set it, None and "" where the log doesn't tell; ``named`` where the refused
    instruction or the verifier's sentence is about it.
    """

    name: str
    state: str
    words: str
    line: int | None = None
    text: str = ""
    named: bool = False


class CompileError(LabError):
    """The C text did not compile.

    ``line`` and ``column`` count from 1 in the reader's own text; ``source_line`` is that line; ``messages`` all
    the compiler said, one diagnostic each; ``remarks`` the same with places and plain words; ``log`` the raw text.
    """

    def __init__(
        self,
        message: str,
        *,
        line: int | None = None,
        column: int | None = None,
        source_line: str = "",
        messages: tuple[str, ...] = (),
        remarks: tuple[Remark, ...] = (),
        log: str = "",
        tried: str = "",
        on: str = "",
        errno: int | None = None,
        remedy: str = "",
        detail: str = "",
    ) -> None:
        super().__init__(message, tried=tried, on=on, errno=errno, remedy=remedy, detail=detail)
        self.line = line
        self.column = column
        self.source_line = source_line
        self.messages = messages
        self.remarks = remarks
        self.log = log


class VerifierError(LabError):
    """The verifier refused the program.

    ``said`` is the verifier's own last useful line, ``meaning`` the same in plain words, ``line`` and
    ``source_line`` the C line it speaks of (None where the log names none), ``log`` the whole log; ``remarks`` has the
    place in the text itself, ``code`` the refused instruction, ``registers`` what was known there.
    """

    def __init__(
        self,
        message: str,
        *,
        said: str = "",
        meaning: str = "",
        line: int | None = None,
        source_line: str = "",
        remarks: tuple[Remark, ...] = (),
        code: str = "",
        registers: tuple[Register, ...] = (),
        log: str = "",
        tried: str = "",
        on: str = "",
        errno: int | None = None,
        remedy: str = "",
        detail: str = "",
    ) -> None:
        super().__init__(message, tried=tried, on=on, errno=errno, remedy=remedy, detail=detail)
        self.said = said
        self.meaning = meaning
        self.line = line
        self.source_line = source_line
        self.remarks = remarks
        self.code = code
        self.registers = registers
        self.log = log


# What ran out, and what gives some of it back.
_EXHAUSTED = {
    errno_names.EMFILE: (
        "This process has no file descriptor left",
        "close labs, sinks and captures that are no longer needed, restart the notebook's kernel, or raise the limit (ulimit -n)",
    ),
    errno_names.ENFILE: ("This machine has no file descriptor left", "close other programs"),
    errno_names.ENOMEM: (
        "The kernel has no memory left for this",
        "close labs and other programs, or use smaller maps and fewer queues",
    ),
}


@contextlib.contextmanager
def resources(tried: str, on: str = "") -> Iterator[None]:
    """Inside, or as a decorator: an OSError by which descriptors or memory have run out is raised as a LabError."""
    try:
        yield
    except OSError as error:
        if error.errno not in _EXHAUSTED:
            raise
        message, remedy = _EXHAUSTED[error.errno]
        raise LabError(f"{message}.", tried=tried, on=on, errno=error.errno, remedy=remedy) from error
