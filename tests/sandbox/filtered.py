"""Runs a command on a kernel that refuses a system call: a seccomp filter answers in its place.

filtered.py NUMBER FLAGS ERRNO COMMAND…     FLAGS: only where the first argument has one of these (0: always)
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys

SET_SECCOMP, MODE_FILTER, ALLOW, ERRNO = 22, 2, 0x7FFF0000, 0x50000
LOAD, EQUAL, ANY_BIT, RETURN = 0x20, 0x15, 0x45, 0x06


def step(code: int, yes: int, no: int, value: int) -> bytes:
    """struct sock_filter."""
    return struct.pack("=HBBI", code, yes, no, value)


number, flags, errno = map(int, sys.argv[1:4])
refuse = step(RETURN, 0, 0, ERRNO | errno) + step(RETURN, 0, 0, ALLOW)
program = step(LOAD, 0, 0, 0)
program += step(EQUAL, 0, 3 if flags else 1, number)
if flags:
    program += step(LOAD, 0, 0, 16) + step(ANY_BIT, 0, 1, flags)
program += refuse
buffer = ctypes.create_string_buffer(program, len(program))
filter_ = ctypes.create_string_buffer(struct.pack("=HxxxxxxQ", len(program) // 8, ctypes.addressof(buffer)))
if ctypes.CDLL(None).prctl(SET_SECCOMP, MODE_FILTER, filter_, 0, 0):
    sys.exit("no filter")
os.execv(sys.argv[4], sys.argv[4:])
