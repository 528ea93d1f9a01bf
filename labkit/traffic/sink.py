"""A UDP socket of a host that takes what arrives and counts it, or that nobody reads."""

from __future__ import annotations

import os
import select
import socket
import struct
import threading
import time

from labkit.errors import TrafficError
from labkit.host import Host
from labkit.kernel.mmsg import DatagramBatch
from labkit.traffic.checks import check_host, check_port, check_whole
from labkit.traffic.lifetime import close_with
from labkit.traffic.receive_buffer import set_receive_buffer
from labkit.traffic.waiting import Waiting, waiting_in

__all__ = ["UdpSink", "drops_at"]

_TRIED = "to open a UDP sink"
# include/uapi/asm-generic/socket.h; SK_MEMINFO_DROPS is the ninth number, include/uapi/linux/sock_diag.h.
_SO_MEMINFO, _MEMINFO_DROPS = 55, 8
_READING_BUFFER = 8 << 20  # bytes: a pause of some milliseconds loses nothing
_BUFFER_RANGE = (2304, 256 << 20)  # bytes; less than SOCK_MIN_RCVBUF the kernel doesn't give
# As a driver waits a little before it interrupts: woken for every datagram the reader would
# spend its time, and the sender's, on waking.
_GATHER_S = 0.001


class UdpSink:
    """Port ``port`` of ``host``: open from the start, until ``close()`` or the end of a ``with``.

    With ``read`` a thread takes the datagrams as they come, ``received`` counts them. Without, they
    wait (``queued()``) until the buffer is full, and then the kernel drops them (``drops``).
    ``receive_buffer`` in bytes as setsockopt takes it: the kernel doubles it, and charges a small
    datagram about 768 bytes. Raises TrafficError.
    """

    def __init__(
        self,
        host: Host,
        port: int = 9999,
        *,
        read: bool = True,
        receive_buffer: int | None = None,
    ) -> None:
        self.host = check_host(host, _TRIED)
        self.port = check_port("port", port, _TRIED)
        if receive_buffer is not None:
            check_whole("receive_buffer", receive_buffer, *_BUFFER_RANGE, _TRIED)
        elif read:
            receive_buffer = _READING_BUFFER
        self.read = read
        self.closed = self._closing = False
        self._received = self._drops = 0
        self._state = threading.Condition(threading.RLock())
        self._batch = DatagramBatch()
        self._socket = self._open(receive_buffer)
        self._waiting: Waiting | None = None  # made when first asked for
        self._wake = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._reader: threading.Thread | None = None
        if read:
            name = f"lab-{host.name}-sink-{port}"
            self._reader = threading.Thread(target=self._read, name=name, daemon=True)
            self._reader.start()
        host.lab.sinks.append(self)
        close_with(host.lab, self)

    def _open(self, receive_buffer: int | None) -> socket.socket:
        taken = self.host.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            if receive_buffer is not None:
                set_receive_buffer(taken, receive_buffer)
            taken.bind(("0.0.0.0", self.port))
        except OSError as error:
            taken.close()
            raise TrafficError(
                f"Port {self.port} of {self.host.name} can't be opened.",
                tried=_TRIED,
                on=self.host.name,
                errno=error.errno,
                remedy="close the sink that has the port (lab.sinks has them all), or take another",
            ) from error
        return taken

    @property
    def where(self) -> str:
        """``server UDP port 9999``, for people."""
        return f"{self.host.name} UDP port {self.port}"

    @property
    def received(self) -> int:
        """Datagrams taken out of the socket since it was opened."""
        with self._state:
            return self._received

    @property
    def drops(self) -> int:
        """Datagrams the kernel dropped at this socket: no room, or a wrong checksum (SO_MEMINFO)."""
        with self._state:
            if not self.closed:
                self._drops = drops_at(self._socket)
            return self._drops

    @property
    def receive_buffer(self) -> int:
        """Bytes the kernel allows to wait, its own overhead included; 0 when closed."""
        with self._state:
            if self.closed:
                return 0
            return self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)

    def queued(self) -> int:
        """Datagrams that wait in the socket now; they stay there. A sink that reads takes them at once: none wait."""
        with self._state:
            if self.closed:
                return 0
            if self.read:
                self.drain()
                return 0
            if self._waiting is None:
                if not _any(self._socket):
                    return 0
                self._waiting = waiting_in(self._socket)
            return self._waiting.count()

    def drain(self) -> int:
        """Take everything that waits now; how many. For a sink that nobody reads."""
        with self._state:
            before, found = self._received, self._batch.size
            while found == self._batch.size:
                found = self._take()
            return self._received - before

    def wait(self, packets: int, timeout_s: float = 1.0) -> int:
        """``received``, as soon as it is ``packets`` or more, after ``timeout_s`` at the latest."""
        with self._state:
            self._state.wait_for(lambda: self.closed or self._received >= packets, timeout_s)
            return self._received

    def _take(self) -> int:
        with self._state:
            if self.closed:
                return 0
            found = self._batch.take(self._socket.fileno())
            self._received += found
            if self._waiting is not None:
                self._waiting.taken(found)
            self._state.notify_all()
            return found

    def _read(self) -> None:
        ready = select.poll()
        ready.register(self._socket, select.POLLIN)
        ready.register(self._wake, select.POLLIN)
        while not self._closing:
            if self._take() < self._batch.size:
                ready.poll()
                time.sleep(_GATHER_S)

    def close(self) -> None:
        """Close the socket. Safe to call again.

        A sink that reads takes first what waits. What nobody read is thrown away by the kernel, which gives it no drop
        reason: the sink tells the ledger.
        """
        with self._state:
            if self._closing:
                return
            self._closing = True
        os.eventfd_write(self._wake, 1)
        if self._reader is not None:
            self._reader.join()
        board = self.host.lab.traffic
        with board.chunk(), self._state:  # no reading of counters sees half of this
            board.discard(self.where, self.queued())
            self._drops = self.drops
            self.closed = True
            if self._waiting is not None:
                self._waiting.close()
            self._socket.close()
            self.host.lab.sinks.remove(self)
            self._state.notify_all()
        os.close(self._wake)

    def __enter__(self) -> UdpSink:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "closed" if self.closed else "read" if self.read else "nobody reads"
        return f"<sink {self.where}: {self._received:,} received, {state}>"


def drops_at(taken: socket.socket) -> int:
    """Packets for this socket that it did not take, by its own count: no room, a wrong checksum, a filter."""
    meminfo = taken.getsockopt(socket.SOL_SOCKET, _SO_MEMINFO, 36)
    return int(struct.unpack("=9I", meminfo)[_MEMINFO_DROPS])


def _any(queue: socket.socket) -> bool:
    """Whether a datagram waits. Asked by poll: a look with MSG_PEEK would leave its mark on an empty one."""
    ready = select.poll()
    ready.register(queue, select.POLLIN)
    return bool(ready.poll(0))
