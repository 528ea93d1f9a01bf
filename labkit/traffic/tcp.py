"""A TCP exchange between two hosts: bytes go there and come back."""

from __future__ import annotations

import contextlib
import errno
import select
import socket
import struct
import threading
import time
import zlib
from dataclasses import dataclass

from labkit.errors import TrafficError, kernel_word
from labkit.host import Host
from labkit.interface import Interface
from labkit.traffic.checks import check_number, check_port, check_whole
from labkit.traffic.failures import failure_name
from labkit.traffic.report import TrafficReport
from labkit.traffic.way import Way, way

__all__ = ["TcpReport", "tcp_transfer"]

_TRIED = "to exchange bytes over TCP"
_MOST_BYTES = 1 << 36
_CHUNK = bytes(range(256)) * 256  # 64 KiB that differ from one another
_TCP_INFO = 11  # include/uapi/linux/tcp.h, as are the offsets into struct tcp_info
_RETRANSMITTED, _SEGMENTS_OUT, _SEGMENTS_IN = 100, 136, 140


@dataclass(frozen=True)
class TcpReport(TrafficReport):
    """``sent`` and ``received`` count the client's segments, its handshake and farewell included.

    ``bytes_sent`` is what the client wrote, ``bytes_echoed`` what came back to it, ``intact`` whether
    that is the same; ``retransmitted`` counts segments.
    """

    bytes_sent: int = 0
    bytes_echoed: int = 0
    intact: bool = False
    retransmitted: int = 0

    def __str__(self) -> str:
        state = "intact" if self.intact else "not whole"
        return f"{super().__str__()}; {self.bytes_echoed:,} of {self.bytes_sent:,} bytes back, {state}"

    __repr__ = __str__


def tcp_transfer(
    client: Host | Interface,
    server: Host | Interface,
    nbytes: int = 1_000_000,
    *,
    port: int = 5001,
    timeout_s: float = 10.0,
) -> TcpReport:
    """Send ``nbytes`` from ``client`` to ``server``, which sends them back; connect and part as usual.

    Nothing raised where the network loses it: after ``timeout_s`` the report says how far it came,
    and ``failures`` why. Raises TrafficError.
    """
    check_whole("nbytes", nbytes, 1, _MOST_BYTES, _TRIED)
    check_port("port", port, _TRIED)
    check_number("timeout_s", timeout_s, _TRIED)
    taken = way(client, server, _TRIED)
    deadline = time.perf_counter() + timeout_s
    with _listener(taken, port) as listening, _client_socket(taken) as talking:
        echo = threading.Thread(
            target=_echo,
            args=(listening, deadline),
            name=f"lab-{taken.target.host.name}-echo-{port}",
            daemon=True,
        )
        echo.start()
        try:
            return _Exchange(taken, talking, port, nbytes, deadline).run()
        finally:
            with contextlib.suppress(OSError):
                listening.shutdown(socket.SHUT_RDWR)  # wakes the echo where nobody connected
            echo.join()


class _Exchange:
    """The client's side."""

    def __init__(self, taken: Way, talking: socket.socket, port: int, nbytes: int, deadline: float) -> None:
        self._way, self._socket, self._nbytes, self._deadline = taken, talking, nbytes, deadline
        self._port = port
        self._written = self._back = 0
        self._check_out = self._check_in = 0

    def run(self) -> TcpReport:
        began, failures = time.perf_counter(), {}
        try:
            self._connect()
            self._talk()
        except TimeoutError as error:
            failures = {str(error): 1}
        except OSError as error:
            failures = {failure_name(self._way.out, error.errno or 0): 1}
        seconds = time.perf_counter() - began
        info = self._socket.getsockopt(socket.IPPROTO_TCP, _TCP_INFO, 256).ljust(256, b"\0")
        out, back = struct.unpack_from("=II", info, _SEGMENTS_OUT)
        return TcpReport(
            "tcp",
            self._way.out.where,
            out,
            len(failures),
            seconds,
            failures=failures,
            received=back,
            bytes_sent=self._written,
            bytes_echoed=self._back,
            intact=self._back == self._nbytes and self._check_in == self._check_out,
            retransmitted=struct.unpack_from("=I", info, _RETRANSMITTED)[0],
        )

    def _connect(self) -> None:
        number = self._socket.connect_ex((self._way.target.ip, self._port))
        if number == errno.EINPROGRESS:
            self._await(select.POLLOUT, "no connection: nothing answered")
            number = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if number:
            raise OSError(number, kernel_word(number))

    def _talk(self) -> None:
        """Write and read until all came back and the server has said farewell."""
        while True:
            writing = self._written < self._nbytes
            wanted = select.POLLIN | (select.POLLOUT if writing else 0)
            found = self._await(wanted, "the exchange did not end in time")
            if writing and found & select.POLLOUT:
                self._write()
            if found & ~select.POLLOUT and not self._read_on():
                return

    def _write(self) -> None:
        start = self._written % len(_CHUNK)
        piece = _CHUNK[start : start + self._nbytes - self._written]
        took = self._socket.send(piece)
        self._check_out = zlib.crc32(piece[:took], self._check_out)
        self._written += took
        if self._written == self._nbytes:
            self._socket.shutdown(socket.SHUT_WR)

    def _read_on(self) -> bool:
        """Take what came; False when the server has closed."""
        piece = self._socket.recv(1 << 18)
        self._check_in = zlib.crc32(piece, self._check_in)
        self._back += len(piece)
        return bool(piece)

    def _await(self, events: int, otherwise: str) -> int:
        found = _ready(self._socket, events, self._deadline)
        if not found:
            raise TimeoutError(otherwise)
        return found


def _echo(listening: socket.socket, deadline: float) -> None:
    """The server's side: one connection, everything sent back, until the client has said farewell."""
    with contextlib.suppress(OSError):
        if not _ready(listening, select.POLLIN, deadline):
            return
        talking, _ = listening.accept()
        with talking:
            while piece := talking.recv(1 << 18) if _ready(talking, select.POLLIN, deadline) else b"":
                talking.settimeout(max(0.001, deadline - time.perf_counter()))
                talking.sendall(piece)


def _ready(watched: socket.socket, events: int, deadline: float) -> int:
    """The events that came before the deadline, 0 for none."""
    poller = select.poll()
    poller.register(watched, events)
    found = poller.poll(max(0.0, deadline - time.perf_counter()) * 1000)
    return found[0][1] if found else 0


def _listener(taken: Way, port: int) -> socket.socket:
    listening = taken.target.host.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((taken.target.ip, port))
        listening.listen(1)
    except OSError as error:
        listening.close()
        raise TrafficError(
            f"Port {port} of {taken.target.host.name} can't be opened.",
            tried=_TRIED,
            on=taken.target.where,
            errno=error.errno,
            remedy="take another port",
        ) from error
    return listening


def _client_socket(taken: Way) -> socket.socket:
    talking = taken.out.host.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        talking.bind((taken.out.ip, 0))
        talking.setblocking(False)
    except BaseException:
        talking.close()
        raise
    return talking
