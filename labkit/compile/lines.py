"""Line information put right: the kernel's verifier then quotes the author's own lines, by the
author's own numbers.

``struct bpf_line_info`` (include/uapi/linux/bpf.h) names file and text by offsets into the strings
of the type information (Documentation/bpf/btf.rst); the strings come last, so new ones can be added
at the end.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from labkit.compile.source import HEAD, Flat
from labkit.program.spec import FunctionSpec

__all__ = ["Place", "Strings", "places", "restore"]

_RECORD = struct.Struct("=4I")  # insn_off, file_name_off, line_off, line_col
_COLUMN_BITS = 10  # BPF_LINE_INFO_LINE_NUM, _LINE_COL


@dataclass(frozen=True)
class Place:
    """Where instructions from ``index`` on come from; ``line`` counts from 1, 0 where the compiler
    doesn't say.
    """

    index: int
    file: str
    line: int
    text: str


class Strings:
    """The string section of type information, readable and growing."""

    def __init__(self, btf: bytes) -> None:
        self._btf = btf
        self._header_len, self._offset, self._length = 0, 0, 0
        self._data = b"\0"
        if len(btf) >= 24:
            (self._header_len,) = struct.unpack_from("=I", btf, 4)
            self._offset, self._length = struct.unpack_from("=2I", btf, 16)
            start = self._header_len + self._offset
            self._data = btf[start : start + self._length]
        self._added: dict[str, int] = {}
        self._tail = bytearray()

    def __getitem__(self, offset: int) -> str:
        end = self._data.find(b"\0", offset)
        return self._data[offset : end if end >= 0 else None].decode(errors="replace")

    def add(self, text: str) -> int:
        """The offset of ``text``, added where it is new."""
        text = text.replace("\0", " ")
        if text not in self._added:
            self._added[text] = len(self._data) + len(self._tail)
            self._tail += text.encode() + b"\0"
        return self._added[text]

    def rebuilt(self) -> bytes:
        """The type information with the added strings."""
        if not self._tail:
            return self._btf
        start = self._header_len + self._offset
        whole = bytearray(self._btf[: start + self._length] + self._tail)
        struct.pack_into("=I", whole, 20, self._length + len(self._tail))
        return bytes(whole)


def places(function: FunctionSpec, btf: bytes) -> list[Place]:
    """Where a function's instructions come from, by rising index."""
    strings = Strings(btf)
    return [
        Place(index, strings[file], column >> _COLUMN_BITS, strings[text])
        for index, file, text, column in _records(function)
    ]


def restore(function: FunctionSpec, strings: Strings, flat: Flat) -> bytes:
    """The function's line records in terms of the author's files; ``strings`` grows by what they
    need.

    Records of no line, or of a line in BCC's headers, are left out: their instructions then belong
    to the line before. The first record, which the kernel wants, gets the next one's place.
    """
    result: list[tuple[int, int, int, int]] = []
    head = 0
    for index, file_offset, _, line_column in _records(function):
        line, column = line_column >> _COLUMN_BITS, line_column & ((1 << _COLUMN_BITS) - 1)
        # All of a head is one place, the first record's: a body on the same line is off by more.
        if line >= HEAD:
            line = head = head or line
        place = flat.place(strings[file_offset], line) if line else None
        if place is None or not place[0].lines:
            continue
        file, line = place
        name, text = strings.add(file.name), strings.add(file.lines[line - 1])
        result.append((0 if not result else index, name, text, line << _COLUMN_BITS | column))
    if not result:
        return function.line_info
    rest = bytes(function.line_info_rec_size - _RECORD.size)
    return b"".join(_RECORD.pack(*record) + rest for record in result)


def _records(function: FunctionSpec) -> Iterator[tuple[int, int, int, int]]:
    size = function.line_info_rec_size
    if size >= _RECORD.size:
        for offset in range(0, len(function.line_info) - _RECORD.size + 1, size):
            yield _RECORD.unpack_from(function.line_info, offset)
