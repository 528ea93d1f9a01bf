"""The exercise "send the pages home": read what waits, and find the socket that nobody thought of."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Any, Self

from labkit.buffers import BufferWatch, one_cpu, watch
from labkit.errors import FeatureError
from labkit.lab import Lab
from labkit.lesson.buffers.parked import ROOM
from labkit.lesson.practice import Exercise, Row, register
from labkit.lesson.python_answer import AnswerError, called
from labkit.lesson.trial import raw_socket
from labkit.topology import Topology
from labkit.traffic.frames import udp
from labkit.traffic.generator import generate
from labkit.traffic.receive_buffer import set_receive_buffer

__all__ = ["SEND_HOME"]

_PORTS = (9_998, 9_999)
_WORDS, _EACH = (b"north", b"east", b"south"), 13  # datagrams of each word, at each port
_SENT = len(_PORTS) * len(_WORDS) * _EACH
_PATIENCE_S = 15.0  # for the function
_HOME_S = 20.0
_TURN_S = 0.01
_SO_MEMINFO = 55  # include/uapi/asm-generic/socket.h; the first of nine numbers: bytes that wait to be read

_LOST = "the datagrams: closing a socket sends its pages home, too, but what nobody has read is gone. Read first"
_EMPTY = "when a socket is empty: recv() raises BlockingIOError then, and not before; read on until it does"
_SECOND = "the other UDP socket: it has datagrams waiting as well"
_TAP = (
    "the socket that is no UDP socket (family AF_PACKET): it has the same packets as the others, not a copy of their bytes. A "
    "page goes home when its last user lets go"
)
_WHAT = "what you return: a list of bytes, each datagram of the UDP sockets once, and nothing of the packet socket"


class _Sockets:
    """Two UDP sockets and a packet socket with the same packets, in a lab "check"; the function has to empty them."""

    def __init__(self, function: Callable[..., Any], _: str | None = None) -> None:
        self._function = function
        self._made = contextlib.ExitStack()
        self.late = False
        self.lab = self._made.enter_context(Lab(Topology.pair(), name="check"))
        try:
            self._made.enter_context(one_cpu())
            server = self.lab["server"]
            self.tap = self._kept(server.run(raw_socket, "eth0"))
            self.udp = [self._kept(server.socket()) for _ in _PORTS]
            for each, port in zip(self.udp, _PORTS, strict=True):
                each.bind(("0.0.0.0", port))
            self.pools = self._watched()
        except BaseException:
            self._made.close()
            raise

    def _kept(self, made: socket.socket) -> socket.socket:
        made.setblocking(False)
        set_receive_buffer(made, ROOM)
        self._made.callback(made.close)
        return made

    def _watched(self) -> BufferWatch | None:
        try:
            return self._made.enter_context(watch(self.lab))
        except FeatureError:
            return None

    @property
    def all(self) -> list[socket.socket]:
        return [*self.udp, self.tap]

    def fill(self) -> None:
        """Let the generator send each word to each port; every frame waits twice then, on one page."""
        client, server = self.lab["client"], self.lab["server"]
        for word in _WORDS:
            for port in _PORTS:
                generate(client["eth0"], udp(client, server, dport=port, payload=word), _EACH)
        self.lab.ledger(settle_s=0.2)

    def call(self) -> Any:
        """What the function returns. Raises AnswerError, also where it doesn't return: then its sockets are closed."""
        guard = threading.Timer(_PATIENCE_S, self._too_late)
        guard.start()
        try:
            return called("", self._function, self.all)
        except AnswerError as error:
            if not self.late:
                raise
            raise AnswerError(
                f"Your function did not return within {_PATIENCE_S:.0f} seconds.",
                tried="to call your function",
                remedy="the sockets don't wait: an empty one raises BlockingIOError, which is the sign to go on",
            ) from error
        finally:
            guard.cancel()
            guard.join()

    def _too_late(self) -> None:
        self.late = True
        for each in self.all:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)  # wakes who waits in recv()
            each.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._made.close()


def _waiting_bytes(each: socket.socket) -> int:
    """Bytes that the kernel charges to a socket for what waits in it; a closed one has none."""
    if each.fileno() < 0:
        return 0
    return int(struct.unpack("=9I", each.getsockopt(socket.SOL_SOCKET, _SO_MEMINFO, 36))[0])


def _run(trial: _Sockets) -> list[Row]:
    trial.fill()
    given = trial.call()
    got = Counter(each for each in given if isinstance(each, bytes)) if isinstance(given, (list, tuple)) else Counter()
    right = Counter(dict.fromkeys(_WORDS, len(_PORTS) * _EACH))
    open_udp = [each for each in trial.udp if _waiting_bytes(each)]
    look = _WHAT
    if got.total() < _SENT:
        look = _LOST if not open_udp else _SECOND if len(open_udp) == 1 else _EMPTY
    words = ", ".join(f"{number} × {word!r}" for word, number in got.most_common(4)) or "nothing that is bytes"
    expected = ", ".join(f"{number} × {word!r}" for word, number in right.items())
    rows = [
        Row("datagrams that you returned", f"{_SENT}", f"{got.total()}", got.total() == _SENT, look),
        Row("these are", expected, words, got == right, look),
    ]
    for each, name in zip(trial.udp, ("first UDP socket", "second UDP socket"), strict=True):
        held = _waiting_bytes(each)
        rows.append(Row(f"bytes waiting in the {name}", "0", f"{held:,}", held == 0, look))
    held = _waiting_bytes(trial.tap)
    rows.append(Row("bytes waiting in the packet socket", "0", f"{held:,}", held == 0, _TAP))
    return rows + _pages(trial, _TAP if held else look)


def _pages(trial: _Sockets, look: str) -> list[Row]:
    """Pages, where they can be counted; a pool that can end does so within a second."""
    if trial.pools is None:
        return []
    until = time.monotonic() + _HOME_S
    found = trial.pools.read()
    while (found.out or found.closing) and not any(map(_waiting_bytes, trial.all)) and time.monotonic() < until:
        time.sleep(_TURN_S)
        found = trial.pools.read()
    waiting = len(found.closing)
    return [
        Row("pages away from their pools", "0", f"{found.out}", found.out == 0, look),
        Row("pools that wait for pages to end", "0", f"{waiting}", waiting == 0, look),
    ]


SEND_HOME = register(
    Exercise(
        "send-pages-home",
        "Send the pages home",
        f"A program on the server ended in a hurry. Its sockets are still open, {_SENT} datagrams wait in the UDP sockets "
        "among them, and the pools of those who made the frames can't end. send_home(sockets) gets the list of the sockets; "
        "none of them waits when it is read. Return every datagram, as a list of bytes in any order, and leave no page behind.",
        "send_home",
        (
            "Print the sockets in your function. How many are there, and of which family is each?",
            "sock.recv(65536) takes one datagram. Repeat it until it raises BlockingIOError: then this socket is empty.",
            "A packet socket (AF_PACKET) is what tcpdump has. Nobody wants what is in it, but the pages are in use for it, too: "
            "read it empty, or close it.",
        ),
        _run,
        _Sockets,
        "Python",
    )
)
