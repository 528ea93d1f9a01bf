"""bpf(2), and in a sandbox the gate that makes maps and programs in its place.

The three commands that make something need privilege over BPF. Outside a sandbox the process has it or not. Inside,
a process of the sandbox holds a BPF token (Linux 6.9 or later), and makes what others ask for through a socket, after
a look at it: env/gate has the other side, and the form of what is said.
"""

from __future__ import annotations

import array
import contextlib
import ctypes
import os
import platform
import socket
import struct
import threading
from collections.abc import Iterator
from pathlib import Path

from labkit.uapi import BpfCmd

__all__ = ["in_sandbox", "make", "privilege_remedy", "system_call", "tracing_withheld"]

_GATE = Path("/run/xdp-lab-gate")
# __NR_bpf: arch/x86/entry/syscalls/syscall_64.tbl; include/uapi/asm-generic/unistd.h for the newer ones.
_SYSCALL = {"x86_64": 321, "aarch64": 280, "riscv64": 280, "loongarch64": 280}.get(platform.machine(), 280)
_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long

# Where union bpf_attr of include/uapi/linux/bpf.h holds descriptors, and the log's address, size and true length.
_DESCRIPTORS = {BpfCmd.MAP_CREATE: (20, 48), BpfCmd.PROG_LOAD: (72,), BpfCmd.BTF_LOAD: ()}
_LOG = {BpfCmd.PROG_LOAD: (32, 28, 140), BpfCmd.BTF_LOAD: (8, 20, 28)}
_IFINDEX = 64  # of a program that is bound to an interface
_LOAD_64, _MAP_BY_FD, _MAP_VALUE_BY_FD = 0x18, 1, 2  # BPF_LD | BPF_DW | BPF_IMM, and BPF_PSEUDO_MAP_FD, _VALUE
_NAMESPACE = -1  # among the descriptors, the network namespace of who asks

Attr = ctypes.Array[ctypes.c_char]


def system_call(command: BpfCmd, attr: bytes | Attr) -> int:
    """bpf(2) itself. ``attr`` is written to by some commands: pass a ctypes buffer to read answers from."""
    buffer = attr if isinstance(attr, ctypes.Array) else ctypes.create_string_buffer(attr, len(attr))
    result = _libc.syscall(_SYSCALL, int(command), ctypes.byref(buffer), ctypes.c_uint(len(buffer)))
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"bpf {command.name}: {os.strerror(number)}")
    return int(result)


def in_sandbox() -> bool:
    """Whether this process is in one of the lab's sandboxes."""
    return _GATE.is_socket()


def tracing_withheld() -> bool:
    """Whether whoever started this sandbox withheld tracing programs."""
    return in_sandbox() and not _line.allows_tracing()


def make(command: BpfCmd, attr: bytes) -> int:
    """A new map, BTF object or program: by the gate in a sandbox, else by the kernel. Raises OSError.

    ``attr`` points to memory as for bpf(2). Where the gate refuses, its reason is in the log that ``attr`` names.
    """
    return _line.make(command, attr) if in_sandbox() else system_call(command, attr)


def privilege_remedy() -> str:
    """What to do where the kernel said EPERM: it depends on where this process is."""
    if not in_sandbox():
        return "run it in a sandbox (./env/lab, or ./env/run labkit sandbox -- CMD), or as root"
    return "this sandbox doesn't allow it (labkit doctor tells what it does): ask whoever started the sandbox"


