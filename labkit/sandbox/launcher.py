"""Finds the privileged launcher and connects to it: a service's socket, sudo, or directly where we are root."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from labkit.errors import PrivilegeError
from labkit.sandbox.ground import CHECKOUT, Ground, lay

__all__ = ["INSTALLED", "SERVICE", "Connection", "connect"]

SERVICE = "/run/xdp-lab-sandbox.socket"  # of a service that an instructor may have set up: env/SANDBOX.md
INSTALLED = Path("/usr/local/lib/xdp-lab/sandbox")  # a copy that root owns, as sudo rules want it
_HERE = CHECKOUT / "env" / "sandbox"


@dataclass(frozen=True)
class Connection:
    """Our end of the socket, and the process at work for us where we started one (the launcher, or sudo)."""

    front: socket.socket
    process: subprocess.Popen[bytes] | None


def connect(user: str | None, tracing: bool, ground: Ground | None = None) -> Connection:
    """A launcher that waits for descriptors, which sees ``ground``. Raises PrivilegeError where none can be had."""
    options = [] if tracing else ["--without-tracing"]
    if user is not None:
        options += ["--user", user]
    if os.geteuid() == 0:
        # Under sudo, root's own process decides for whom; the launcher is not to think that sudo started it.
        environment = {k: v for k, v in os.environ.items() if k != "SUDO_UID"}
        return _on_ground(ground, lambda: _spawn([str(_HERE), *options], environment))
    if user is not None:
        raise PrivilegeError(
            "Only root may open a sandbox for somebody else.", tried="to use --user", remedy="leave --user out"
        )
    if service := _service():  # which decides about tracing itself
        return Connection(service, None)
    if shutil.which("sudo") is None:
        raise PrivilegeError(
            "A sandbox needs privilege for a moment, and there is no sudo here.",
            tried="to start the launcher",
            remedy="run the same command as root, or have an instructor set up the service (env/SANDBOX.md)",
        )
    launcher = INSTALLED if INSTALLED.exists() else _HERE
    return _spawn(["sudo", f"--prompt={_prompt()}", "--", str(launcher), *options], dict(os.environ))


def _prompt() -> str:
    return "XDP Lab needs root for a moment, to make the sandbox; nothing runs as root afterwards.\nPassword of %p: "


def _service() -> socket.socket | None:
    found = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        found.connect(SERVICE)
    except OSError:
        found.close()
        return None
    return found


def _spawn(words: list[str], environment: dict[str, str]) -> Connection:
    """Its standard input is the socket: the one descriptor that sudo lets through and a service manager hands over."""
    front, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    with theirs:
        sys.stdout.flush()
        return Connection(front, subprocess.Popen(words, stdin=theirs.fileno(), env=environment))


def _on_ground(ground: Ground | None, spawn: Callable[[], Connection]) -> Connection:
    """What ``spawn`` starts sees the ground; it is laid by a thread that ends here, and nobody else sees it."""
    if ground is None:
        return spawn()

    found: list[Connection | BaseException] = []

    def work() -> None:
        try:
            lay(ground)
            found.append(spawn())
        except BaseException as error:
            found.append(error)

    thread = threading.Thread(target=work, name="ground")
    thread.start()
    thread.join()
    if isinstance(found[0], BaseException):
        raise found[0]
    return found[0]
