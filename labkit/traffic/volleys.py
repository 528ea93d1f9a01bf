"""Many short bursts of the in-kernel generator, made ready once: for measuring by turns, a millisecond each."""

from __future__ import annotations

import os
import time

from labkit.errors import TrafficError
from labkit.interface import Interface
from labkit.traffic.checks import check_whole
from labkit.traffic.generator import Generator
from labkit.traffic.lifetime import close_with

__all__ = ["Volleys"]

_MOST = 1 << 16  # packets: other readers of counters wait while a volley is under way


class Volleys:
    """``frame`` out of ``interface``, from ``cpu``: ``send(packets)``, as often as one likes, until ``close()``.

    A generator takes tens of milliseconds to load and to let go; a volley has that behind it. ``metadata`` goes before each
    frame. ``prepare=False`` leaves the receiver as it is, as with ``generate``. Raises TrafficError.
    """

    def __init__(
        self, interface: Interface, frame: bytes, *, cpu: int, metadata: bytes = b"", prepare: bool = True
    ) -> None:
        self._source = Generator(interface, frame, 1, metadata=metadata, prepare=prepare)
        self._cpu = cpu
        self.closed = False
        self._source.make_ready()
        close_with(interface.host.lab, self)

    def send(self, packets: int) -> float:
        """Send so many frames; how many seconds it took until the receiver's driver had had them all."""
        check_whole("packets", packets, 1, _MOST, "to send a volley")
        return self._source.interface.run(self._send, packets)

    def _send(self, packets: int) -> float:
        """On the host's thread, which goes back to where it may run afterwards."""
        interface, before = self._source.interface, os.sched_getaffinity(0)
        os.sched_setaffinity(0, {self._cpu})
        try:
            with interface.host.lab.traffic.chunk():
                began = time.perf_counter()
                _, number = self._source.burst(packets)
                took = time.perf_counter() - began
        finally:
            os.sched_setaffinity(0, before)
        if number:
            raise TrafficError(
                f"No frame of a volley left {interface.where}.",
                tried=f"to send {packets:,} frames of {len(self._source.frame)} bytes",
                on=interface.where,
                errno=number,
                remedy="labkit doctor tells whether this kernel has live frames in BPF_PROG_TEST_RUN",
            )
        return took

    def close(self) -> None:
        """Let go of it. Safe to call again."""
        if not self.closed:
            self.closed = True
            self._source.release()

    def __enter__(self) -> Volleys:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
