"""What BCC lets through and the kernel, or the reader of the counters, would trip over."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from labkit.compile.clang import snippet
from labkit.compile.lines import places
from labkit.compile.remarks import remark_at
from labkit.compile.source import Flat
from labkit.errors import CompileError
from labkit.program.spec import MapSpec, ProgramSpec
from labkit.uapi import MapType

__all__ = ["check"]


_MAP_ADDRESS = re.compile(r"\b(bpf_\w+)\s*\([^;]*?&\s*(\w+)\s*,")


def check(spec: ProgramSpec, flat: Flat, globals_used: Mapping[str, Sequence[int]]) -> ProgramSpec:
    """``spec``, with warnings added. Raises CompileError for what can't work.

    ``globals_used``: for each function the instructions that refer to a global.
    """
    if not spec.functions:
        raise CompileError(
            f"{flat.files[0].name} has no function that can be loaded",
            tried=flat.tried,
            remedy="define one that is not static, as int drop_all(struct xdp_md *ctx) { return XDP_DROP; }",
        )
    for name, indexes in globals_used.items():
        if indexes:
            raise _global_used(spec, flat, name, indexes[0])
    warnings = list(spec.warnings)
    for m in spec.maps.values():
        if m.type in (MapType.ARRAY_OF_MAPS, MapType.HASH_OF_MAPS):
            raise _at_map(
                flat,
                m,
                f"{m.name} is a map of maps, which the lab can't make",
                "use one map with a larger key",
            )
        if m.type.per_cpu and m.value_size % 8:
            if m.value_size != 4:
                raise _at_map(
                    flat,
                    m,
                    f"the values of per-CPU map {m.name} have {m.value_size} bytes; it must be a multiple of 8",
                    "pad to 8 bytes: use u64 for a counter, or add a member such as u32 padding to the structure",
                )
            warnings.append(
                f"per-CPU map {m.name} has 4-byte values: a u32 counter starts again at 4,294,967,296; use u64"
            )
    return replace(spec, warnings=tuple(warnings))


def _global_used(spec: ProgramSpec, flat: Flat, function: str, index: int) -> CompileError:
    here = [p for p in places(spec.functions[function], spec.btf) if p.index <= index and p.line]
    place = here[-1] if here else None
    found = _MAP_ADDRESS.search(place.text) if place else None
    if place and found and found[2] in spec.maps:
        return CompileError(
            f"{place.file}:{place.line}: BCC's maps are not handed to {found[1]} by their address",
            line=place.line,
            source_line=place.text,
            tried=flat.tried,
            detail=snippet(place.line, place.text),
            remedy=f"call the map's own operation, as {found[2]}.lookup(&key)",
            remarks=(
                remark_at(
                    flat,
                    place.file,
                    place.line,
                    f"BCC's maps are not handed to {found[1]} by their address",
                    "a map of BCC's is not a variable with an address",
                    f"call the map's own operation, as {found[2]}.lookup(&key)",
                ),
            ),
        )
    said = f"{function} uses a global variable or a table of constants, and BCC has neither"
    meaning = (
        "BCC loads functions and maps; variables outside functions, static ones, texts in quotes and the values a long "
        "array starts with are data, so the kernel would be given an address that means nothing to it "
        "(\"invalid mem access 'scalar'\")"
    )
    remedy = "keep the value in a map of one entry, or assign the array's fields one by one"
    return CompileError(
        (f"{place.file}:{place.line}: " if place else "") + said,
        line=place.line if place else None,
        source_line=place.text if place else "",
        tried=flat.tried,
        detail=(snippet(place.line, place.text) + "\n" if place else "") + f"that is: {meaning}",
        remedy=remedy,
        remarks=(remark_at(flat, place.file if place else "", place.line if place else 0, said, meaning, remedy),),
    )


def _at_map(flat: Flat, m: MapSpec, message: str, remedy: str) -> CompileError:
    for file in flat.files:
        for number, line in enumerate(file.lines, 1):
            if m.name in line and ("BPF_" in line or "LAB_" in line):
                return CompileError(
                    f"{file.name}:{number}: {message}",
                    line=number,
                    source_line=line,
                    tried=flat.tried,
                    detail=snippet(number, line),
                    remedy=remedy,
                    remarks=(remark_at(flat, file.name, number, message, "", remedy),),
                )
    return CompileError(message, tried=flat.tried, remedy=remedy)
