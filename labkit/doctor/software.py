"""Rows about software: BCC and which one, the headers of the C library, Python and its packages."""

from __future__ import annotations

import json
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

from labkit.doctor.report import Row

__all__ = ["Survey", "bcc_row", "headers", "package_rows", "python_row"]

_HEADER = Path("/usr/include/linux/bpf.h")
_SYSTEM_BCC = (Path("/usr/lib/python3/dist-packages/bcc"), Path("/usr/lib/python3/site-packages/bcc"))
_SURVEY = Path(__file__).with_name("survey.py")
_TIMEOUT_S = 20.0
_SET_UP = "./env/run labkit doctor"  # sets up what is missing, links the system's BCC, and looks again


class Survey:
    """The child that looks for BCC and packages, started at once and asked later, so that it works meanwhile."""

    def __init__(self) -> None:
        self._child = subprocess.Popen(
            [sys.executable, "-P", str(_SURVEY)],  # the directory of a script is no place to find BCC in
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
        )

    def result(self) -> dict[str, Any]:
        """What it found. Raises RuntimeError with its last words where it ended otherwise."""
        try:
            out, said = self._child.communicate(timeout=_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            raise RuntimeError(f"no answer in {_TIMEOUT_S:g} s") from None
        if self._child.returncode:
            last = (said.strip().splitlines() or ["no word"])[-1]
            raise RuntimeError(f"ended with status {self._child.returncode}: {last}")
        answer: dict[str, Any] = json.loads(out)
        return answer

    def close(self) -> None:
        """End the child if it still runs, and let go of it. Safe to call again."""
        if self._child.poll() is None:
            self._child.kill()
        self._child.wait()
        for pipe in (self._child.stdout, self._child.stderr):
            if pipe is not None:
                pipe.close()


def bcc_row(found: dict[str, Any]) -> Row:
    """Clang and LLVM, which come with BCC; and whether it is BCC at all."""
    kind, file = found["kind"], found.get("file", "")
    if kind == "system":
        return Row("BCC", "ok", f"BCC {found['version']} with LLVM {found['llvm']}, {file}")
    if kind == "unrelated":
        what = f"{file} is an unrelated package of that name from PyPI: it has no BPF"
        return Row("BCC", "missing", what, f"{sys.executable} -m pip uninstall -y bcc && {_SET_UP}")
    if kind == "broken":
        remedy = "sudo apt-get install --reinstall python3-bpfcc libbpfcc"
        return Row("BCC", "missing", f"{file} can't be imported: {found['error']}", remedy)
    system = next((path for path in _SYSTEM_BCC if (path / "libbcc.py").is_file()), None)
    if system is not None:
        return Row("BCC", "missing", f"it is at {system}, but {sys.executable} doesn't look there", _SET_UP)
    return Row("BCC", "missing", "not installed", "sudo apt-get install python3-bpfcc")


def headers(header: Path = _HEADER) -> list[Row]:
    """The kernel's user-space API headers: all that a lesson's C needs. Kernel headers are not needed."""
    if header.is_file():
        return [Row("UAPI headers", "ok", str(header.parent))]
    return [Row("UAPI headers", "missing", f"no {header}", "sudo apt-get install linux-libc-dev")]


def python_row() -> list[Row]:
    """Which Python this is."""
    return [Row("Python", "note", f"{platform.python_version()}, {sys.executable}", needed=False)]


def package_rows(found: list[dict[str, str]]) -> list[Row]:
    """Each Python package against what pyproject.toml asks for."""
    return [_package(**each) for each in found]


def _package(name: str, wanted: str, found: str, state: str) -> Row:
    title, group = f"Python package {name}", "Python package"
    if state == "missing":
        return Row(title, "missing", f"not installed (wanted: {wanted})", _SET_UP, True, group)
    if state == "other":
        return Row(title, "degraded", f"{found} (wanted: {wanted})", _SET_UP, True, group)
    return Row(title, "ok", found, "", True, group)
