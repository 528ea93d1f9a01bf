"""What can't be had of AF_XDP here, each really asked for: by whom it is refused, and in which words."""

from __future__ import annotations

import resource
from collections.abc import Callable

from labkit.errors import LabError, kernel_word
from labkit.interface import Interface
from labkit.lab import Lab
from labkit.lesson.page import Table
from labkit.topology import Topology
from labkit.xsk import Umem, XskSocket

__all__ = ["xsk_refusals"]

_FRAME = 2048


def xsk_refusals() -> Table:
    """A taken queue, zero-copy, too much memory and three wrong numbers, asked for in a lab "refused" of its own."""
    with Lab(Topology.pair(), name="refused") as lab:
        at = lab["server"]["eth0"]
        with XskSocket(at):
            rows = [_asked("a second socket at a queue, with memory of its own", lambda: XskSocket(at))]
        rows.append(_asked('mode="zero-copy" on a veth', lambda: XskSocket(at, mode="zero-copy")))
        limit = resource.getrlimit(resource.RLIMIT_MEMLOCK)[0]
        if limit != resource.RLIM_INFINITY:
            rows.append(_asked("a frame more than the memory-lock limit", lambda: _large(at, limit // _FRAME + 1)))
        rows += [
            _asked("queue 1 of an interface that has one", lambda: XskSocket(at, 1)),
            _asked("a ring of 100 entries", lambda: XskSocket(at, receive_ring=100)),
            _asked("frames of 3,000 bytes", lambda: Umem(frame_size=3000)),
        ]
        return Table(("asked for", "the kernel's word", "in words", "what helps"), tuple(rows))


def _large(at: Interface, frames: int) -> XskSocket:
    return XskSocket(at, umem=Umem(frames, _FRAME))


def _asked(what: str, ask: Callable[[], XskSocket | Umem]) -> tuple[object, ...]:
    try:
        ask().close()
    except LabError as error:
        word = "not asked" if error.errno is None else kernel_word(error.errno)
        return what, word, error.message, error.remedy
    return what, "granted", "This process may lock as much as it likes (CAP_IPC_LOCK).", None
