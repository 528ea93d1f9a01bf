"""``labkit sandbox``: a command in a sandbox, at this terminal, until it ends."""

from __future__ import annotations

import contextlib
import os
import pwd
import signal
import socket
from collections.abc import Iterator, Sequence

from labkit.errors import LabError
from labkit.sandbox.ground import HOMES, Ground, default_ground
from labkit.sandbox.start import Sandbox, start
from labkit.sandbox.terminal import Terminal

__all__ = ["listen", "run"]

_PASSED_ON = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
_PORTS_TRIED = 50


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
    environment = dict(os.environ)
    ground = None
    if os.geteuid() == 0 and user is None:
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
    with start(
        command,
        user=user,
        tracing=tracing,
        streams=streams,
        listener=listener,
        terminal=terminal is not None,
        environment=environment,
        ground=ground,
    ) as sandbox:
        _leave_privilege(sandbox)
        if listener is not None:
            if browse:
                from labkit.sandbox.browse import browse_when_it_answers

                browse_when_it_answers(listener.getsockname()[1], browse)
            listener.close()
        with _signals_passed_on(sandbox):
            return sandbox.wait() if terminal is None else terminal.relay(sandbox)


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
    """Nobody's home is the lab's; what root set for its own folders doesn't hold there."""
    kept = {k: v for k, v in environment.items() if not (k.startswith("XDG_") and k.endswith("_HOME"))}
    return {**kept, "HOME": str(ground.home), "USER": "nobody", "LOGNAME": "nobody"}


def _leave_privilege(sandbox: Sandbox) -> None:
    """Root's own process goes on as the sandbox's user: nothing privileged stays."""
    if os.geteuid() == 0:
        os.setgroups([])
        os.setresgid(sandbox.gid, sandbox.gid, sandbox.gid)
        os.setresuid(sandbox.uid, sandbox.uid, sandbox.uid)


@contextlib.contextmanager
def _signals_passed_on(sandbox: Sandbox) -> Iterator[None]:
    before = {number: signal.signal(number, lambda n, _: sandbox.send_signal(n)) for number in _PASSED_ON}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
