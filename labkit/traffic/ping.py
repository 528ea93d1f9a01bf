"""Echo requests of a host, and the replies that came back."""

from __future__ import annotations

import select
import socket
import struct
import time
from collections import Counter
from dataclasses import dataclass
from statistics import median

from labkit.host import Host
from labkit.interface import Interface
from labkit.traffic.answers import enable_errors, forget_answers, send_once
from labkit.traffic.burst import bound_waiting
from labkit.traffic.checks import check_number, check_whole
from labkit.traffic.failures import failure_name
from labkit.traffic.report import TrafficReport
from labkit.traffic.way import Way, no_way, way

__all__ = ["PingReport", "ping"]

_TRIED = "to ping"
_HEADERS = 14 + 20 + 8  # bytes: Ethernet, IPv4 (RFC 791), ICMP echo (RFC 792)
_ECHO_REPLY, _ECHO_REQUEST = 0, 8
_MOST = 60_000  # sequence numbers have 16 bits


@dataclass(frozen=True)
class PingReport(TrafficReport):
    """``received`` counts the requests that were answered; ``rtt_s`` has each answer's round trip in seconds."""

    rtt_s: tuple[float, ...] = ()

    def __str__(self) -> str:
        text = super().__str__()
        return text + (f", round trip {median(self.rtt_s) * 1e6:.0f} µs" if self.rtt_s else "")

    __repr__ = __str__


def ping(
    source: Host | Interface,
    destination: Host | Interface,
    count: int = 3,
    *,
    size: int = 98,
    interval_s: float = 0.005,
    timeout_s: float = 1.0,
) -> PingReport:
    """Send ``count`` echo requests, ``interval_s`` apart, and wait up to ``timeout_s`` for the last replies.

    ``size`` is that of the frame in bytes; what doesn't fit the MTU goes in fragments, as any
    ping's. Lost requests are no error: ``received`` is less than ``sent``. Raises TrafficError.
    """
    check_whole("count", count, 1, _MOST, _TRIED)
    check_whole("size", size, _HEADERS, 14 + 65535, _TRIED)
    check_number("interval_s", interval_s, _TRIED)
    check_number("timeout_s", timeout_s, _TRIED)
    taken = way(source, destination, _TRIED)
    try:
        echo = _echo_socket(taken)
    except OSError as error:
        if not taken.out.up:
            name = failure_name(taken.out, error.errno or 0)
            return PingReport("ping", taken.out.where, 0, count, 0.0, size, {name: count}, 0)
        raise no_way(taken, error, _TRIED) from error
    with echo:
        return _Exchange(taken, echo, count, size).run(interval_s, timeout_s)


class _Exchange:
    def __init__(self, taken: Way, echo: socket.socket, count: int, size: int) -> None:
        self._way, self._socket, self._count, self._size = taken, echo, count, size
        self._sent: dict[int, float] = {}  # sequence number: when
        self._round_trips: dict[int, float] = {}
        self._failures: Counter[str] = Counter()

    def run(self, interval_s: float, timeout_s: float) -> PingReport:
        began = time.perf_counter()
        for sequence in range(self._count):
            self._request(sequence)
            self._listen(began + (sequence + 1) * interval_s, until_all=False)
        self._listen(time.perf_counter() + timeout_s, until_all=True)
        return PingReport(
            "ping",
            self._way.out.where,
            len(self._sent),
            self._failures.total(),
            time.perf_counter() - began,
            self._size,
            dict(self._failures),
            len(self._round_trips),
            tuple(self._round_trips.values()),
        )

    def _request(self, sequence: int) -> None:
        head = struct.pack("!BBHHH", _ECHO_REQUEST, 0, 0, 0, sequence)
        now = time.perf_counter()
        try:
            send_once(self._socket, head + bytes(self._size - _HEADERS))
        except OSError as error:
            self._failures[failure_name(self._way.out, error.errno or 0)] += 1
        else:
            self._sent[sequence] = now

    def _listen(self, until: float, *, until_all: bool) -> None:
        """Note replies until the given time; with ``until_all`` no longer than every request is answered."""
        ready = select.poll()
        ready.register(self._socket, select.POLLIN)
        while (left := until - time.perf_counter()) > 0:
            if until_all and len(self._round_trips) == len(self._sent):
                return
            if ready.poll(left * 1000 + 1):
                try:
                    self._note(self._socket.recv(128, socket.MSG_DONTWAIT))
                except OSError:  # an ICMP message said that a request did not arrive
                    forget_answers(self._socket)

    def _note(self, packet: bytes) -> None:
        kind, sequence = struct.unpack_from("!B5xH", packet)
        if kind == _ECHO_REPLY and sequence in self._sent:
            self._round_trips.setdefault(sequence, time.perf_counter() - self._sent[sequence])


def _echo_socket(taken: Way) -> socket.socket:
    """A ping socket: unlike a raw one it takes its replies out of the stack, which then misses no socket for them.

    The kernel numbers it (the identifier), writes the checksum, and hands it the replies to its own requests only:
    net/ipv4/ping.c. The lab's hosts let every group have one (net.ipv4.ping_group_range).
    """
    echo = taken.out.host.socket(socket.AF_INET, socket.SOCK_DGRAM, socket.IPPROTO_ICMP)
    try:
        bound_waiting(echo)
        enable_errors(echo)
        echo.bind((taken.out.ip, 0))
        echo.connect((taken.target.ip, 0))
    except BaseException:
        echo.close()
        raise
    return echo
