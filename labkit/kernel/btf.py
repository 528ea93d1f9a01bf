"""The kernel's type format (BTF): a reader that finds a type by name, an enum's words, a member's offset.

Format: Documentation/bpf/btf.rst. The kernel's own BTF is some megabytes, so the reader indexes once and decodes on demand.
"""

from __future__ import annotations

import struct
from collections.abc import Container, Mapping
from dataclasses import dataclass
from enum import IntEnum
from functools import cache
from pathlib import Path

__all__ = ["Btf", "BtfType", "Kind", "Member", "kernel_btf", "kernel_offsets"]


class Kind(IntEnum):
    """``BTF_KIND_*``, include/uapi/linux/btf.h."""

    VOID = 0
    INT = 1
    PTR = 2
    ARRAY = 3
    STRUCT = 4
    UNION = 5
    ENUM = 6
    FWD = 7
    TYPEDEF = 8
    VOLATILE = 9
    CONST = 10
    RESTRICT = 11
    FUNC = 12
    FUNC_PROTO = 13
    VAR = 14
    DATASEC = 15
    FLOAT = 16
    DECL_TAG = 17
    TYPE_TAG = 18
    ENUM64 = 19


# Bytes that follow struct btf_type: (fixed, for each of vlen).
_TRAILER = {
    Kind.INT: (4, 0),
    Kind.ARRAY: (12, 0),
    Kind.STRUCT: (0, 12),
    Kind.UNION: (0, 12),
    Kind.ENUM: (0, 8),
    Kind.FUNC_PROTO: (0, 8),
    Kind.VAR: (4, 0),
    Kind.DATASEC: (0, 12),
    Kind.DECL_TAG: (4, 0),
    Kind.ENUM64: (0, 12),
}
_ALIASES = (Kind.TYPEDEF, Kind.VOLATILE, Kind.CONST, Kind.RESTRICT, Kind.TYPE_TAG)


@dataclass(frozen=True)
class Member:
    """A member of a struct or union; ``bit_offset`` from the start, ``bit_size`` 0 unless it is a bit field."""

    name: str
    type: int
    bit_offset: int
    bit_size: int


@dataclass(frozen=True)
class BtfType:
    """One type: ``size`` in bytes for sized kinds, ``target`` the type id a pointer or alias refers to."""

    id: int
    kind: Kind
    name: str
    vlen: int
    kind_flag: bool
    size: int
    target: int
    at: int  # where its trailer starts


