"""The bpf(2) system call: one function a command, bytes in, descriptors or bytes out.

In a sandbox the three commands that make something go through its gate (labkit.kernel.gate).

Layouts are those of ``union bpf_attr``, include/uapi/linux/bpf.h. Every function raises OSError with the kernel's errno;
the layers above turn it into a LabError that knows what was meant.
"""

from __future__ import annotations

import ctypes
import errno
import struct
from collections.abc import Iterator
from dataclasses import dataclass

from labkit.kernel.bpf_info import LinkInfo, MapInfo, ProgInfo, btf_id, btf_of, link_info, map_info, prog_info
from labkit.kernel.gate import make, system_call
from labkit.uapi import AttachType, BpfCmd, MapType, ProgType

__all__ = [
    "DebugInfo",
    "LinkInfo",
    "MapInfo",
    "ProgInfo",
    "TestRun",
    "btf_fd_by_id",
    "btf_id",
    "btf_load",
    "btf_of",
    "link_create",
    "link_detach",
    "link_fd_by_id",
    "link_info",
    "link_update",
    "map_create",
    "map_delete",
    "map_info",
    "map_lookup",
    "map_lookup_batch",
    "map_lookup_on",
    "map_next_key",
    "map_update",
    "object_ids",
    "prog_fd_by_id",
    "prog_info",
    "prog_load",
    "prog_test_run",
    "raw_tracepoint_open",
]

_OBJECT_NAME_BYTES = 15  # BPF_OBJ_NAME_LEN less the closing zero


def _address(buffer: ctypes.Array[ctypes.c_char] | None) -> int:
    return ctypes.addressof(buffer) if buffer is not None else 0


def _held(data: bytes) -> ctypes.Array[ctypes.c_char] | None:
    """A buffer the kernel can read while the caller keeps the reference."""
    return ctypes.create_string_buffer(data, len(data)) if data else None


def _name(text: str) -> bytes:
    """An object name the kernel accepts: letters, digits, '_' and '.', 15 bytes at most."""
    kept = "".join(c if c.isascii() and (c.isalnum() or c in "_.") else "_" for c in text)
    return kept[:_OBJECT_NAME_BYTES].encode()


def map_create(
    map_type: MapType, key_size: int, value_size: int, max_entries: int, flags: int = 0, name: str = ""
) -> int:
    """A descriptor of a new map (BPF_MAP_CREATE); sizes in bytes, ``value_size`` of one CPU's value."""
    attr = struct.pack("=IIIIIII16s", map_type, key_size, value_size, max_entries, flags, 0, 0, _name(name))
    return make(BpfCmd.MAP_CREATE, attr)


def _element(fd: int, key: int, value: int, flags: int = 0) -> bytes:
    return struct.pack("=IxxxxQQQ", fd, key, value, flags)


def map_lookup(fd: int, key: bytes, size: int) -> bytes:
    """The value at ``key``: ``size`` bytes, for per-CPU maps one value of a multiple of 8 bytes for each possible CPU."""
    held, out = _held(key), ctypes.create_string_buffer(size)
    system_call(BpfCmd.MAP_LOOKUP_ELEM, _element(fd, _address(held), _address(out)))
    return out.raw


def map_update(fd: int, key: bytes, value: bytes, flags: int = 0) -> None:
    """Write ``value`` at ``key``."""
    held, data = _held(key), _held(value)
    system_call(BpfCmd.MAP_UPDATE_ELEM, _element(fd, _address(held), _address(data), flags))


def map_delete(fd: int, key: bytes) -> None:
    """Delete ``key``; OSError ENOENT where it isn't there."""
    held = _held(key)
    system_call(BpfCmd.MAP_DELETE_ELEM, _element(fd, _address(held), 0))


def map_next_key(fd: int, key: bytes | None, key_size: int) -> bytes | None:
    """The key after ``key`` (None: the first), or None at the end."""
    held, out = _held(key or b""), ctypes.create_string_buffer(key_size)
    try:
        system_call(BpfCmd.MAP_GET_NEXT_KEY, _element(fd, _address(held), _address(out)))
    except OSError as error:
        if error.errno == errno.ENOENT:
            return None
        raise
    return out.raw


