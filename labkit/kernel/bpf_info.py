"""What the kernel says of an object behind a descriptor (BPF_OBJ_GET_INFO_BY_FD): programs, maps, links, types.

Layouts are those of ``struct bpf_…_info``, include/uapi/linux/bpf.h. Every function raises OSError with the kernel's errno.
"""

from __future__ import annotations

import ctypes
import struct
from dataclasses import dataclass

from labkit.kernel.gate import system_call
from labkit.uapi import BpfCmd, LinkType

__all__ = ["LinkInfo", "MapInfo", "ProgInfo", "btf_id", "btf_of", "link_info", "map_info", "missed_runs", "prog_info"]

_BTF_INFO = struct.Struct(
    "=QIIQII"
)  # struct bpf_btf_info: address and size of the types, id, name, its size, kernel's own


def _object_info(fd: int, size: int) -> bytes:
    out = ctypes.create_string_buffer(size)
    system_call(BpfCmd.OBJ_GET_INFO_BY_FD, struct.pack("=IIQ", fd, size, ctypes.addressof(out)))
    return out.raw


@dataclass(frozen=True)
class ProgInfo:
    """Part of ``struct bpf_prog_info``: type, id, tag (hex), name; bytes of its machine code and of the kernel's own code.

    Both lengths are 0 for whoever has no privilege over the whole machine.
    """

    type: int
    id: int
    tag: str
    name: str
    jited_bytes: int
    translated_bytes: int


def prog_info(fd: int) -> ProgInfo:
    """What the kernel says of a loaded program."""
    raw = _object_info(fd, 232)
    kind, ident, tag, jited, translated = struct.unpack_from("=II8sII", raw)
    return ProgInfo(kind, ident, tag.hex(), raw[64:80].split(b"\0")[0].decode(), jited, translated)


def missed_runs(fd: int) -> int:
    """How often the kernel left a tracing program out, because it was running on that CPU already (recursion_misses)."""
    raw = _object_info(fd, 232)
    return int(struct.unpack_from("=Q", raw, 208)[0])


@dataclass(frozen=True)
class MapInfo:
    """Part of ``struct bpf_map_info``: type, id, sizes in bytes, entries, flags, name."""

    type: int
    id: int
    key_size: int
    value_size: int
    max_entries: int
    flags: int
    name: str


def map_info(fd: int) -> MapInfo:
    """What the kernel says of a map."""
    raw = _object_info(fd, 88)
    kind, ident, key, value, entries, flags = struct.unpack_from("=IIIIII", raw)
    return MapInfo(kind, ident, key, value, entries, flags, raw[24:40].split(b"\0")[0].decode())


@dataclass(frozen=True)
class LinkInfo:
    """Part of ``struct bpf_link_info``: type, id, the program's id, and for an XDP link its ifindex (0: detached)."""

    type: int
    id: int
    prog_id: int
    ifindex: int


def link_info(fd: int) -> LinkInfo:
    """What the kernel says of a link; ``ifindex`` is 0 for links without a device."""
    raw = _object_info(fd, 64)
    kind, ident, prog_id = struct.unpack_from("=III", raw)
    ifindex = struct.unpack_from("=I", raw, 16)[0] if kind in (LinkType.XDP, LinkType.TCX) else 0
    return LinkInfo(kind, ident, prog_id, ifindex)


def _btf_info(fd: int, room: int) -> tuple[int, bytes, int]:
    """Id, at most ``room`` bytes of the types, and how many there are."""
    data = ctypes.create_string_buffer(room) if room else None
    packed = _BTF_INFO.pack(ctypes.addressof(data) if data is not None else 0, room, 0, 0, 0, 0)
    out = ctypes.create_string_buffer(packed, len(packed))
    system_call(BpfCmd.OBJ_GET_INFO_BY_FD, struct.pack("=IIQ", fd, len(packed), ctypes.addressof(out)))
    _address, size, ident, *_ = _BTF_INFO.unpack(out.raw)
    return ident, data.raw if data is not None else b"", size


def btf_id(fd: int) -> int:
    """The id of a BTF object: the kernel's number for these types, as long as somebody holds them."""
    return _btf_info(fd, 0)[0]


def btf_of(fd: int) -> bytes:
    """The types themselves, as they were loaded."""
    _, _, size = _btf_info(fd, 0)
    return _btf_info(fd, size)[1]
