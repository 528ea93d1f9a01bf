"""Probes of what the kernel keeps for those with privilege over the whole machine: a sandbox has none of it."""

from __future__ import annotations

import os
import socket
from pathlib import Path

from labkit.kernel import bpf
from labkit.kernel.probes.objects import constant_program
from labkit.uapi import BpfCmd, ProgType

__all__ = ["event_files", "kernel_functions", "large_buffers", "object_ids"]

_SO_RCVBUFFORCE = 33  # include/uapi/asm-generic/socket.h
_TRACEFS = (Path("/sys/kernel/tracing"), Path("/sys/kernel/debug/tracing"))


def object_ids() -> str:
    """Programs, maps and links of the machine, by their ids."""
    for ident in bpf.object_ids(BpfCmd.PROG_GET_NEXT_ID):
        os.close(bpf.prog_fd_by_id(ident))
        break
    return "found by id"


def kernel_functions() -> str:
    """A program for probes on kernel functions loads."""
    os.close(constant_program(ProgType.KPROBE, 0))
    return "a program loads"


def event_files() -> str:
    """The kernel's list of trace events can be read."""
    error: OSError | None = None
    for folder in _TRACEFS:
        try:
            return f"{len(os.listdir(folder / 'events'))} groups of events"
        except OSError as refused:
            error = error or refused
    assert error is not None
    raise error


def large_buffers() -> str:
    """A socket's receive buffer may be larger than net.core.rmem_max."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
        taken.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, 1 << 20)
    return "of any size"
