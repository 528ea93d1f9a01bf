"""A terminal of the sandbox's own, relayed to ours: nothing inside can type into the shell it was started from."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import select
import signal
import termios
import tty
from collections.abc import Iterator

from labkit.sandbox.start import Sandbox

__all__ = ["Terminal"]

_CHUNK_BYTES = 65536


class Terminal:
    """A pseudoterminal. ``slave`` is for the sandbox; ``relay`` copies between our terminal and it."""

    def __init__(self) -> None:
        self._master, self.slave = pty.openpty()
        self._resize()

    def _resize(self) -> None:
        with contextlib.suppress(OSError):
            fcntl.ioctl(self._master, termios.TIOCSWINSZ, fcntl.ioctl(0, termios.TIOCGWINSZ, bytes(8)))

    def relay(self, sandbox: Sandbox) -> int:
        """Until the command ends: keys go in, text comes out, the size follows. Returns its exit status."""
        os.close(self.slave)
        poll = select.poll()
        for descriptor in (0, self._master, sandbox.fileno()):
            poll.register(descriptor, select.POLLIN)
        with _raw_keys(), _on_resize(self._resize):
            while True:
                ready = {descriptor for descriptor, _ in poll.poll()}
                if self._master in ready and not self._out():
                    poll.unregister(self._master)
                if 0 in ready and not self._in():
                    poll.unregister(0)
                if sandbox.fileno() in ready:
                    status = sandbox.wait()
                    while select.select([self._master], [], [], 0)[0] and self._out():
                        pass  # what it wrote last
                    return status

    def _out(self) -> bool:
        try:
            data = os.read(self._master, _CHUNK_BYTES)
        except OSError:  # EIO: nobody has the other end any more
            return False
        while data:
            data = data[os.write(1, data) :]
        return True

    def _in(self) -> bool:
        data = os.read(0, _CHUNK_BYTES)
        with contextlib.suppress(OSError):
            os.write(self._master, data or b"\x04")  # our input ended: so does the command's
        return bool(data)

    def close(self) -> None:
        """Let go of it."""
        os.close(self._master)


@contextlib.contextmanager
def _raw_keys() -> Iterator[None]:
    """Every key, Ctrl-C included, is for the command."""
    before = termios.tcgetattr(0)
    tty.setraw(0)
    try:
        yield
    finally:
        termios.tcsetattr(0, termios.TCSAFLUSH, before)


@contextlib.contextmanager
def _on_resize(then: object) -> Iterator[None]:
    before = signal.signal(signal.SIGWINCH, lambda *_: then())  # type: ignore[operator]
    try:
        yield
    finally:
        signal.signal(signal.SIGWINCH, before)
