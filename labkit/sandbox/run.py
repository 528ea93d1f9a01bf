"""``labkit sandbox``: a command in a sandbox, at this terminal, until it ends."""

from __future__ import annotations

import contextlib
import ctypes
import os
import pwd
import re
import signal
import socket
from collections.abc import Sequence

from labkit.errors import LabError
from labkit.sandbox.ground import HOMES, Ground, default_ground
from labkit.sandbox.start import Sandbox, start
from labkit.sandbox.terminal import Terminal

__all__ = ["listen", "run"]

_PASSED_ON = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
_PORTS_TRIED = 50
_PR_SET_CHILD_SUBREAPER = 36  # include/uapi/linux/prctl.h
# Of root's environment: nothing that the lab has no use for, as secrets may be in it.
_MAY_PASS = re.compile(
    r"(PATH|SHELL|TERM|COLORTERM|LANG|LANGUAGE|LC_\w+|TZ|LAB_SCALE|VIRTUAL_ENV|XDP_LAB_\w+|JUPYTER\w*|IPYTHONDIR|PYTHON\w+)$"
)


def run(
    words: Sequence[str],
    *,
    user: str | None = None,
    tracing: bool = True,
    listener: socket.socket | None = None,
    browse: str = "",
) -> int:
    """Run ``words`` (a shell where it is empty) in a sandbox and return the exit status.

    Root without ``user`` becomes whoever called sudo, else nobody, who then sees the lab's folder on a ground of its
    own. ``browse``: a page that the user's browser opens once the sandbox answers at ``listener``.
    """
    environment, ground = dict(os.environ), None
    if os.geteuid() == 0:
        environment = {name: value for name, value in environment.items() if _MAY_PASS.match(name)}
        if user is None:
            user, ground = _whom_root_means()
    if user is not None:
        environment.update(_home_of(user))
    if ground is not None:
        environment = _lodged(environment, ground)
    if listener is not None:
        environment["XDP_LAB_LISTENS"] = "3"
    command = list(words) or [environment.get("SHELL") or "/bin/sh"]
    terminal = Terminal() if os.isatty(0) and os.isatty(1) else None
    streams = (0, 1, 2) if terminal is None else [terminal.slave if os.isatty(i) else i for i in range(3)]
    with (
        _Signals() as signals,
        start(
            command,
            user=user,
            tracing=tracing,
            streams=streams,
            listener=listener,
            terminal=terminal is not None,
            environment=environment,
            ground=ground,
        ) as sandbox,
    ):
        _leave_privilege(sandbox)
        if listener is not None:
            if browse:
                from labkit.sandbox.browse import browse_when_it_answers

                browse_when_it_answers(listener.getsockname()[1], browse)
            listener.close()
        signals.pass_on(sandbox)
        status = sandbox.wait() if terminal is None else terminal.relay(sandbox)
    _bury()
    return status


def listen(port: int, *, exactly: bool) -> socket.socket:
    """A socket that listens at 127.0.0.1:``port``, or at the next free port. Raises LabError."""
    for candidate in range(port, port + (1 if exactly else _PORTS_TRIED)):
        found = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            found.bind(("127.0.0.1", candidate))
            found.listen(128)
        except OSError as error:
            found.close()
            refused = error
        else:
            return found
    raise LabError(
        f"Port {port} can't be had.",
        tried="to listen on 127.0.0.1",
        errno=refused.errno,
        remedy="another program uses it: choose another port",
    )


def _whom_root_means() -> tuple[str | None, Ground | None]:
    caller = os.environ.get("SUDO_UID", "0")
    if caller != "0":
        return caller, None
    nobody = pwd.getpwnam("nobody")
    return None, default_ground(nobody.pw_uid, nobody.pw_gid)


def _home_of(user: str) -> dict[str, str]:
    """The variables that name a user. Who has no name, as a container's owner often hasn't, gets a home of the lab's."""
    try:
        entry = pwd.getpwuid(int(user)) if user.isdigit() else pwd.getpwnam(user)
    except (KeyError, ValueError, OverflowError):
        return _home_of_nameless(int(user)) if user.isdigit() and 0 < int(user) < 1 << 32 else {}
    shell = entry.pw_shell if os.path.basename(entry.pw_shell) not in ("", "nologin", "false") else "/bin/sh"
    return {"HOME": entry.pw_dir, "USER": entry.pw_name, "LOGNAME": entry.pw_name, "SHELL": shell}


def _home_of_nameless(uid: int) -> dict[str, str]:
    home = HOMES / f"home-{uid}"
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    os.chown(home, uid, uid)
    return {"HOME": str(home), "USER": str(uid), "LOGNAME": str(uid), "SHELL": "/bin/sh"}


def _lodged(environment: dict[str, str], ground: Ground) -> dict[str, str]:
    """Nobody's home is the lab's."""
    return {**environment, "HOME": str(ground.home), "USER": "nobody", "LOGNAME": "nobody"}


def _leave_privilege(sandbox: Sandbox) -> None:
    """Root's own process goes on as the sandbox's user: nothing privileged stays."""
    if os.geteuid() == 0:
        os.setgroups([])
        os.setresgid(sandbox.gid, sandbox.gid, sandbox.gid)
        os.setresuid(sandbox.uid, sandbox.uid, sandbox.uid)


class _Signals:
    """Signals are for the command: those that come before it runs are kept for it."""

    def __init__(self) -> None:
        self._sandbox: Sandbox | None = None
        self._early: list[int] = []

    def __enter__(self) -> _Signals:
        self._before = {number: signal.signal(number, self._take) for number in _PASSED_ON}
        # What is left of the sandbox when its launcher has ended becomes our child, and is ours to bury.
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        return self

    def _take(self, number: int, _: object) -> None:
        if self._sandbox is None:
            self._early.append(number)
        else:
            self._sandbox.send_signal(number)

    def pass_on(self, sandbox: Sandbox) -> None:
        """From here on, and what came so far."""
        self._sandbox = sandbox
        self._before[signal.SIGCHLD] = signal.signal(signal.SIGCHLD, lambda *_: _bury())
        _bury()
        for number in self._early:
            sandbox.send_signal(number)

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)


def _bury() -> None:
    """Take note of every child that has ended: of the sandbox's first process, and of what sudo left. Else they'd stay."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
