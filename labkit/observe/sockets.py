"""AF_XDP sockets of the lab: what each took, what waits in its rings, what found no place; kept when it is closed."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

from labkit.observe.sums import Sums

__all__ = ["SocketBook", "SocketCounters", "XskLike", "interface_of"]


@dataclass(frozen=True)
class SocketCounters(Sums):
    """Packets at AF_XDP sockets. Received: ``taken`` by the program, ``waiting`` in the receive ring, or still ``unread`` in it
    when the socket was closed; lost to ``ring_full``, ``no_buffer`` in the fill ring, ``too_long`` for a frame of the memory.
    To be sent: descriptors that were ``invalid``, what is ``unsent`` in the transmit ring, or was ``discarded`` from it.
    """

    taken: int = 0
    waiting: int = 0
    unread: int = 0
    ring_full: int = 0
    no_buffer: int = 0
    too_long: int = 0
    invalid: int = 0
    unsent: int = 0
    discarded: int = 0

    @property
    def arrived(self) -> int:
        """Packets that the kernel put into the receive ring."""
        return self.taken + self.waiting + self.unread

    @property
    def refused(self) -> int:
        """Packets that were redirected to a socket in vain."""
        return self.ring_full + self.no_buffer + self.too_long

    @property
    def never_sent(self) -> int:
        """What a program gave away to be sent, and no driver has seen."""
        return self.invalid + self.unsent + self.discarded

    def closed(self) -> SocketCounters:
        """The same at the socket's end: what waits is thrown away."""
        return replace(
            self, waiting=0, unread=self.unread + self.waiting, unsent=0, discarded=self.discarded + self.unsent
        )


def interface_of(where: str) -> str:
    """``server eth0`` for ``server eth0 queue 0``."""
    return where.rpartition(" queue ")[0]


class XskLike(Protocol):
    """What the book needs of a socket."""

    interface: Any
    queue: int

    @property
    def where(self) -> str: ...
    def counters(self) -> SocketCounters: ...


class SocketBook:
    """Every AF_XDP socket that the lab opened, by place (``server eth0 queue 0``); those after one another count together."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: list[XskLike] = []
        self._closed: dict[str, SocketCounters] = {}

    @property
    def known(self) -> bool:
        """Whether there was any."""
        return bool(self._open or self._closed)

    def open_at(self, where: str) -> bool:
        """Whether a socket is open there now."""
        with self._lock:
            return any(each.where == where for each in self._open)

    def opened(self, xsk: XskLike) -> None:
        """Note a new socket."""
        with self._lock:
            self._open.append(xsk)

    def closed(self, xsk: XskLike) -> None:
        """Note its end: call it when its counters stand still."""
        counters = xsk.counters()
        with self._lock:
            self._open.remove(xsk)
            self._closed[xsk.where] = self._closed.get(xsk.where, SocketCounters()) + counters

    def read(self) -> Mapping[str, SocketCounters]:
        """What each place counted so far."""
        with self._lock:
            found, still = dict(self._closed), list(self._open)
        for xsk in still:
            found[xsk.where] = found.get(xsk.where, SocketCounters()) + xsk.counters()
        return found
