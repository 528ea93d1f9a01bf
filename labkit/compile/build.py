"""From C text to a ProgramSpec: prepare, ask the cache or the child, check, put lines right."""

from __future__ import annotations

import base64
import contextlib
import os
import re
import threading
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from labkit.compile import cache, checks, client, headers
from labkit.compile.arguments import check_arguments
from labkit.compile.clang import compile_error, diagnostics
from labkit.compile.lines import Strings, restore
from labkit.compile.refusals import death, refusal
from labkit.compile.source import Flat, flatten, lesson_directory, located, read, shown
from labkit.errors import CompileError, resources
from labkit.program.spec import FunctionSpec, MapSpec, ProgramSpec
from labkit.uapi import MapType

__all__ = ["compile_source", "prewarm"]

_FUNCTION = re.compile(r"^(?!static|typedef)\w[\w\s*]*?\b(\w+)\s*\([^;]*?\)\s*\{", re.MULTILINE)
# Only the kernel's helpers can be called; a pointer made of a number is always a slip.
_CFLAGS = ("-Werror=implicit-function-declaration", "-Werror=int-conversion")
_PREWARMING = "labkit-compile-prewarm"
_SMALLEST = "#include <uapi/linux/bpf.h>\nint pass(struct xdp_md *ctx)\n{\n\treturn XDP_PASS;\n}\n"


@resources("to compile a C text")
def compile_source(
    text: str | None = None,
    path: str | os.PathLike[str] | None = None,
    *,
    cflags: Sequence[str] = (),
    name: str | None = None,
) -> ProgramSpec:
    """The program in ``text`` or in the file ``path``; one of the two. Every function that is not
    static is in it.

    Needs no privilege. Headers are found beside the file, under ``bpf/`` (as
    ``"common/verdict.h"``), in ``-I`` directories of ``cflags``, and among the kernel's user-space
    headers (as ``<uapi/linux/ip.h>``). ``name``: by default the file's, or that of the first
    function. A relative ``path`` that leads nowhere from the current directory starts at the
    checkout's root, so that ``bpf/pass.c`` is the same file for every notebook.

    An unchanged source comes from a cache, in memory or on disk. Raises CompileError, with line and
    column in the author's own text where there is one; LabError where descriptors or memory have run
    out.
    """
    check_arguments(text, path, cflags, name)
    file = None if path is None else located(Path(path))
    source = read(file) if file else text or ""
    title = name or (file.stem if file else _first_function(source))
    label = shown(file) if file else f"{title}.c"
    flat = flatten(source, label, file and file.resolve(), _search(cflags))
    key = cache.key(flat.text, [f.name for f in flat.files], tuple(cflags), title, str(file))
    known = cache.load(key)
    if known is not None:
        return known
    spec = _compile(flat, title, None if file is None else str(file), source, cflags)
    cache.store(key, spec)
    return spec


def prewarm() -> None:
    """Starts the compiler in the background, so that the first compilation takes no longer than the
    others. Does nothing where it runs, or is being started, already.
    """
    if client.child_pid() is not None or any(each.name == _PREWARMING for each in threading.enumerate()):
        return

    def warm() -> None:
        with contextlib.suppress(CompileError):  # whoever compiles next hears of it
            _ask(flatten(_SMALLEST, "pass.c", None, ()), ())

    threading.Thread(target=warm, name=_PREWARMING, daemon=True).start()


def _first_function(source: str) -> str:
    found = _FUNCTION.search(source)
    return found[1] if found else "program"


def _search(cflags: Sequence[str]) -> tuple[Path, ...]:
    given = [flag[2:] for flag in cflags if flag.startswith("-I") and len(flag) > 2]
    given += [after for flag, after in pairwise(cflags) if flag == "-I"]
    return (lesson_directory(), *(Path(directory).absolute() for directory in given))


def _ask(flat: Flat, cflags: Sequence[str]) -> dict[str, Any]:
    request = {
        "name": flat.files[0].name,
        "text": flat.text,
        "cflags": [*_CFLAGS, *cflags],
        "headers": str(headers.tree()),
    }
    try:
        return client.request(request)
    except client.Ended as ended:
        raise death(ended, flat) from None


def _compile(flat: Flat, title: str, path: str | None, source: str, cflags: Sequence[str]) -> ProgramSpec:
    answer = _ask(flat, cflags)
    failure = answer.get("failure")
    if failure == "text":
        raise compile_error(answer["said"], flat)
    if failure:
        raise refusal(failure, answer, flat)
    strings = Strings(base64.b64decode(answer["btf"]))
    functions, globals_used = {}, {}
    for name, record in answer["functions"].items():
        function = _function(name, record)
        functions[name] = replace(function, line_info=restore(function, strings, flat))
        globals_used[name] = record["globals_used"]
    spec = ProgramSpec(
        name=title,
        source=source,
        path=path,
        functions=functions,
        maps={name: _map(name, shape) for name, shape in answer["maps"].items()},
        btf=strings.rebuilt(),
        license=answer["license"],
        warnings=tuple(str(d) for d in diagnostics(answer["said"], flat) if d.kind == "warning"),
    )
    return checks.check(spec, flat, globals_used)


def _function(name: str, record: dict[str, Any]) -> FunctionSpec:
    return FunctionSpec(
        name=name,
        instructions=base64.b64decode(record["instructions"]),
        map_references=tuple((index, map_name) for index, map_name in record["map_references"]),
        func_info=base64.b64decode(record["func_info"]),
        func_info_rec_size=record["func_info_rec_size"],
        line_info=base64.b64decode(record["line_info"]),
        line_info_rec_size=record["line_info_rec_size"],
    )


def _map(name: str, shape: dict[str, int]) -> MapSpec:
    try:
        kind = MapType(shape["type"])
    except ValueError as cause:
        raise CompileError(
            f"map {name} is of type {shape['type']}, which the lab does not know", tried="to compile"
        ) from cause
    return MapSpec(
        name=name,
        type=kind,
        key_size=shape["key_size"],
        value_size=shape["value_size"],
        max_entries=shape["max_entries"],
        flags=shape["flags"],
        key_type=shape["key_type"],
        value_type=shape["value_type"],
    )
