"""Programs of traffic control (TC): a classifier runs at an interface for as long as a context lasts."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from typing import Any, Protocol

from labkit.errors import FeatureError
from labkit.kernel import bpf
from labkit.program.program import Program
from labkit.uapi import AttachType

__all__ = ["at_tc"]

_BEFORE = 1 << 3  # BPF_F_BEFORE, include/uapi/linux/bpf.h: the first of the programs there
_WORDS = {AttachType.TCX_INGRESS: "ingress", AttachType.TCX_EGRESS: "egress"}


class _Place(Protocol):
    """What is needed of an interface: its name for people, its index, and a way into its namespace."""

    @property
    def where(self) -> str: ...
    @property
    def ifindex(self) -> int: ...
    def run(self, job: Callable[..., Any], /, *arguments: Any) -> Any: ...


@contextlib.contextmanager
def at_tc(
    program: Program, interface: _Place, direction: AttachType = AttachType.TCX_INGRESS, *, first: bool = False
) -> Iterator[None]:
    """While it lasts, ``program``, loaded for that direction, runs at the interface's TC: behind the others, or ``first``.

    Raises FeatureError.
    """
    try:
        link = interface.run(bpf.link_create, program.fd, interface.ifindex, direction, _BEFORE if first else 0)
    except OSError as error:
        raise FeatureError(
            f"The kernel would not attach the program at TC {_WORDS[direction]}.",
            tried=f"to attach {program.name} by a TCX link",
            on=interface.where,
            errno=error.errno,
            remedy="TCX needs Linux 6.6 or later: labkit doctor shows whether it is there",
        ) from error
    try:
        yield
    finally:
        bpf.link_detach(link)
        os.close(link)
