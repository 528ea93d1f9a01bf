"""Source lines of an object file: the sections .BTF and .BTF.ext, Documentation/bpf/btf.rst."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from labkit.analysis.code import Line
from labkit.errors import AnalysisError

__all__ = ["lines_by_section"]

_MAGIC = 0xEB9F
_COLUMN_BITS = 10  # BPF_LINE_INFO_LINE_NUM


def lines_by_section(btf: bytes, extension: bytes) -> dict[str, dict[int, Line]]:
    """For each section of code: lines by the byte offset at which they begin. Raises AnalysisError."""
    try:
        return dict(_sections(_Strings(btf), extension))
    except (struct.error, UnicodeDecodeError, ValueError) as error:
        raise AnalysisError(
            f"The line information is damaged: {error}.", tried="to read .BTF.ext of an object file"
        ) from error


class _Strings:
    def __init__(self, btf: bytes) -> None:
        magic, header = struct.unpack_from("=HxxI", btf)
        if magic != _MAGIC:
            raise ValueError(f"magic {magic:#x} in .BTF")
        offset, size = struct.unpack_from("=II", btf, 16)
        self.data = btf[header + offset : header + offset + size]

    def __getitem__(self, offset: int) -> str:
        return self.data[offset : self.data.index(b"\0", offset)].decode(errors="replace")


def _sections(strings: _Strings, extension: bytes) -> Iterator[tuple[str, dict[int, Line]]]:
    # struct btf_ext_header: magic, version, flags, hdr_len, func_info_off, _len, line_info_off, _len
    magic, header, _, _, start, size = struct.unpack_from("=HxxIIIII", extension)
    if magic != _MAGIC:
        raise ValueError(f"magic {magic:#x} in .BTF.ext")
    at, end = header + start, header + start + size
    (record,) = struct.unpack_from("=I", extension, at) if size else (0,)
    at += 4
    if size and record < 16:
        raise ValueError(f"line records of {record} bytes")
    while at < end:
        name, count = struct.unpack_from("=II", extension, at)
        at += 8
        found = {}
        for _ in range(count):
            offset, file, text, column = struct.unpack_from("=4I", extension, at)
            at += record
            if column >> _COLUMN_BITS:
                found[offset] = Line(strings[file], column >> _COLUMN_BITS, strings[text])
        yield strings[name], found