class Btf:
    """A parsed BTF blob (ids count from 1)."""

    def __init__(self, blob: bytes) -> None:
        """Raises ValueError for anything that isn't BTF of this machine's byte order."""
        if len(blob) < 24:
            raise ValueError("too short for a BTF header")
        magic, _version, _flags, header, type_at, type_bytes, text_at, text_bytes = struct.unpack_from(
            "=HBBIIIII", blob
        )
        if magic != 0xEB9F:
            raise ValueError(f"not BTF: magic {magic:#x}")
        self._blob = blob
        self._types = header + type_at
        self._text = header + text_at
        self._text_end = self._text + text_bytes
        self._offsets = self._index(self._types + type_bytes)
        import numpy as np  # takes longer to import than everything else here together

        words = np.frombuffer(blob, "=u4", len(blob) // 4)
        # The first word of every type is the offset of its name: one comparison then searches them all.
        self._name_offsets = words[np.array(self._offsets) // 4]
        self._name_offsets[0] = 0

    def _index(self, end: int) -> list[int]:
        offsets, at, blob = [0], self._types, self._blob
        sizes = [_TRAILER.get(Kind(k), (0, 0)) if k <= Kind.ENUM64 else None for k in range(32)]
        unpack = struct.Struct("=I").unpack_from
        while at < end:
            offsets.append(at)
            (info,) = unpack(blob, at + 4)
            trailer = sizes[(info >> 24) & 0x1F]
            if trailer is None:
                raise ValueError(f"unknown BTF kind {(info >> 24) & 0x1F}")
            at += 12 + trailer[0] + trailer[1] * (info & 0xFFFF)
        return offsets

    def __len__(self) -> int:
        return len(self._offsets) - 1

    def text(self, offset: int) -> str:
        """The string at ``offset`` of the string section."""
        start = self._text + offset
        return self._blob[start : self._blob.index(b"\0", start)].decode()

    def type(self, ident: int) -> BtfType:
        """The type with this id; 0 is void. Raises IndexError beyond the last."""
        if ident == 0:
            return BtfType(0, Kind.VOID, "void", 0, False, 0, 0, 0)
        at = self._offsets[ident]
        name, info, size_or_type = struct.unpack_from("=III", self._blob, at)
        kind = Kind((info >> 24) & 0x1F)
        sized = kind in (Kind.INT, Kind.STRUCT, Kind.UNION, Kind.ENUM, Kind.ENUM64, Kind.FLOAT, Kind.DATASEC)
        return BtfType(
            ident,
            kind,
            self.text(name),
            info & 0xFFFF,
            bool(info >> 31),
            size_or_type if sized else 0,
            0 if sized else size_or_type,
            at + 12,
        )

    def find(self, name: str, kind: Kind) -> int:
        """The id of the type of this kind and name. Raises KeyError where there is none."""
        text_at = self._blob.find(b"\0" + name.encode() + b"\0", self._text - 1, self._text_end)
        if text_at >= 0:
            for ident in (self._name_offsets == text_at + 1 - self._text).nonzero()[0]:
                if self.type(int(ident)).kind is kind:
                    return int(ident)
        raise KeyError(f"BTF has no {kind.name.lower()} {name}")

    def resolve(self, ident: int) -> BtfType:
        """The type behind typedefs and qualifiers."""
        found = self.type(ident)
        while found.kind in _ALIASES:
            found = self.type(found.target)
        return found

    def members(self, struct_type: BtfType) -> list[Member]:
        """The members of a struct or union, in order."""
        found = []
        for i in range(struct_type.vlen):
            name, target, offset = struct.unpack_from("=III", self._blob, struct_type.at + 12 * i)
            bits = offset >> 24 if struct_type.kind_flag else 0
            found.append(Member(self.text(name), target, offset & 0xFFFFFF if struct_type.kind_flag else offset, bits))
        return found

    def array(self, array_type: BtfType) -> tuple[int, int]:
        """(element type id, number of elements) of an array."""
        element, _index, count = struct.unpack_from("=III", self._blob, array_type.at)
        return element, count

    def signed(self, int_type: BtfType) -> bool:
        """Whether an INT is signed."""
        return bool(struct.unpack_from("=I", self._blob, int_type.at)[0] >> 24 & 1)

    def whole(self, int_type: BtfType) -> bool:
        """Whether an INT fills its bytes; old compilers write a bit field as an INT of fewer bits, or shifted ones."""
        (encoded,) = struct.unpack_from("=I", self._blob, int_type.at)
        return (encoded & 0xFF, encoded >> 16 & 0xFF) == (8 * int_type.size, 0)

    def named(self, ident: int, names: Container[str]) -> bool:
        """Whether one of the typedefs on the way to the type itself has one of these names."""
        found = self.type(ident)
        while found.kind in _ALIASES:
            if found.kind is Kind.TYPEDEF and found.name in names:
                return True
            found = self.type(found.target)
        return False

    def size(self, ident: int) -> int:
        """The size of a type in bytes."""
        found = self.resolve(ident)
        if found.kind is Kind.PTR:
            return 8
        if found.kind is Kind.ARRAY:
            element, count = self.array(found)
            return self.size(element) * count
        return found.size

    def enum(self, name: str) -> dict[int, str]:
        """value → word of the enum ``name``. Raises KeyError where there is none."""
        return self.words(self.type(self.find(name, Kind.ENUM)))

    def words(self, enum_type: BtfType) -> dict[int, str]:
        """value → word of an ENUM."""
        words = {}
        for i in range(enum_type.vlen):
            text, value = struct.unpack_from("=Ii", self._blob, enum_type.at + 8 * i)
            words[value] = self.text(text)
        return words

    def byte_offset(self, struct_name: str, *path: str) -> int:
        """Bytes from the start of ``struct struct_name`` to the member at ``path``, through unnamed members.

        Raises KeyError where a step doesn't exist.
        """
        current, offset = self.type(self.find(struct_name, Kind.STRUCT)), 0
        for step in path:
            member, more = self._member(current, step)
            offset += more
            current = self.resolve(member.type)
        return offset

    def _member(self, struct_type: BtfType, name: str) -> tuple[Member, int]:
        for member in self.members(struct_type):
            if member.name == name:
                return member, member.bit_offset // 8
            inner = self.resolve(member.type)
            if not member.name and inner.kind in (Kind.STRUCT, Kind.UNION):
                try:
                    found, more = self._member(inner, name)
                except KeyError:
                    continue
                return found, more + member.bit_offset // 8
        raise KeyError(f"struct {struct_type.name} has no member {name}")


@cache
def kernel_btf() -> Btf:
    """The BTF of the running kernel. Raises OSError where it doesn't show any."""
    return Btf(Path("/sys/kernel/btf/vmlinux").read_bytes())


@cache
def _kernel_offset(*path: str) -> int:
    return kernel_btf().byte_offset(*path)  # the same as long as the kernel runs, and slow to find


def kernel_offsets(paths: Mapping[str, tuple[str, ...]]) -> dict[str, int]:
    """Bytes to members of the running kernel's structures; a path is the struct and its members. Raises KeyError, OSError."""
    return {name: _kernel_offset(*path) for name, path in paths.items()}
