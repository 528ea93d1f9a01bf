"""Probes of what bpf(2) makes: maps, programs, raw tracepoints, type information."""

from __future__ import annotations

import errno
import os
import struct
from pathlib import Path

from labkit.kernel import bpf
from labkit.uapi import MapType, ProgType, XdpAction

__all__ = ["adjust_meta", "btf", "constant_program", "drop_reasons", "jit", "map_type", "syscall", "tracepoint"]

_BTF = Path("/sys/kernel/btf/vmlinux")
_NO_PREALLOC = 1 << 0  # BPF_F_NO_PREALLOC, include/uapi/linux/bpf.h: an LPM trie demands it

# Key and value bytes, entries, flags of the smallest map of a type; Documentation/bpf/map_*.rst.
_SHAPES: dict[MapType, tuple[int, int, int, int]] = {
    **dict.fromkeys(
        (
            MapType.HASH,
            MapType.ARRAY,
            MapType.PERCPU_HASH,
            MapType.PERCPU_ARRAY,
            MapType.LRU_HASH,
            MapType.LRU_PERCPU_HASH,
            MapType.DEVMAP,
            MapType.DEVMAP_HASH,
            MapType.CPUMAP,
            MapType.SOCKMAP,
            MapType.SOCKHASH,
        ),
        (4, 8, 1, 0),
    ),
    **dict.fromkeys((MapType.PROG_ARRAY, MapType.PERF_EVENT_ARRAY, MapType.XSKMAP), (4, 4, 1, 0)),
    **dict.fromkeys((MapType.QUEUE, MapType.STACK, MapType.BLOOM_FILTER), (0, 8, 1, 0)),
    MapType.LPM_TRIE: (8, 8, 1, _NO_PREALLOC),
    MapType.RINGBUF: (0, 0, os.sysconf("SC_PAGE_SIZE"), 0),
}


def constant_program(prog_type: ProgType, value: int, *, flags: int = 0, ifindex: int = 0) -> int:
    """A descriptor of a program of two instructions, ``r0 = value; exit``."""
    # struct bpf_insn: BPF_ALU64 | BPF_MOV | BPF_K on r0, then BPF_JMP | BPF_EXIT
    code = struct.pack("=BBhiBBhi", 0xB7, 0, 0, value, 0x95, 0, 0, 0)
    return bpf.prog_load(prog_type, code, name="lab_probe", flags=flags, ifindex=ifindex)


def adjust_meta() -> str:
    """A program that calls bpf_xdp_adjust_meta, as one does to put metadata before a packet."""
    # struct bpf_insn: r2 = 0; call helper 54, include/uapi/linux/bpf.h; r0 = XDP_PASS; exit
    code = struct.pack("=BBhi", 0xB7, 2, 0, 0) + struct.pack("=BBhi", 0x85, 0, 0, 54)
    code += struct.pack("=BBhiBBhi", 0xB7, 0, 0, XdpAction.PASS, 0x95, 0, 0, 0)
    os.close(bpf.prog_load(ProgType.XDP, code, name="lab_probe"))
    return "a program may put some there"


def syscall() -> str:
    """bpf(2): makes the simplest map there is."""
    os.close(bpf.map_create(MapType.ARRAY, 4, 8, 1, name="lab_probe"))
    return "makes maps"


def map_type(kind: MapType) -> str:
    """One map of type ``kind``. Raises ValueError for a type that takes more than a shape to make."""
    if kind not in _SHAPES:
        raise ValueError(f"a map of type {kind.name} can't be probed alone")
    os.close(bpf.map_create(kind, *_SHAPES[kind], name="lab_probe"))
    return "can be made"


def jit() -> str:
    """The just-in-time compiler: a loaded program has machine code."""
    fd = constant_program(ProgType.XDP, XdpAction.PASS)
    try:
        info = bpf.prog_info(fd)
    finally:
        os.close(fd)
    if not info.translated_bytes:
        return "on or off: the kernel doesn't tell a user namespace"
    if not info.jited_bytes:
        raise OSError(errno.EOPNOTSUPP, "programs are interpreted")
    return "on"


def btf() -> str:
    """The kernel's own type information."""
    size = _BTF.stat().st_size
    with _BTF.open("rb") as file:
        if struct.unpack("=H", file.read(2)) != (0xEB9F,):  # BTF_MAGIC, include/uapi/linux/btf.h
            raise OSError(errno.ENOEXEC, f"{_BTF} is not BTF")
    return f"{_BTF}, {size / 1e6:.1f} MB"


def tracepoint(name: str) -> str:
    """A raw tracepoint of this name, to which a program attaches for a moment."""
    fd = constant_program(ProgType.RAW_TRACEPOINT, 0)
    try:
        os.close(bpf.raw_tracepoint_open(name, fd))
    finally:
        os.close(fd)
    return "a program attaches"


def drop_reasons() -> str:
    """Names of drop reasons: ``enum skb_drop_reason`` among the kernel's types (its strings are looked through)."""
    blob = _BTF.read_bytes()
    names = blob.count(b"\0SKB_DROP_REASON_")
    if b"\0skb_drop_reason\0" not in blob or not names:
        raise OSError(errno.ENOENT, "the kernel's types have no skb_drop_reason")
    return f"{names} names"
