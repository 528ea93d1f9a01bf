"""Asks the launcher for a sandbox by hand, as nobody well-behaved would."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import struct
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from helpers import DEADLINE_S, ENVIRONMENT, LAUNCHER


@dataclass
class Answer:
    """What the launcher said over the socket, line by line; what it and the command wrote; how the launcher ended."""

    lines: list[dict[str, object]]
    text: str
    status: int

    def refused(self) -> str:
        """The step that was refused; "" for none."""
        return next((str(line["refused"]) for line in self.lines if "refused" in line), "")


@contextlib.contextmanager
def acting_as(uid: int) -> Iterator[None]:
    """Sockets made meanwhile have this user's mark."""
    os.seteuid(uid)
    try:
        yield
    finally:
        os.seteuid(0)


def order(**changes: object) -> bytes:
    """An order with its size in front; ``changes`` replace what is in it."""
    usual = {"words": ["/bin/true"], "environment": ENVIRONMENT, "directories": ["/"], "terminal": False}
    return sized(json.dumps({**usual, **changes}).encode())


def sized(text: bytes) -> bytes:
    return struct.pack("=I", len(text)) + text


def ask(
    *options: str,
    descriptors: int = 3,
    send: bytes = b"",
    peer: int = 0,
    environment: Mapping[str, str] = ENVIRONMENT,
    shut: bool = False,
    before: Callable[[socket.socket], None] = lambda _: None,
) -> Answer:
    """Start the launcher, send so many descriptors and ``send``, and listen to the end. ``shut``: say no more then."""
    with acting_as(peer):
        ours, theirs = socket.socketpair()
    source, sink = os.pipe()
    with ours, theirs, open(os.devnull, "r+b") as null, open(source, errors="replace") as written:
        words = [str(LAUNCHER), *options]
        launcher = subprocess.Popen(words, stdin=theirs, stderr=sink, env=environment, cwd="/")
        theirs.close()
        before(ours)
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            passed = [null.fileno(), sink, sink, null.fileno(), null.fileno()][:descriptors]
            if descriptors or send:
                socket.send_fds(ours, [b"d"], passed)
                ours.sendall(send)
            if shut:
                ours.shutdown(socket.SHUT_WR)
        os.close(sink)
        ours.settimeout(DEADLINE_S)
        lines = _listen(ours)
        ours.close()
        return Answer(lines, written.read(), launcher.wait(DEADLINE_S))


def _listen(front: socket.socket) -> list[dict[str, object]]:
    data = b""
    with contextlib.suppress(ConnectionResetError):
        while more := front.recv(4096):
            data += more
    return [json.loads(line) for line in data.splitlines()]


def start_with(stdin: int, options: Sequence[str] = ()) -> subprocess.CompletedProcess[str]:
    """The launcher with this standard input."""
    return subprocess.run(
        [str(LAUNCHER), *options], stdin=stdin, capture_output=True, text=True, env=ENVIRONMENT, timeout=DEADLINE_S
    )
