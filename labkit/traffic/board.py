"""Who sends what: totals by interface, and the gate that lets counters be read while generators hold still."""

from __future__ import annotations

import contextlib
import threading
from collections import Counter
from collections.abc import Iterator
from typing import Any, Protocol

__all__ = ["Sink", "Stoppable", "TrafficBoard"]


class Stoppable(Protocol):
    """Anything that sends in the background."""

    def stop(self) -> object: ...


class Sink(Protocol):
    """A receiving socket the lab knows, so that packets waiting in it are in the ledger."""

    host: Any
    read: bool  # whether a thread takes what arrives

    @property
    def where(self) -> str: ...
    def queued(self) -> int: ...


class TrafficBoard:
    """The lab's book of traffic.

    Generators send in short chunks. A reader of counters asks them to hold still: no new chunk starts, and the reader
    goes on when those under way have ended. So a ledger is exact at full speed, at the cost of a pause of some hundred
    microseconds a reading.
    """

    def __init__(self) -> None:
        self._state = threading.Condition()
        self._chunks = 0  # bursts under way
        self._waiting = 0  # bursts that wait for a reader
        self._readers = 0
        self._generated: Counter[str] = Counter()
        self._handed: Counter[str] = Counter()
        self._discarded: Counter[str] = Counter()
        self._running: list[Stoppable] = []

    @contextlib.contextmanager
    def chunk(self) -> Iterator[None]:
        """Around one burst of a generator; waits while counters are read."""
        with self._state:
            self._waiting += 1
            self._state.wait_for(lambda: self._readers == 0)
            self._waiting -= 1
            self._chunks += 1
            self._state.notify_all()
        try:
            yield
        finally:
            with self._state:
                self._chunks -= 1
                self._state.notify_all()

    @contextlib.contextmanager
    def hold_still(self) -> Iterator[None]:
        """Around a reading of counters. Bursts that wait already go first: a busy reader can't stop the traffic."""
        with self._state:
            self._state.wait_for(lambda: self._waiting == 0)
            self._readers += 1
            self._state.wait_for(lambda: self._chunks == 0)
        try:
            yield
        finally:
            with self._state:
                self._readers -= 1
                self._state.notify_all()

    def generated(self, where: str, frames: int) -> None:
        """Note ``frames`` that a generator made for the interface ``where``; call it inside ``chunk()``."""
        with self._state:
            self._generated[where] += frames

    def totals(self) -> dict[str, int]:
        """Frames made by generators since the lab came up, by interface (``client eth0``)."""
        with self._state:
            return dict(self._generated)

    def handed(self, where: str, frames: int) -> None:
        """Note ``frames`` that the interface ``where`` had from a packet socket: IP's counters don't know them.

        Call it inside ``chunk()``.
        """
        with self._state:
            self._handed[where] += frames

    def hands(self) -> dict[str, int]:
        """Frames of packet sockets since the lab came up, by interface."""
        with self._state:
            return dict(self._handed)

    def discard(self, where: str, packets: int) -> None:
        """Note ``packets`` that waited in the socket ``where`` when it was closed."""
        with self._state:
            self._discarded[where] += packets

    def discards(self) -> dict[str, int]:
        """Packets thrown away with their sockets since the lab came up, by socket."""
        with self._state:
            return dict(self._discarded)

    def started(self, source: Stoppable) -> None:
        """Note a background source, so that ``stop`` ends it."""
        with self._state:
            self._running.append(source)

    def ended(self, source: Stoppable) -> None:
        """Forget a background source."""
        with self._state:
            if source in self._running:
                self._running.remove(source)

    @property
    def running(self) -> list[Stoppable]:
        """Background sources that have not been stopped."""
        with self._state:
            return list(self._running)

    def stop(self) -> None:
        """Stop every background source and wait for it."""
        for source in self.running:
            source.stop()
