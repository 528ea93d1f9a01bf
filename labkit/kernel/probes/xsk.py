"""Probe of AF_XDP: the smallest socket that binds, and its end. Numbers of include/uapi/linux/if_xdp.h."""

from __future__ import annotations

import ctypes
import mmap
import os
import socket
import struct

__all__ = ["bind_socket"]

_AF_XDP, _SOL_XDP = 44, 283  # include/linux/socket.h
_RX_RING, _UMEM_REG, _FILL_RING, _COMPLETION_RING = 2, 4, 5, 6
_COPY = 1 << 1  # XDP_COPY
_FRAMES, _FRAME_BYTES = 16, 2048
_libc = ctypes.CDLL(None, use_errno=True)


def bind_socket(ifindex: int) -> str:
    """Bind a socket with 16 frames of memory to queue 0 of a device, in copy mode, and close it. Raises OSError."""
    memory = mmap.mmap(-1, _FRAMES * _FRAME_BYTES)
    address = ctypes.addressof(anchor := ctypes.c_char.from_buffer(memory))
    try:
        with socket.socket(_AF_XDP, socket.SOCK_RAW) as xsk:
            # struct xdp_umem_reg, 32 bytes
            area = struct.pack("=QQIIII", address, len(memory), _FRAME_BYTES, 0, 0, 0)
            xsk.setsockopt(_SOL_XDP, _UMEM_REG, area)
            for ring in (_FILL_RING, _COMPLETION_RING, _RX_RING):
                xsk.setsockopt(_SOL_XDP, ring, _FRAMES)
            # struct sockaddr_xdp, which Python's bind doesn't know: family, flags, ifindex, queue, shared descriptor
            where = struct.pack("=HHIII", _AF_XDP, _COPY, ifindex, 0, 0)
            if _libc.bind(xsk.fileno(), where, len(where)):
                number = ctypes.get_errno()
                raise OSError(number, f"bind: {os.strerror(number)}")
    finally:
        del anchor  # the memory can't be closed while it is pointed at
        memory.close()
    return "a socket binds to a veth in copy mode"
