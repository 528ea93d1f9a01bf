"""Sandboxes for tests: opening one around a script, and what the machine sees of it."""

from __future__ import annotations

import contextlib
import ctypes
import os
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from labkit.sandbox import start
from labkit.sandbox.ground import CHECKOUT, Ground

T = TypeVar("T")
PYTHON = "/usr/bin/python3"
LAUNCHER = CHECKOUT / "env" / "sandbox"
LABKIT = CHECKOUT / ".venv" / "bin" / "labkit"
ENVIRONMENT = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/nonexistent", "LANG": "C.UTF-8"}
NOBODY = 65534
DEADLINE_S = 30.0
KINDS = ("user", "mnt", "net", "pid", "ipc", "uts", "cgroup")  # of namespaces, as in /proc/PID/ns
_libc = ctypes.CDLL(None, use_errno=True)
CLONE_NEWNS, MS_REC_PRIVATE = 0x20000, 0x44000


@dataclass(frozen=True)
class Ended:
    """How a command in a sandbox ended."""

    status: int
    out: str
    err: str


def run_inside(
    words: Sequence[str],
    *,
    user: str | None = None,
    tracing: bool = True,
    ground: Ground | None = None,
    errors: int | None = None,
    feed: bytes = b"",
) -> Ended:
    """Run a command in a sandbox until it ends. ``errors``: a descriptor in place of a pipe for its standard error."""
    outputs = [os.pipe(), os.pipe()]
    source, sink = os.pipe()
    texts = ["", ""]
    streams = (source, outputs[0][1], outputs[1][1] if errors is None else errors)

    def read(index: int) -> None:
        with open(outputs[index][0], encoding="utf-8", errors="replace") as file:
            texts[index] = file.read()

    readers = [threading.Thread(target=read, args=(index,)) for index in (0, 1)]
    try:
        with start(
            words, user=user, tracing=tracing, streams=streams, environment=ENVIRONMENT, directory="/", ground=ground
        ) as box:
            for descriptor in (source, outputs[0][1], outputs[1][1]):
                os.close(descriptor)
            for reader in readers:
                reader.start()
            with contextlib.suppress(BrokenPipeError):
                os.write(sink, feed)
            os.close(sink)
            status = box.wait()
    finally:
        for reader in readers:
            if reader.ident is not None:
                reader.join(DEADLINE_S)
    return Ended(status, *texts)


def in_private_mounts(work: Callable[[], T]) -> T:
    """What ``work`` returns, done by a thread that has a mount namespace of its own and then ends."""
    found: list[T | BaseException] = []

    def target() -> None:
        try:
            for code in (_libc.unshare(CLONE_NEWNS), _libc.mount(None, b"/", None, MS_REC_PRIVATE, None)):
                if code < 0:
                    raise OSError(ctypes.get_errno(), "private mounts")
            found.append(work())
        except BaseException as error:
            found.append(error)

    thread = threading.Thread(target=target, name="private mounts")
    thread.start()
    thread.join()
    if isinstance(found[0], BaseException):
        raise found[0]
    return found[0]


def mount(kind: str, target: str, options: str = "") -> None:
    """Mount a file system without a source; for use in private mounts."""
    if _libc.mount(kind.encode(), target.encode(), kind.encode(), 0, options.encode() or None) < 0:
        raise OSError(ctypes.get_errno(), f"mount {kind} on {target}")


def eventually(condition: Callable[[], object], what: str) -> None:
    """Wait until ``condition`` holds; fails with ``what`` after the deadline."""
    until = time.monotonic() + DEADLINE_S
    while not condition():
        if time.monotonic() > until:
            raise AssertionError(f"not within {DEADLINE_S:g} s: {what}")
        time.sleep(0.01)


def processes() -> dict[int, str]:
    """Every process of the machine: number and when it started (the two together never come again)."""
    found = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            found[int(name)] = stat_words(int(name))[19]
    return found


def stat_words(pid: int) -> list[str]:
    """The words of /proc/PID/stat behind the command: state, parent, group, session, terminal, …"""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def user_namespace(pid: int) -> str:
    """Which user namespace a process is in; "" where it has ended."""
    try:
        return os.readlink(f"/proc/{pid}/ns/user")
    except OSError:
        return ""


def inhabitants(first: int) -> list[int]:
    """The processes in the sandbox with this first process, and below it."""
    namespace = user_namespace(first)
    return [pid for pid in processes() if namespace and user_namespace(pid) == namespace]


def namespaces() -> set[str]:
    """Every namespace that a living process of the machine is in."""
    found = set()
    for pid in processes():
        with contextlib.suppress(OSError):
            if stat_words(pid)[0] == "Z":  # ended; whoever must bury it may take its time
                continue
        for kind in KINDS:
            with contextlib.suppress(OSError):
                found.add(os.readlink(f"/proc/{pid}/ns/{kind}"))
    return found


def descendants(of: int) -> list[int]:
    """The processes that a process started, and those that they did."""
    parents = {}
    for pid in processes():
        with contextlib.suppress(OSError):
            parents[pid] = int(stat_words(pid)[1])
    found: list[int] = []
    todo = [of]
    while todo:
        more = [pid for pid, parent in parents.items() if parent == todo[0]]
        found += more
        todo = todo[1:] + more
    return found


def user_ids(pid: int) -> set[int]:
    """A process's real, effective, saved and file-system user, and the same of its groups, as the machine sees them."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return {int(word) for line in lines if line.startswith(("Uid:", "Gid:")) for word in line.split()[1:]}


@contextlib.contextmanager
def process(words: Sequence[str], **options: object) -> Iterator[subprocess.Popen[bytes]]:
    """A process of the machine, killed at the end."""
    child = subprocess.Popen(words, **options)  # type: ignore[call-overload]
    try:
        yield child
    finally:
        child.kill()
        child.wait()
        for stream in (child.stdin, child.stdout, child.stderr):
            if stream is not None:
                stream.close()
