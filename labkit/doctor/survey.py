"""Which BCC and which packages this Python finds. Run as a program of its own: prints one JSON object.

A child process looks, as importing BCC brings a hundred megabytes of LLVM with it, and a broken package may do anything.
It needs nothing but Python's own library.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import re
import sys
from pathlib import Path
from typing import Any

__all__ = ["bcc", "packages"]

_PROJECT = Path(__file__).resolve().parents[2] / "pyproject.toml"


def bcc() -> dict[str, Any]:
    """``kind``: system, missing, unrelated or broken; with ``file``, ``version``, ``llvm``, ``error`` where known."""
    try:
        spec = importlib.util.find_spec("bcc")
    except (ImportError, ValueError):
        spec = None
    if spec is None:
        return {"kind": "missing"}
    try:
        import bcc as module
    except Exception as error:  # a package that is not ours may raise anything
        kind = "broken" if _is_ours(spec.origin) else "unrelated"
        return {"kind": kind, "file": spec.origin or "?", "error": f"{type(error).__name__}: {error}"}
    file = getattr(module, "__file__", None) or spec.origin or "?"
    if not hasattr(module, "BPF"):
        return {"kind": "unrelated", "file": file, "version": getattr(module, "__version__", "?")}
    return {"kind": "system", "file": file, "version": getattr(module, "__version__", "?"), "llvm": _llvm()}


def _is_ours(origin: str | None) -> bool:
    return bool(origin) and (Path(str(origin)).parent / "libbcc.py").is_file()


def _llvm() -> str:
    """The release of LLVM that came with libbcc, from the libraries mapped into this process."""
    found = re.search(r"lib(?:LLVM|clang-cpp)[-.]?(?:so\.)?(\d+(?:\.\d+)?)", Path("/proc/self/maps").read_text())
    return found[1] if found else "linked in"


def packages() -> list[dict[str, str]]:
    """Each package that pyproject.toml asks for: ``name``, ``wanted``, ``found`` ("" where missing), ``state``."""
    return [_package(text) for text in _requirements()]


def _requirements() -> list[str]:
    if _PROJECT.is_file():
        import tomllib

        return list(tomllib.loads(_PROJECT.read_text())["project"]["dependencies"])
    return [text for text in importlib.metadata.requires("labkit") or [] if "extra ==" not in text]


def _package(text: str) -> dict[str, str]:
    name, wanted = re.fullmatch(r"([\w.-]+)\s*([^;]*)(?:;.*)?", text).groups()  # type: ignore[union-attr]
    try:
        found = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return {"name": name, "wanted": wanted, "found": "", "state": "missing"}
    try:
        from packaging.specifiers import SpecifierSet
    except ImportError:
        return {"name": name, "wanted": wanted, "found": found, "state": "unchecked"}
    state = "ok" if SpecifierSet(wanted).contains(found, prereleases=True) else "other"
    return {"name": name, "wanted": wanted, "found": found, "state": state}


if __name__ == "__main__":
    json.dump({"bcc": bcc(), "packages": packages()}, sys.stdout)
