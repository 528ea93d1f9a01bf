"""Records what a thread asks of bpf(2), and answers in the kernel's place: compiling needs no
privilege.

BCC creates maps and loads programs as it compiles. Here the compiling thread runs under a seccomp
filter that hands its bpf(2) calls, and nothing else, to a second thread of the same process. That
one notes the request, answers map, type-information and program requests with the descriptor of an
empty memory file, and refuses the rest. See seccomp_unotify(2); Linux 5.9 or later.

BCC also reads the whole of /proc/kallsyms twice a compilation, to see which of six helpers the
kernel has: two thirds of all its time. Every kernel that can do the above has them, so it gets a
list of those six.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import os
import platform
import struct
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field

__all__ = ["BtfBlob", "CreatedMap", "LoadedProgram", "Recorder"]

# arch/x86/entry/syscalls/syscall_64.tbl; include/uapi/asm-generic/unistd.h (64-bit Arm): seccomp,
# bpf, openat
_SYSCALLS = {"x86_64": (317, 321, 257), "aarch64": (277, 280, 56)}

_KALLSYMS = b"/proc/kallsyms"
_SYMBOLS = (
    "bpf_probe_read",
    "bpf_probe_read_str",
    "bpf_probe_read_kernel",
    "bpf_probe_read_kernel_str",
    "bpf_probe_read_user",
    "bpf_probe_read_user_str",
)

_PR_SET_NO_NEW_PRIVS = 38  # include/uapi/linux/prctl.h
_SET_MODE_FILTER, _FLAG_NEW_LISTENER = 1, 1 << 3  # include/uapi/linux/seccomp.h
_CONTINUE = 1 << 0  # SECCOMP_USER_NOTIF_FLAG_CONTINUE
_RET_USER_NOTIF, _RET_ALLOW = 0x7FC00000, 0x7FFF0000
_NOTIF = struct.Struct("=QIIiIQ6Q")  # struct seccomp_notif
_RESPONSE = struct.Struct("=QqiI")  # struct seccomp_notif_resp
_ADDFD = struct.Struct("=QIIII")  # struct seccomp_notif_addfd
_IOCTL_RECV = 3 << 30 | _NOTIF.size << 16 | ord("!") << 8 | 0
_IOCTL_SEND = 3 << 30 | _RESPONSE.size << 16 | ord("!") << 8 | 1
_IOCTL_ADDFD = 1 << 30 | _ADDFD.size << 16 | ord("!") << 8 | 3

# enum bpf_cmd and union bpf_attr, include/uapi/linux/bpf.h
_MAP_CREATE, _PROG_LOAD, _OBJ_GET, _BTF_LOAD = 0, 5, 7, 18
_ATTR_BYTES = 160


@dataclass(frozen=True)
class CreatedMap:
    """The shape of a map as requested; sizes in bytes."""

    type: int
    key_size: int
    value_size: int
    max_entries: int
    flags: int
    inner_fd: int
    key_type: int
    value_type: int


@dataclass(frozen=True)
class BtfBlob:
    """Type information as requested."""

    data: bytes


@dataclass(frozen=True)
class LoadedProgram:
    """A program as requested: instructions, and what ties them to types and source lines."""

    instructions: bytes
    btf_fd: int
    func_info_rec_size: int
    func_info: bytes
    line_info_rec_size: int
    line_info: bytes


@dataclass
class Recorder:
    """Watches the thread that calls ``install``; ``given`` maps each descriptor handed out to what
    it stands for.
    """

    given: dict[int, CreatedMap | BtfBlob | LoadedProgram] = field(default_factory=dict)
    refused: list[int] = field(default_factory=list)
    bpf: int = field(default=0, init=False)

    def install(self) -> None:
        """Puts the calling thread, for the rest of its life, under the recorder. Raises OSError."""
        try:
            seccomp, self.bpf, openat = _SYSCALLS[platform.machine()]
        except KeyError:
            text = f"system call numbers of {platform.machine()} unknown"
            raise OSError(errno.ENOSYS, text) from None
        listener = _install_filter(seccomp, self.bpf, openat)
        threading.Thread(target=self._answer, args=(listener,), daemon=True).start()

    def forget(self) -> None:
        """Starts a new record."""
        self.given.clear()
        self.refused.clear()

    @property
    def wanted_pinned(self) -> bool:
        """Whether an object in the BPF file system was asked for."""
        return _OBJ_GET in self.refused

    def _answer(self, listener: int) -> None:
        while True:
            buffer = bytearray(_NOTIF.size)
            try:
                fcntl.ioctl(listener, _IOCTL_RECV, buffer)
            except OSError as error:
                if error.errno in (errno.EINTR, errno.ENOENT):
                    continue
                return
            cookie, _, _, _, _, _, *arguments = _NOTIF.unpack(buffer)
            call = int.from_bytes(buffer[16:20], sys.byteorder)  # seccomp_data.nr
            answer = self._answer_bpf if call == self.bpf else _answer_openat
            response = _RESPONSE.pack(cookie, *answer(listener, cookie, arguments))
            # The waiting call may have been interrupted: then there is nobody to answer.
            with contextlib.suppress(FileNotFoundError):
                fcntl.ioctl(listener, _IOCTL_SEND, bytearray(response))

    def _answer_bpf(self, listener: int, cookie: int, arguments: Sequence[int]) -> tuple[int, int, int]:
        command, pointer, size = arguments[:3]
        entry = _read(command, ctypes.string_at(pointer, size).ljust(_ATTR_BYTES, b"\0"))
        if entry is None:
            self.refused.append(command)
            return -1, -errno.EPERM, 0
        value, error = _hand_over(listener, cookie, b"")
        self.given[value] = entry
        return value, error, 0


def _answer_openat(listener: int, cookie: int, arguments: Sequence[int]) -> tuple[int, int, int]:
    if ctypes.string_at(arguments[1]) != _KALLSYMS:
        return 0, 0, _CONTINUE
    lines = [f"ffffffff8100{n:04x} T {name}\n" for n, name in enumerate(_SYMBOLS, 1)]
    return (*_hand_over(listener, cookie, "".join(lines).encode()), 0)


def _hand_over(listener: int, cookie: int, content: bytes) -> tuple[int, int]:
    """Gives the waiting call a memory file: its descriptor there and 0, or -1 and -errno."""
    stand_in = os.memfd_create("xdp-lab")
    try:
        os.pwrite(stand_in, content, 0)
        request = bytearray(_ADDFD.pack(cookie, 0, stand_in, 0, os.O_CLOEXEC))
        return fcntl.ioctl(listener, _IOCTL_ADDFD, request), 0
    except OSError as failure:
        return -1, -(failure.errno or errno.EIO)
    finally:
        os.close(stand_in)


def _read(command: int, attr: bytes) -> CreatedMap | BtfBlob | LoadedProgram | None:
    """What a request asks to make, copied out of the caller's memory; None for other commands."""
    if command == _MAP_CREATE:
        kind, key, value, entries, flags, inner = struct.unpack_from("=6I", attr)
        key_type, value_type = struct.unpack_from("=2I", attr, 52)
        return CreatedMap(kind, key, value, entries, flags, inner, key_type, value_type)
    if command == _BTF_LOAD:
        pointer, _, size = struct.unpack_from("=QQI", attr)
        return BtfBlob(ctypes.string_at(pointer, size))
    if command == _PROG_LOAD:
        count, instructions = struct.unpack_from("=IQ", attr, 4)
        btf_fd, func_rec = struct.unpack_from("=2I", attr, 72)
        func_info, func_count, line_rec, line_info, line_count = struct.unpack_from("=QIIQI", attr, 80)
        return LoadedProgram(
            ctypes.string_at(instructions, count * 8),
            btf_fd,
            func_rec,
            ctypes.string_at(func_info, func_count * func_rec) if func_info else b"",
            line_rec,
            ctypes.string_at(line_info, line_count * line_rec) if line_info else b"",
        )
    return None