def map_lookup_batch(fd: int, count: int, key_size: int, value_size: int) -> tuple[bytes, bytes, int]:
    """Up to ``count`` keys and values in one call (BPF_MAP_LOOKUP_BATCH): (keys, values, how many).

    Raises OSError EINVAL or ENOTSUPP (524) where this kernel has no batch read for the map's type.
    """
    keys, values, found, _ = map_lookup_on(fd, None, count, key_size, value_size)
    return keys, values, found


def map_lookup_on(
    fd: int, at: bytes | None, count: int, key_size: int, value_size: int
) -> tuple[bytes, bytes, int, bytes | None]:
    """The same from the place ``at`` on (None: the first): (keys, values, how many, the next place; None at the end).

    A place is what the last call gave, and means nothing else. Raises OSError as ``map_lookup_batch`` does, and ENOSPC
    where ``count`` is less than a hash has in one of its buckets.
    """
    keys, values = ctypes.create_string_buffer(count * key_size), ctypes.create_string_buffer(count * value_size)
    begin, after = _held(at or b""), ctypes.create_string_buffer(max(4, key_size))
    # struct { in_batch, out_batch, keys, values: u64; count, map_fd: u32; elem_flags, flags: u64 } batch
    places = _address(begin), _address(after), _address(keys), _address(values)
    packed = struct.pack("=QQQQIIQQ", *places, count, fd, 0, 0)
    attr, ended = ctypes.create_string_buffer(packed, len(packed)), False
    try:
        system_call(BpfCmd.MAP_LOOKUP_BATCH, attr)
    except OSError as error:
        if error.errno != errno.ENOENT:  # ENOENT says that the end of the map was reached, with what was read
            raise
        ended = True
    (found,) = struct.unpack_from("=I", attr.raw, 32)
    return keys.raw, values.raw, int(found), None if ended else after.raw


def btf_load(blob: bytes) -> int:
    """A descriptor of a BTF object (BPF_BTF_LOAD)."""
    held = _held(blob)
    return make(BpfCmd.BTF_LOAD, struct.pack("=QQIII", _address(held), 0, len(blob), 0, 0))


@dataclass(frozen=True)
class DebugInfo:
    """Function and line information of a program: BTF descriptor, records and their sizes in bytes."""

    btf_fd: int
    func_info: bytes
    func_record_bytes: int
    line_info: bytes
    line_record_bytes: int


def prog_load(
    prog_type: ProgType,
    instructions: bytes,
    *,
    name: str = "",
    license: str = "GPL",
    flags: int = 0,
    ifindex: int = 0,
    expected_attach_type: int = 0,
    debug: DebugInfo | None = None,
    log: ctypes.Array[ctypes.c_char] | None = None,
    log_level: int = 0,
) -> int:
    """A descriptor of the loaded program (BPF_PROG_LOAD). ``log`` receives the verifier's text, zero-terminated."""
    code, licence = _held(instructions), ctypes.create_string_buffer(license.encode())
    func, line = _held(debug.func_info if debug else b""), _held(debug.line_info if debug else b"")
    attr = struct.pack(
        "=IIQQIIQII16sIIIIQIIQI",
        prog_type,
        len(instructions) // 8,
        _address(code),
        ctypes.addressof(licence),
        log_level if log is not None else 0,
        len(log) if log is not None and log_level else 0,
        _address(log) if log_level else 0,
        0,
        flags,
        _name(name),
        ifindex,
        expected_attach_type,
        debug.btf_fd if debug else 0,
        debug.func_record_bytes if debug else 0,
        _address(func),
        len(debug.func_info) // debug.func_record_bytes if debug and debug.func_info else 0,
        debug.line_record_bytes if debug else 0,
        _address(line),
        len(debug.line_info) // debug.line_record_bytes if debug and debug.line_info else 0,
    )
    return make(BpfCmd.PROG_LOAD, attr)


def link_create(prog_fd: int, target: int, attach_type: AttachType, flags: int = 0) -> int:
    """A descriptor of a new link (BPF_LINK_CREATE) on interface ``target`` of the calling thread's namespace."""
    # The command reads further members for TCX; zeroes there mean "at the end, no expectation".
    return system_call(BpfCmd.LINK_CREATE, struct.pack("=IIIIQQ", prog_fd, target, attach_type, flags, 0, 0))


