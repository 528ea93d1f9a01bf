"""bpf(2) by hand, for scripts that run on a bare Python inside a sandbox: nothing of labkit stands between."""

from __future__ import annotations

import ctypes
import os
import struct

SYS_BPF = {"x86_64": 321}.get(os.uname().machine, 280)
MAP_CREATE, PROG_LOAD, OBJ_GET, PROG_ATTACH, TEST_RUN = 0, 5, 7, 8, 10
PROG_GET_NEXT_ID, MAP_GET_NEXT_ID, PROG_GET_FD_BY_ID, MAP_GET_FD_BY_ID = 11, 12, 13, 14
TASK_FD_QUERY, LINK_CREATE, LINK_GET_FD_BY_ID, ENABLE_STATS, TOKEN_CREATE = 20, 28, 30, 32, 36
LOAD_64 = 0x18  # BPF_LD | BPF_DW | BPF_IMM
XDP, SCHED_CLS, RAW_TRACEPOINT = 6, 3, 17
BPFFS = "/sys/fs/bpf"
GPL = ctypes.create_string_buffer(b"GPL")

libc = ctypes.CDLL(None, use_errno=True)  # with the library before it that leads to a sandbox's gate
libc.syscall.restype = ctypes.c_long
kernel = ctypes.CDLL("libc.so.6", use_errno=True)  # without
kernel.syscall.restype = ctypes.c_long


def checked(result: int, what: str = "") -> int:
    """The result of a call by ctypes; raises OSError."""
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


def syscall(number: int, *arguments: int | bytes | ctypes.Array[ctypes.c_char] | None) -> int:
    """A system call by its number; raises OSError."""
    return checked(libc.syscall(number, *(ctypes.c_long(a) if isinstance(a, int) else a for a in arguments)))


def bpf(command: int, attr: bytes | ctypes.Array[ctypes.c_char], by_gate: bool = False) -> int:
    """bpf(2), in a sandbox ``by_gate``; raises OSError. A buffer of 160 bytes is written to by commands with answers."""
    buffer = ctypes.create_string_buffer(attr.ljust(160, b"\0"), 160) if isinstance(attr, bytes) else attr
    return checked((libc if by_gate else kernel).syscall(SYS_BPF, command, buffer, 160), f"bpf command {command}")


def token(where: str = BPFFS) -> int:
    """A descriptor of a new token of the bpffs there."""
    mount = os.open(where, os.O_RDONLY | os.O_DIRECTORY)
    try:
        return bpf(TOKEN_CREATE, struct.pack("=II", 0, mount))
    finally:
        os.close(mount)


def instruction(code: int, to: int = 0, source: int = 0, offset: int = 0, number: int = 0) -> bytes:
    """struct bpf_insn."""
    return struct.pack("=BBhi", code, to | source << 4, offset, number)


def set_to(register: int, number: int) -> bytes:
    """register = number"""
    return instruction(0xB7, register, number=number)


def copy(to: int, source: int) -> bytes:
    """to = source, both registers"""
    return instruction(0xBF, to, source)


def helper(number: int) -> bytes:
    """A call of a helper."""
    return instruction(0x85, number=number)


def kernel_function(btf_id: int) -> bytes:
    """A call of a kernel function."""
    return instruction(0x85, 0, 2, number=btf_id)


END = instruction(0x95)
PASS = set_to(0, 2) + END


def eight_bytes_from(address: int, reader: int) -> bytes:
    """A program that reads eight bytes at an address by a helper, and returns the first four."""
    low, high = address & 0xFFFFFFFF, address >> 32
    halves = struct.pack("=BBhI", 0x18, 3, 0, low) + struct.pack("=BBhI", 0, 0, 0, high)
    stack = set_to(1, 0) + instruction(0x7B, 10, 1, -8) + copy(1, 10) + instruction(0x07, 1, number=-8)
    return stack + set_to(2, 8) + halves + helper(reader) + instruction(0x61, 0, 10, -8) + END


def load(kind: int, code: bytes = PASS, by_gate: bool = False, expected: int = 0, target: int = 0) -> int:
    """A program's descriptor. ``target`` is the BTF id of what it attaches to."""
    buffer = ctypes.create_string_buffer(code, len(code))
    attr = bytearray(160)
    addresses = ctypes.addressof(buffer), ctypes.addressof(GPL)
    struct.pack_into("=IIQQIIQII", attr, 0, kind, len(code) // 8, *addresses, 0, 0, 0, 0, 0)
    struct.pack_into("=I", attr, 68, expected)
    struct.pack_into("=I", attr, 108, target)
    return bpf(PROG_LOAD, bytes(attr), by_gate)


def create_map(kind: int = 2, by_gate: bool = False, value_bytes: int = 8, entries: int = 1) -> int:
    """A map's descriptor."""
    attr = bytearray(160)
    struct.pack_into("=IIII", attr, 0, kind, 4, value_bytes, entries)
    return bpf(MAP_CREATE, bytes(attr), by_gate)


def run(program: int) -> int:
    """What a program returns for a packet of 64 zero bytes, 32 bits."""
    packet = ctypes.create_string_buffer(64)
    attr = struct.pack("=IIIIQQII", program, 0, 64, 0, ctypes.addressof(packet), 0, 1, 0).ljust(160, b"\0")
    answer = ctypes.create_string_buffer(attr, 160)
    bpf(TEST_RUN, answer)
    return int(struct.unpack_from("=I", answer, 4)[0])


def link_create(program: int, target: int, attach_type: int) -> int:
    """A link's descriptor; ``target`` is an ifindex or a cgroup's descriptor."""
    return bpf(LINK_CREATE, struct.pack("=IIII", program, target, attach_type, 0))


def function_ids() -> dict[str, int]:
    """BTF ids of the kernel's functions by name."""
    # Documentation/bpf/btf.rst: bytes that follow struct btf_type, fixed or for each of its `vlen` members.
    fixed, each = {1: 4, 3: 12, 14: 4, 17: 4}, {4: 12, 5: 12, 6: 8, 13: 8, 15: 12, 19: 12}
    with open("/sys/kernel/btf/vmlinux", "rb") as file:
        data = file.read()
    header, types, length, strings = (struct.unpack_from("=IIII", data, 4)[i] for i in range(4))
    at, found, number = header + types, {}, 1
    while at < header + types + length:
        name, info, _ = struct.unpack_from("=III", data, at)
        kind = info >> 24 & 31
        if kind == 12:
            start = header + strings + name
            found[data[start : data.index(b"\0", start)].decode()] = number
        at += 12 + fixed.get(kind, 0) + each.get(kind, 0) * (info & 0xFFFF)
        number += 1
    return found
