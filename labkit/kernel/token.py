"""The BPF token: how a process in a user namespace may do what needs privilege over BPF elsewhere (Linux 6.9 or later).

Whoever mounted this namespace's bpffs chose what its tokens allow: Documentation/bpf and kernel/bpf/token.c. Outside
a sandbox there is no such mount, and no token is asked for.
"""

from __future__ import annotations

import ctypes
import os
import platform
import struct
import threading

from labkit.uapi import BpfCmd

__all__ = ["FLAG", "privilege_remedy", "system_call", "token"]

FLAG = 1 << 16  # BPF_F_TOKEN_FD, include/uapi/linux/bpf.h: the call names a token
_BPFFS = "/sys/fs/bpf"
# __NR_bpf: arch/x86/entry/syscalls/syscall_64.tbl; include/uapi/asm-generic/unistd.h for the newer ones.
_SYSCALL = {"x86_64": 321, "aarch64": 280, "riscv64": 280, "loongarch64": 280}.get(platform.machine(), 280)
_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long
_lock = threading.Lock()
_tokens: list[int | None] = []  # this process's only one, or None, once somebody has asked


def system_call(command: BpfCmd, attr: bytes | ctypes.Array[ctypes.c_char]) -> int:
    """bpf(2) itself. ``attr`` is written to by some commands: pass a ctypes buffer to read answers from."""
    buffer = attr if isinstance(attr, ctypes.Array) else ctypes.create_string_buffer(attr, len(attr))
    result = _libc.syscall(_SYSCALL, int(command), ctypes.byref(buffer), ctypes.c_uint(len(buffer)))
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"bpf {command.name}: {os.strerror(number)}")
    return int(result)


def token() -> int | None:
    """A descriptor of this process's token, made when first asked for and kept; None where there is none to be had."""
    with _lock:
        if not _tokens:
            _tokens.append(_make())
        return _tokens[0]


def _make() -> int | None:
    try:
        mount = os.open(_BPFFS, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        return system_call(BpfCmd.TOKEN_CREATE, struct.pack("=II", 0, mount))
    except OSError:  # the machine's own bpffs, or a kernel without tokens
        return None
    finally:
        os.close(mount)


def privilege_remedy() -> str:
    """What to do where the kernel said EPERM: it depends on whether this process has a token."""
    if token() is None:
        return "run it in a sandbox (./env/lab, or ./env/run labkit sandbox -- CMD), or as root"
    return "this sandbox's token doesn't cover it (labkit doctor tells what it covers): ask whoever started the sandbox"


os.register_at_fork(after_in_child=lambda: globals().update(_lock=threading.Lock()))
