"""Compiled programs kept in memory and on disk: an unchanged source is not compiled twice.

On disk each is a JSON file, written beside its place and renamed, so that it is whole or not there.
A file that can't be read as what it should be counts as absent.
"""

from __future__ import annotations

import base64
import contextlib
import functools
import hashlib
import importlib.util
import json
import os
import tempfile
from collections import OrderedDict
from pathlib import Path
from typing import Any

from labkit.compile import headers
from labkit.program.spec import FunctionSpec, MapSpec, ProgramSpec
from labkit.uapi import MapType

__all__ = ["clear_memory", "from_json", "key", "load", "store", "to_json"]

_KEPT_IN_MEMORY = 128
_KEPT_ON_DISK = 400

_memory: OrderedDict[str, ProgramSpec] = OrderedDict()


def key(*parts: object) -> str:
    """Names a compilation: ``parts``, and everything on this machine that the result depends on."""
    return hashlib.sha256(repr((parts, headers.fingerprint(), _tools(), _bcc())).encode()).hexdigest()


def load(name: str) -> ProgramSpec | None:
    """The program stored under a key, or None."""
    if name in _memory:
        with contextlib.suppress(KeyError):  # another thread's eviction
            _memory.move_to_end(name)
        return _memory.get(name)
    try:
        spec = from_json(json.loads(_file(name).read_bytes()))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    _remember(name, spec)
    return spec


def store(name: str, spec: ProgramSpec) -> None:
    """Keeps a program under a key. A disk that is full or read-only is no error: memory has it."""
    _remember(name, spec)
    target = _file(name)
    with contextlib.suppress(OSError):
        target.parent.mkdir(exist_ok=True)
        _prune(target.parent)
        handle, building = tempfile.mkstemp(suffix=".tmp", dir=target.parent)
        try:
            with os.fdopen(handle, "w") as out:
                json.dump(to_json(spec), out)
            os.replace(building, target)
        except OSError:
            os.unlink(building)


def clear_memory() -> None:
    """Forgets what this process has, not what is on disk."""
    _memory.clear()


def _remember(name: str, spec: ProgramSpec) -> None:
    _memory[name] = spec
    while len(_memory) > _KEPT_IN_MEMORY:
        with contextlib.suppress(KeyError):
            _memory.popitem(last=False)


def _file(name: str) -> Path:
    return headers.cache_directory() / "programs" / f"{name[:40]}.json"


def _prune(directory: Path) -> None:
    files = [entry for entry in os.scandir(directory) if entry.is_file()]
    if len(files) > _KEPT_ON_DISK:
        files.sort(key=lambda entry: entry.stat().st_mtime)
        for entry in files[: len(files) // 2]:
            with contextlib.suppress(OSError):
                os.unlink(entry)


@functools.cache
def _tools() -> tuple[object, ...]:
    """The state of this package."""
    here = Path(__file__).parent
    return tuple(sorted((f.name, f.stat().st_mtime_ns, f.stat().st_size) for f in here.glob("*.py")))


@functools.cache
def _bcc() -> tuple[object, ...]:
    """Which BCC there is; it is found, but not imported."""
    found = importlib.util.find_spec("bcc")
    if found is None or found.origin is None:
        return ()
    version = Path(found.origin).with_name("version.py")
    with contextlib.suppress(OSError):
        return str(version.resolve()), version.read_text()
    return (found.origin,)


def to_json(spec: ProgramSpec) -> dict[str, Any]:
    """A program as JSON values."""
    return {
        "name": spec.name,
        "source": spec.source,
        "path": spec.path,
        "btf": base64.b64encode(spec.btf).decode(),
        "license": spec.license,
        "warnings": list(spec.warnings),
        "functions": [
            {
                name: base64.b64encode(value).decode() if isinstance(value, bytes) else value
                for name, value in vars(function).items()
            }
            for function in spec.functions.values()
        ],
        "maps": [vars(m) for m in spec.maps.values()],
    }


def from_json(data: dict[str, Any]) -> ProgramSpec:
    """The program again. Raises ValueError, KeyError, TypeError or AttributeError where ``data`` is
    not one.
    """
    functions = [
        FunctionSpec(
            name=f["name"],
            instructions=base64.b64decode(f["instructions"], validate=True),
            map_references=tuple((int(index), str(name)) for index, name in f["map_references"]),
            func_info=base64.b64decode(f["func_info"], validate=True),
            func_info_rec_size=int(f["func_info_rec_size"]),
            line_info=base64.b64decode(f["line_info"], validate=True),
            line_info_rec_size=int(f["line_info_rec_size"]),
        )
        for f in data["functions"]
    ]
    maps = [MapSpec(**{**m, "type": MapType(m["type"])}) for m in data["maps"]]
    return ProgramSpec(
        name=data["name"],
        source=data["source"],
        path=data["path"],
        functions={f.name: f for f in functions},
        maps={m.name: m for m in maps},
        btf=base64.b64decode(data["btf"], validate=True),
        license=data["license"],
        warnings=tuple(data["warnings"]),
    )