def link_update(link_fd: int, new_prog_fd: int) -> None:
    """Swap the program of a link, atomically (BPF_LINK_UPDATE)."""
    system_call(BpfCmd.LINK_UPDATE, struct.pack("=IIII", link_fd, new_prog_fd, 0, 0))


def link_detach(link_fd: int) -> None:
    """Take the program off at once, while the descriptor stays valid (BPF_LINK_DETACH)."""
    system_call(BpfCmd.LINK_DETACH, struct.pack("=I", link_fd))


def raw_tracepoint_open(name: str, prog_fd: int) -> int:
    """A descriptor whose life is the attachment of ``prog_fd`` to tracepoint ``name``."""
    text = ctypes.create_string_buffer(name.encode())
    return system_call(BpfCmd.RAW_TRACEPOINT_OPEN, struct.pack("=QIxxxxQ", ctypes.addressof(text), prog_fd, 0))


@dataclass(frozen=True)
class TestRun:
    """What BPF_PROG_TEST_RUN answered: the program's return value and the mean time of a run in ns."""

    retval: int
    duration_ns: int


def prog_test_run(
    prog_fd: int,
    data: bytes,
    *,
    repeat: int,
    flags: int = 0,
    batch: int = 0,
    metadata: bytes = b"",
    context: bytes = b"",
) -> TestRun:
    """Run a program ``repeat`` times over ``data`` (a frame); see Documentation/bpf/bpf_prog_run.rst.

    An XDP program finds ``metadata``, whole words of 4 bytes, before the frame; a TC program finds its packet described
    by ``context``, a ``struct __sk_buff``. With TestRunFlag.XDP_LIVE_FRAMES the verdicts are carried out, in the
    namespace of the calling thread, and ``batch`` frames are handled at a time (64 where 0, 256 at most).
    """
    held = _held(metadata + data)
    described = _held(_context(len(metadata), len(data)) if metadata else context)
    packed = struct.pack("=IIIIQQ", prog_fd, 0, len(metadata + data), 0, _address(held), 0)
    packed += struct.pack("=IIIIQQIII4x", repeat, 0, len(described or b""), 0, _address(described), 0, flags, 0, batch)
    attr = ctypes.create_string_buffer(packed, len(packed))
    system_call(BpfCmd.PROG_TEST_RUN, attr)
    (retval,), (duration,) = struct.unpack_from("=I", attr.raw, 4), struct.unpack_from("=I", attr.raw, 36)
    return TestRun(retval, duration)


def _context(metadata_bytes: int, frame_bytes: int) -> bytes:
    """``struct xdp_md`` of a frame that metadata goes before: offsets in the buffer, where the metadata begins at 0."""
    return struct.pack("=6I", metadata_bytes, metadata_bytes + frame_bytes, 0, 0, 0, 0)


def object_ids(command: BpfCmd) -> Iterator[int]:
    """Ids of all programs, maps or links of the machine (``*_GET_NEXT_ID``); needs privilege."""
    current = 0
    while True:
        packed = struct.pack("=III", current, 0, 0)
        attr = ctypes.create_string_buffer(packed, len(packed))
        try:
            system_call(command, attr)
        except OSError as error:
            if error.errno == errno.ENOENT:
                return
            raise
        (current,) = struct.unpack_from("=I", attr.raw, 4)
        yield current


def btf_fd_by_id(ident: int) -> int:
    """A descriptor of the BTF object with this id."""
    return system_call(BpfCmd.BTF_GET_FD_BY_ID, struct.pack("=III", ident, 0, 0))


def prog_fd_by_id(ident: int) -> int:
    """A descriptor of the program with this id."""
    return system_call(BpfCmd.PROG_GET_FD_BY_ID, struct.pack("=III", ident, 0, 0))


def link_fd_by_id(ident: int) -> int:
    """A descriptor of the link with this id."""
    return system_call(BpfCmd.LINK_GET_FD_BY_ID, struct.pack("=III", ident, 0, 0))