def _install_filter(seccomp: int, bpf: int, openat: int) -> int:
    """Filters the calling thread; the descriptor on which its held calls arrive. Raises OSError."""

    class Filter(ctypes.Structure):
        _fields_ = (
            ("code", ctypes.c_ushort),
            ("jt", ctypes.c_ubyte),
            ("jf", ctypes.c_ubyte),
            ("k", ctypes.c_uint),
        )

    class Program(ctypes.Structure):
        _fields_ = (("len", ctypes.c_ushort), ("filter", ctypes.POINTER(Filter)))

    # BCC reads kallsyms with fopen(…, "r"), so with no flags at all; clang opens every file with
    # O_CLOEXEC.
    flags = 16 + 2 * 8 + (0 if sys.byteorder == "little" else 4)  # low half of seccomp_data.args[2]
    rules = (Filter * 7)(
        Filter(0x20, 0, 0, 0),  # load seccomp_data.nr
        Filter(0x15, 3, 0, bpf),  # bpf: to USER_NOTIF
        Filter(0x15, 0, 3, openat),  # not openat: to ALLOW
        Filter(0x20, 0, 0, flags),
        Filter(0x15, 0, 1, os.O_RDONLY),
        Filter(0x06, 0, 0, _RET_USER_NOTIF),
        Filter(0x06, 0, 0, _RET_ALLOW),
    )
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    program = Program(len(rules), rules)
    listener = libc.syscall(seccomp, _SET_MODE_FILTER, _FLAG_NEW_LISTENER, ctypes.byref(program))
    if listener < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), "seccomp")
    return int(listener)
