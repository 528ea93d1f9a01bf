"""Which processes hold AF_XDP sockets, as far as /proc shows them to this one.

sock_diag(7) would tell which queue a socket is bound to, where the kernel has CONFIG_XDP_SOCKETS_DIAG, which many have not.
A mapping of a ring is recognised by its offset, which no other kind of socket has.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable
from pathlib import Path

from labkit.uapi import XskRing

__all__ = ["processes_with", "processes_with_rings"]

_RING = re.compile(rf" (?:{XskRing.FILL:x}|{XskRing.COMPLETION:x}) \S+ \d+ +socket:\[\d+\]")


def processes_with(inode: int) -> list[tuple[int, str]]:
    """Processes that have the socket with this inode open: ids and names."""
    wanted = f"socket:[{inode}]"

    def holds(process: Path) -> bool:
        with os.scandir(process / "fd") as descriptors:
            return any(_target(each.path) == wanted for each in descriptors)

    return _processes(holds)


def processes_with_rings() -> list[tuple[int, str]]:
    """Processes that have rings of any AF_XDP socket mapped: ids and names."""
    return _processes(lambda process: bool(_RING.search((process / "maps").read_text())))


def _processes(chosen: Callable[[Path], bool]) -> list[tuple[int, str]]:
    found = []
    for number in filter(str.isdigit, os.listdir("/proc")):
        process = Path("/proc", number)
        with contextlib.suppress(OSError):  # another user's, or gone meanwhile
            if chosen(process):
                found.append((int(number), (process / "comm").read_text().strip()))
    return found


def _target(link: str) -> str:
    try:
        return os.readlink(link)
    except OSError:  # closed meanwhile
        return ""
