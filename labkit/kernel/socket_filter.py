"""A classic BPF filter of one instruction at a socket. Takes no privilege."""

from __future__ import annotations

import ctypes
import socket
import struct

__all__ = ["keep_of_each"]

_SO_ATTACH_FILTER = 26  # include/uapi/asm-generic/socket.h
_BPF_RET = 0x06  # BPF_RET | BPF_K, include/uapi/linux/filter.h


def keep_of_each(taken: socket.socket, size: int) -> None:
    """Have the socket keep ``size`` bytes of each packet that comes, at the most; with 0 it refuses every one."""
    keep = struct.pack("=HBBI", _BPF_RET, 0, 0, size)  # struct sock_filter
    code = ctypes.create_string_buffer(keep, len(keep))
    program = struct.pack("@HP", 1, ctypes.addressof(code))  # struct sock_fprog
    taken.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, program)
