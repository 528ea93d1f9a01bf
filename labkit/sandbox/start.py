"""Opens a sandbox around a command, and stays with it until the command ends."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from labkit.errors import FeatureError, PrivilegeError, StateError
from labkit.sandbox.ground import Ground
from labkit.sandbox.launcher import Connection, connect
from labkit.sandbox.refusals import refusal

__all__ = ["Sandbox", "inside", "start"]

_PRELOAD = Path(sys.prefix) / "lib" / "xdp-lab-gate.so"  # built at set-up from env/gate.c, for BCC
_RUNTIME = "/run/user"  # the sandbox's own, private
_OUTSIDE_ONLY = ("DBUS_SESSION_BUS_ADDRESS", "SUDO_COMMAND", "SUDO_GID", "SUDO_HOME", "SUDO_UID", "SUDO_USER")


def inside() -> bool:
    """Whether this process is in a user namespace already: a sandbox, or a container that has one."""
    return Path("/proc/self/uid_map").read_text().split() != ["0", "0", "4294967295"]


def environment_inside(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment for a command in a sandbox: its own runtime folder, and the library that leads BCC to the gate."""
    found = {name: value for name, value in environment.items() if name not in _OUTSIDE_ONLY}
    found["XDG_RUNTIME_DIR"] = _RUNTIME
    if _PRELOAD.exists():
        found["LD_PRELOAD"] = " ".join(filter(None, (str(_PRELOAD), found.get("LD_PRELOAD"))))
    return found


class Sandbox:
    """A running sandbox. ``pid`` is its first process, as the machine sees it: when that ends, all inside ends.

    ``uid`` and ``gid`` are the machine's numbers of whom it runs as; ``tracing`` whether its gate lets tracing programs in.
    """

    def __init__(self, connection: Connection) -> None:
        self._front = connection.front
        self._answers = self._front.makefile("rb")
        self.pid = self.uid = self.gid = 0
        self.tracing = False
        self.status: int | None = None

    def started(self) -> None:
        """Wait until the sandbox stands. Raises what was refused."""
        answer = self._next()
        if answer is None:
            raise PrivilegeError(
                "The launcher ended without a word: it was refused privilege, or was interrupted.",
                tried="to open a sandbox",
                remedy="see above for what sudo said; run the same command as root, or ask an instructor",
            )
        self.pid, self.uid, self.gid = (int(answer[key]) for key in ("pid", "uid", "gid"))
        self.tracing = bool(answer["tracing"])

    def wait(self) -> int:
        """The command's exit status (128 and the signal's number where one ended it, 137 where the sandbox was killed)."""
        if self.status is None:
            answer = self._next()
            self.status = int(answer["status"]) if answer is not None else 128 + signal.SIGKILL
            self.close()
        return self.status

    def send_signal(self, number: int) -> None:
        """Pass a signal to the command."""
        with contextlib.suppress(OSError):  # it has just ended
            self._front.sendall(bytes([number]))

    def fileno(self) -> int:
        """Readable when there is something to ``wait`` for."""
        return self._front.fileno()

    def _next(self) -> dict[str, Any] | None:
        try:
            line = self._answers.readline()
        except ConnectionResetError:
            line = b""
        if not line:
            return None
        answer: dict[str, Any] = json.loads(line)
        if "refused" in answer:
            self.close()
            raise refusal(answer)
        return answer

    def close(self) -> None:
        """Let go of it: everything inside ends. Safe to call again."""
        with contextlib.suppress(OSError):
            self._answers.close()
        self._front.close()

    def __enter__(self) -> Sandbox:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def start(
    words: Sequence[str],
    *,
    user: str | None = None,
    tracing: bool = True,
    streams: Sequence[int] = (0, 1, 2),
    listener: socket.socket | None = None,
    terminal: bool = False,
    environment: Mapping[str, str] | None = None,
    directory: str | os.PathLike[str] | None = None,
    ground: Ground | None = None,
) -> Sandbox:
    """Open a sandbox in which ``words`` runs, with three ``streams`` and, as descriptor 3, a socket that listens.

    ``user`` (a name or number) is for root; without it root's sandbox runs as nobody. ``tracing=False`` withholds
    tracing programs. ``terminal`` makes stream 0 the command's controlling terminal. ``ground`` is what root's
    sandbox is shown of the lab's folder. Raises PrivilegeError where no launcher can be started, FeatureError where
    this kernel or machine has no sandboxes.
    """
    if inside():
        raise StateError(
            "This is a sandbox already.",
            tried="to open a sandbox",
            remedy="run the command itself: it may all it could",
        )
    order = {
        "words": list(words),
        "environment": environment_inside(os.environ if environment is None else environment),
        "directories": [os.fspath(directory or os.getcwd()), "/"],
        "terminal": terminal,
    }
    text = json.dumps(order).encode()
    connection = connect(user, tracing, ground)
    sandbox = Sandbox(connection)
    try:
        passed = [*streams, *([] if listener is None else [listener.fileno()])]
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # the launcher said why, or sudo did
            socket.send_fds(connection.front, [b"d"], passed)
            connection.front.sendall(struct.pack("=I", len(text)) + text)
        sandbox.started()
        if sandbox.tracing and not tracing:
            raise FeatureError(
                "The service on this machine opens sandboxes with tracing programs, and can't be asked for less.",
                tried="to open a sandbox without tracing programs",
                remedy="ask whoever set the service up (env/SANDBOX.md), or leave --without-tracing out",
            )
    except BaseException:
        sandbox.close()
        raise
    finally:
        _finished(connection.process)
    return sandbox


def _finished(process: subprocess.Popen[bytes] | None) -> None:
    """The launcher, or sudo, has nothing more to do: nothing privileged stays."""
    if process is not None:
        process.wait()
