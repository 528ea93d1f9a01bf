"""One packet after another: in bursts that readers of counters wait for, at a rate, within a time."""

from __future__ import annotations

import errno
import socket
import struct
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from itertools import islice

from labkit.interface import Interface
from labkit.traffic.checks import check_number
from labkit.traffic.failures import failure_name
from labkit.traffic.report import TrafficReport

__all__ = ["Sending", "bound_waiting", "send_all"]

_BURST = 256  # packets; about a millisecond's work of an AF_PACKET socket
_TICK_S = 0.005  # how far apart bursts are where there is a rate
_LONGEST_WAIT = struct.pack("=qq", 1, 0)  # struct timeval, a second


def send_all(
    out: Interface,
    send: Callable[[bytes], object],
    packets: Iterable[bytes],
    kind: str,
    *,
    rate_pps: float | None,
    timeout_s: float,
    frame_bytes: int = 0,
    past_ip: bool = False,
) -> TrafficReport:
    """Give each of ``packets`` to ``send`` once, which raises OSError for one that the kernel refuses.

    After ``timeout_s``, or when the lab stops its traffic, the rest is reported as not tried. ``past_ip``: they leave
    by a packet socket, and IP doesn't count them.
    Raises TrafficError for a rate or a time that is none.
    """
    tried = "to send packets"
    if rate_pps is not None:
        check_number("rate_pps", rate_pps, tried)
    check_number("timeout_s", timeout_s, tried)
    sending = Sending(out, send, rate_pps, past_ip)
    board, before = out.host.lab.traffic, out.statistics()["tx_dropped"]
    board.started(sending)
    try:
        seconds = sending.work(packets, timeout_s)
    finally:
        board.ended(sending)
        sending.ended.set()
    sending.admit(out.statistics()["tx_dropped"] - before)
    failures = dict(sending.failures)
    failed = sum(failures.values())
    return TrafficReport(kind, out.where, sending.sent, failed, seconds, frame_bytes, failures)


class Sending:
    """Packets on their way out of an interface: ``sent``, ``failures`` by name, ``refused`` by errno, so far."""

    def __init__(
        self, out: Interface, send: Callable[[bytes], object], rate_pps: float | None, past_ip: bool = False
    ) -> None:
        self.sent = 0
        self.failures: Counter[str] = Counter()
        self.refused: Counter[int] = Counter()
        self.ended = threading.Event()
        self._out, self._send, self._rate_pps, self._past_ip = out, send, rate_pps, past_ip
        self._stop = threading.Event()

    def stop(self) -> None:
        """Stop after the burst under way."""
        self._stop.set()
        self.ended.wait(5)

    def work(self, packets: Iterable[bytes], timeout_s: float) -> float:
        """Send until all are tried, the time is up or ``stop`` is called; the seconds it took."""
        rate = self._rate_pps
        size = _BURST if rate is None else max(1, min(_BURST, int(rate * _TICK_S)))
        source, tried, began = iter(packets), 0, time.perf_counter()
        while burst := list(islice(source, size)):
            board = self._out.host.lab.traffic
            with board.chunk():
                refused = self._try(burst)
                if self._past_ip:  # a full ring's are the interface's, too
                    board.handed(self._out.where, len(burst) - refused.total() + refused[errno.ENOBUFS])
            tried += len(burst)
            self.sent += len(burst) - refused.total()
            self.refused += refused
            for number, count in refused.items():
                self.failures[failure_name(self._out, number)] += count
            left_s = began + timeout_s - time.perf_counter()
            pause_s = 0.0 if rate is None else began + tried / rate - time.perf_counter()
            if self._stop.wait(max(0.0, min(pause_s, left_s))):
                self._leave(source, "the lab stopped its traffic")
            elif pause_s > left_s or left_s <= 0:
                self._leave(source, f"the time limit of {timeout_s:g} s was reached")
        return time.perf_counter() - began

    def admit(self, dropped: int) -> None:
        """Take back what the kernel took without a word but dropped: ``dropped`` frames by the interface's count.

        Soon after a link has lost its carrier noop_enqueue drops its frames and calls that "congestion notified",
        which is no error to a socket (net/sched/sch_generic.c).
        """
        if self._out.up and self._out.peer.up:
            return
        silent = min(self.sent, max(0, dropped - self.refused[errno.ENOBUFS]))
        if silent:
            self.sent -= silent
            self.failures[failure_name(self._out, errno.ENOBUFS)] += silent

    def _try(self, burst: list[bytes]) -> Counter[int]:
        """The errnos of the packets that were refused."""
        send, refused = self._send, Counter[int]()
        for packet in burst:
            try:
                send(packet)
            except OSError as error:
                refused[error.errno or errno.EIO] += 1
        return refused

    def _leave(self, source: Iterable[bytes], why: str) -> None:
        left = sum(1 for _ in source)
        if left:
            self.failures[f"not tried: {why}"] += left


def bound_waiting(out: socket.socket) -> None:
    """Have a send that finds no room in the socket's buffer fail after a second, and not wait for ever."""
    out.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, _LONGEST_WAIT)
