"""The receive buffer of a socket: as large as asked for, where the kernel lets us."""

from __future__ import annotations

import socket

__all__ = ["set_receive_buffer"]

_SO_RCVBUFFORCE = 33  # include/uapi/asm-generic/socket.h


def set_receive_buffer(taken: socket.socket, size: int) -> None:
    """Ask for ``size`` bytes. In a sandbox net.core.rmem_max is the limit: past it takes privilege over the machine."""
    try:
        taken.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, size)
    except PermissionError:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, size)