class _Line:
    """This process's connection to the gate, opened when first needed. One request at a time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        self._tracing: bool | None = None

    def _connected(self) -> socket.socket:
        if self._socket is None:
            made = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            try:
                made.connect(str(_GATE))
            except OSError:
                made.close()
                raise
            self._socket = made
        return self._socket

    def allows_tracing(self) -> bool:
        """What the gate says of itself."""
        with self._lock:
            if self._tracing is None:
                self._connected().send(b"what")
                self._tracing = self._connected().recv(16) == b"tracing"
            return self._tracing

    def make(self, command: BpfCmd, attr: bytes) -> int:
        """A descriptor of what was made."""
        with self._lock, _parcel(command, attr) as (parcel, descriptors):
            line = self._connected()
            socket.send_fds(line, [b"make"], [parcel, *descriptors])
            word, received, _, _ = socket.recv_fds(line, 12, 1)
            if len(word) < 12:
                self._socket = None
                line.close()
                raise OSError("the sandbox's gate is shut")
            number, length, true_bytes = struct.unpack("=iII", word)
            _give_log(command, attr, os.pread(parcel, length, 0), true_bytes)
        if number:
            raise OSError(number, f"bpf {command.name}: {os.strerror(number)}")
        return received[0]


_line = _Line()
os.register_at_fork(after_in_child=lambda: globals().update(_line=_Line()))


def _word(attr: bytes, offset: int) -> int:
    """A 32-bit member; 0 where this ``attr`` ends before it."""
    return int(struct.unpack_from("=I", attr, offset)[0]) if len(attr) >= offset + 4 else 0


def _memory(command: BpfCmd, attr: bytes) -> Iterator[tuple[int, bytes]]:
    """What ``attr`` points to, for the command to read: offset of the pointer, contents."""

    def at(offset: int, size: int) -> bytes:
        (address,) = struct.unpack_from("=Q", attr, offset)
        return ctypes.string_at(address, size) if address and size else b""

    if command is BpfCmd.BTF_LOAD:
        yield 0, at(0, _word(attr, 16))
    if command is BpfCmd.PROG_LOAD:
        (licence,) = struct.unpack_from("=Q", attr, 16)
        yield 8, at(8, 8 * _word(attr, 4))
        yield 16, ctypes.string_at(licence)
        for offset in (76, 92):  # functions, lines: bytes of a record, address, records
            yield offset + 4, at(offset + 4, _word(attr, offset) * _word(attr, offset + 12))


def _numbers(command: BpfCmd, attr: bytes, code: bytes) -> list[int]:
    """The descriptors that a request speaks of, in its attributes and in its instructions."""
    found = [number for offset in _DESCRIPTORS[command] if (number := _word(attr, offset))]
    at = 0
    while at < len(code):
        if code[at] == _LOAD_64:
            if code[at + 1] >> 4 in (_MAP_BY_FD, _MAP_VALUE_BY_FD):
                found.append(struct.unpack_from("=i", code, at + 4)[0])
            at += 8
        at += 8
    return list(dict.fromkeys(found))


@contextlib.contextmanager
def _parcel(command: BpfCmd, attr: bytes) -> Iterator[tuple[int, list[int]]]:
    """A file in memory with the request, and the descriptors that go with it."""
    memory = list(_memory(command, attr))
    numbers = _numbers(command, attr, dict(memory).get(8, b"") if command is BpfCmd.PROG_LOAD else b"")
    descriptors = list(numbers)
    with contextlib.ExitStack() as held:
        if command is BpfCmd.PROG_LOAD and _word(attr, _IFINDEX):
            namespace = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
            held.callback(os.close, namespace)
            numbers, descriptors = [*numbers, _NAMESPACE], [*descriptors, namespace]
        parcel = os.memfd_create("bpf-request", os.MFD_CLOEXEC)
        held.callback(os.close, parcel)
        head = struct.pack("=IIII", command, len(attr), len(memory), len(numbers)) + array.array("i", numbers).tobytes()
        table = b"".join(struct.pack("=II", offset, len(data)) for offset, data in memory)
        os.write(parcel, b"".join([head, attr, table, *(data for _, data in memory)]))
        yield parcel, descriptors


def _give_log(command: BpfCmd, attr: bytes, log: bytes, true_bytes: int) -> None:
    """Write the log to where ``attr`` wants it, cut to its size, as the kernel would have."""
    if command not in _LOG:
        return
    address_at, size_at, _ = _LOG[command]
    (address,), size = struct.unpack_from("=Q", attr, address_at), _word(attr, size_at)
    if address and size and log:
        kept = log if len(log) <= size else log[: size - 1] + b"\0"
        ctypes.memmove(address, kept, len(kept))
