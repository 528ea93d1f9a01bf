"""What the compiling child can fail at beside errors in the text, and what to do about each."""

from __future__ import annotations

import signal
import sys
from typing import Any

from labkit.compile.clang import backend_error, readable
from labkit.compile.client import Ended
from labkit.compile.source import Flat
from labkit.errors import CompileError

__all__ = ["death", "refusal"]

_APT = "sudo apt-get install python3-bpfcc libbpfcc, then ./env/run true, which links it into the environment"


def refusal(kind: str, answer: dict[str, Any], flat: Flat) -> CompileError:
    """The error for an answer of the child that says it can't."""
    detail = str(answer.get("detail", ""))
    message, remedy = {
        "bcc-missing": (
            "BCC's Python package is not to be found by this Python",
            f"{_APT}. (The package called bcc on PyPI is an unrelated thing: don't pip install it)",
        ),
        "bcc-wrong": (
            f"the bcc that {sys.executable} finds is not BCC but an unrelated package from PyPI ({detail})",
            f"{sys.executable} -m pip uninstall bcc; {_APT}",
        ),
        "bcc-broken": (
            "BCC's Python package can't be imported",
            f"{_APT}; Python package and library must come from the same release",
        ),
        "recorder": (
            "this process may not watch its own system calls (seccomp user notification), which compiling needs",
            "run the lab outside the container or monitor that has a seccomp listener of its own, "
            "on Linux 5.9 "
            "or later (x86-64 or 64-bit Arm)",
        ),
        "pinned": (
            "the program asks for a map that another program pinned in the BPF file system",
            "the lab pins nothing: define the map in this text (no BPF_TABLE_PINNED), and share "
            "maps by "
            "compiling the functions together",
        ),
        "load": (
            f"BCC made no bytecode for the function {detail}",
            "see .log for what it said; a function needs one argument, the context",
        ),
    }.get(
        kind,
        (
            "the compiler process ran into a fault of its own",
            "please report it with the C text; the notebook is unharmed",
        ),
    )
    said = readable(str(answer.get("said", "")), flat)
    return CompileError(
        message,
        tried=flat.tried,
        remedy=remedy,
        detail=detail if kind not in ("bcc-wrong", "load") else "",
        log=said,
    )


def death(ended: Ended, flat: Flat) -> CompileError:
    """The error for a child that ended over a text. For some errors of a text, LLVM's way to say
    them is to exit.
    """
    said = readable(ended.said, flat)
    error = backend_error(ended.said, flat)
    if error is not None:
        return error
    code = ended.code
    how = f"by signal {signal.Signals(-code).name}" if code < 0 else f"with status {code}"
    return CompileError(
        f"the compiler process ended ({how}) while compiling; the notebook is unharmed",
        tried=flat.tried,
        detail=said[-2000:].strip(),
        log=said,
        remedy="LLVM gives up on some inputs: undo the last change, or write it another way; "
        "the next compilation starts a new process",
    )
