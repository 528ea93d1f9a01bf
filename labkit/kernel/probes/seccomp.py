"""Probe of seccomp user notification, by which compiling C needs no privilege; seccomp_unotify(2)."""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
import threading

__all__ = ["user_notification"]

# arch/x86/entry/syscalls/syscall_64.tbl; include/uapi/asm-generic/unistd.h
_SECCOMP = {"x86_64": 317, "aarch64": 277, "riscv64": 277, "loongarch64": 277}
_PR_SET_NO_NEW_PRIVS = 38  # include/uapi/linux/prctl.h
_SET_MODE_FILTER, _NEW_LISTENER, _RET_ALLOW = 1, 1 << 3, 0x7FFF0000  # include/uapi/linux/seccomp.h


def user_notification() -> str:
    """A thread gets a filter with a listener, and ends. Raises OSError, EBUSY where another monitor listens already."""
    refused: list[int] = []
    thread = threading.Thread(target=lambda: refused.append(_install()), name="lab-probe", daemon=True)
    thread.start()  # a filter can't be taken off again: it ends with its thread
    thread.join()
    number = refused[0] if refused else errno.EIO
    if number:
        raise OSError(number, f"seccomp: {os.strerror(number)}")
    return "a listener can be had"


def _install() -> int:
    """Put a filter that allows everything on the calling thread; 0 or the errno."""
    if platform.machine() not in _SECCOMP:
        return errno.ENOSYS
    libc = ctypes.CDLL(None, use_errno=True)
    code = ctypes.create_string_buffer(struct.pack("=HBBI", 0x06, 0, 0, _RET_ALLOW))  # struct sock_filter: return
    program = struct.pack("@HP", 1, ctypes.addressof(code))  # struct sock_fprog
    libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    number = _SECCOMP[platform.machine()]
    listener = libc.syscall(number, _SET_MODE_FILTER, _NEW_LISTENER, program)
    if listener < 0:
        return ctypes.get_errno()
    os.close(listener)
    return 0
