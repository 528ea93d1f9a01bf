"""Watches: a raw tracepoint program of a lesson, running wherever in the kernel its tracepoint fires."""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping
from typing import Protocol

from labkit.errors import AttachError, FeatureError, LabError, PrivilegeError, kernel_word
from labkit.kernel import bpf
from labkit.kernel.btf import kernel_offsets
from labkit.kernel.gate import privilege_remedy
from labkit.program.map import Map

__all__ = ["Watch", "open_watch"]

# The fields of struct offsets in bpf/lab/device.h, each a path in the kernel's type information.
_OFFSETS = {
    "dev_net": ("net_device", "nd_net", "net"),
    "dev_ifindex": ("net_device", "ifindex"),
    "net_inum": ("net", "ns", "inum"),
}


class Watching(Protocol):
    """What a watch needs of a program."""

    @property
    def name(self) -> str: ...
    @property
    def fd(self) -> int: ...
    @property
    def maps(self) -> Mapping[str, Map]: ...


class Watch:
    """A program at a tracepoint. Tracepoints are the whole machine's: the program says itself what it looks at."""

    def __init__(self, program: str, tracepoint: str, fd: int) -> None:
        self.program = program
        self.tracepoint = tracepoint
        self._fd: int | None = fd

    @property
    def closed(self) -> bool:
        """Whether the program was taken off."""
        return self._fd is None

    def close(self) -> None:
        """Take the program off; it may finish a run that has begun. Safe to call again."""
        fd, self._fd = self._fd, None
        if fd is not None:
            os.close(fd)

    def __enter__(self) -> Watch:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<{self.program} at tracepoint {self.tracepoint}{', closed' if self.closed else ''}>"


def open_watch(program: Watching, tracepoint: str) -> Watch:
    """Attach ``program`` to ``tracepoint``; a map ``offsets`` is told first where the kernel has the fields it names.

    Raises FeatureError where there is no such tracepoint, AttachError where the program reads arguments beyond it.
    """
    if "offsets" in program.maps:
        program.maps["offsets"][0] = kernel_offsets(_OFFSETS)
    try:
        return Watch(program.name, tracepoint, bpf.raw_tracepoint_open(tracepoint, program.fd))
    except OSError as error:
        raise _not_watched(program.name, tracepoint, error) from error


def _not_watched(program: str, tracepoint: str, error: OSError) -> LabError:
    number = error.errno or 0
    kind: type[LabError] = AttachError
    message = f"{program} could not be attached: {kernel_word(number)}."
    remedy = "load it with type=ProgType.RAW_TRACEPOINT; arguments beyond the tracepoint's own can't be read"
    if number == errno.ENOENT:
        kind, message = FeatureError, f"This kernel has no tracepoint {tracepoint}."
        remedy = "take another; labkit doctor tells which the lab needs"
    elif number == errno.EPERM:
        kind, message = PrivilegeError, "This process may not watch tracepoints."
        remedy = privilege_remedy()
    return kind(message, tried=f"to watch {tracepoint}", on=program, errno=number, remedy=remedy)
