"""The notebook's end of the compiling child process: started when first needed, started anew when
it ends.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import os
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from labkit.compile import protocol
from labkit.compile.stopping import Stop, current
from labkit.errors import CompileError

__all__ = ["TIMEOUT_S", "Ended", "child_pid", "descriptor", "request", "shut_down"]

TIMEOUT_S = 30.0
_LOOK_S = 0.05  # between two looks at whether one that waits for its turn is to be stopped

# The packages as bare shells: what their __init__ modules import takes time and is not needed.
_START = """
import sys, types
for name, path in zip(("labkit", "labkit.compile"), sys.argv[3:]):
    sys.modules[name] = types.ModuleType(name)
    sys.modules[name].__path__ = [path]
from labkit.compile.worker import main
main(int(sys.argv[1]), int(sys.argv[2]))
"""

_lock = threading.Lock()
_child: _Child | None = None


class Ended(Exception):
    """The child ended during a request: its return code (negative: a signal) and what it printed
    last.
    """

    def __init__(self, code: int, said: str) -> None:
        super().__init__(code, said)
        self.code = code
        self.said = said


class _Child:
    def __init__(self) -> None:
        # The child's output goes to a memory file of ours: readable even when the child is gone.
        self.said_fd = os.memfd_create("xdp-lab-compiler")
        fcntl.fcntl(self.said_fd, fcntl.F_SETFL, os.O_APPEND)
        self.connection, theirs = socket.socketpair()
        here = Path(__file__).resolve().parent
        with theirs:
            numbers = [str(theirs.fileno()), str(os.getpid())]
            self.process = subprocess.Popen(
                [sys.executable, "-P", "-c", _START, *numbers, str(here.parent), str(here)],
                # Nothing may stand between BCC and the recorder, which answers its bpf(2): no library of a sandbox's.
                env={**os.environ, "LC_ALL": "C.UTF-8", "LD_PRELOAD": ""},
                stdin=subprocess.DEVNULL,
                stdout=self.said_fd,
                stderr=self.said_fd,
                pass_fds=[theirs.fileno()],
                start_new_session=True,  # an interrupt of the notebook is not meant for it
            )
        self.connection.settimeout(TIMEOUT_S)

    def ask(self, message: dict[str, Any]) -> dict[str, Any]:
        try:
            protocol.send(self.connection, message)
            return protocol.receive(self.connection)
        except protocol.Closed:
            code = self.process.wait()
            size = os.fstat(self.said_fd).st_size
            said = os.pread(self.said_fd, min(size, 1 << 20), 0).decode(errors="replace")
            raise Ended(code, said) from None

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        self.forget()

    def forget(self) -> None:
        self.connection.close()
        with contextlib.suppress(OSError):
            os.close(self.said_fd)
        self.said_fd = -1


def request(message: dict[str, Any]) -> dict[str, Any]:
    """The child's answer to ``message``. One request at a time; the others wait.

    Raises Ended where the child ended over it, CompileStopped where the caller's ``Stop`` was set, and
    CompileError where it could not be started or took longer than ``TIMEOUT_S`` seconds. The next
    request finds a new child.
    """
    stop, lock = current() or Stop(), _lock
    while not lock.acquire(timeout=_LOOK_S):
        stop.check(message.get("name", ""))
    try:
        stop.check(message.get("name", ""))
        try:
            return _request(message, stop)
        except Ended as ended:
            stop.check(message.get("name", ""))
            if ended.code not in (-signal.SIGKILL, -signal.SIGTERM):
                raise
        return _request(message, stop)  # somebody killed it, the text did not: once more
    finally:
        lock.release()


def child_pid() -> int | None:
    """The process id of the child, None where there is none now."""
    child = _child
    return child.process.pid if child and child.process.poll() is None else None


def descriptor() -> int | None:
    """The descriptor of the connection to the child, which lives as long as this process; or None."""
    child = _child
    return child.connection.fileno() if child else None


def shut_down() -> None:
    """Ends the child. The next request starts another."""
    with _lock:
        _end()


def _request(message: dict[str, Any], stop: Stop) -> dict[str, Any]:
    global _child
    if _child is not None and _child.process.poll() is not None:
        _end()
    if _child is None:
        try:
            _child = _Child()
        except OSError as cause:
            raise CompileError(
                "the compiler process could not be started",
                tried=f"to start {sys.executable}",
                errno=cause.errno,
                remedy="close other programs (memory, processes or open files ran out); try again",
            ) from cause
    try:
        with stop.ends(_child.process.kill):
            return _child.ask(message)
    except TimeoutError:
        _end()
        raise CompileError(
            f"the compiler did not finish within {TIMEOUT_S:g} s and was ended",
            tried=f"to compile {message.get('name', '')}".strip(),
            remedy="look for a long loop that is unrolled, or macros that multiply one another; the notebook is unharmed",
        ) from None
    except BaseException:  # an interrupt too: an answer to nobody would come first next time
        _end()
        raise


def _end() -> None:
    global _child
    child, _child = _child, None
    if child is not None:
        child.end()


def _after_fork() -> None:
    """In a forked child: the compiler belongs to the parent; a lock held by a thread that is not
    here never opens.
    """
    global _child, _lock
    _lock = threading.Lock()
    child, _child = _child, None
    if child is not None:
        child.forget()
        child.process.returncode = 0  # not ours to wait for


os.register_at_fork(after_in_child=_after_fork)
atexit.register(shut_down)
