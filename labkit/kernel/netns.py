"""Network namespaces of the lab: one worker thread each, which enters its own on birth and never leaves it.

A namespace made here has no name and no mount: it lives as long as a thread, a process or a descriptor is in it. When
the process ends, however it ends, the kernel takes the namespace down with all its interfaces.
"""

from __future__ import annotations

import ctypes
import errno
import os
import queue
import signal
import socket
import struct
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from labkit.errors import LabError, PrivilegeError, StateError
from labkit.kernel.gate import privilege_remedy

__all__ = ["NamespaceThread", "namespace_cookie_of", "namespace_inode"]

_CLONE_NEWNET = 0x40000000  # include/uapi/linux/sched.h
_SO_NETNS_COOKIE = 71  # include/uapi/asm-generic/socket.h
_libc = ctypes.CDLL(None, use_errno=True)

T = TypeVar("T")


class _Job:
    """One function on its way to a worker thread, and its result on the way back."""

    __slots__ = ("done", "error", "function", "result")

    def __init__(self, function: Callable[[], Any]) -> None:
        self.function = function
        self.done = threading.Event()
        self.result: Any = None
        self.error: BaseException | None = None

    def work(self) -> None:
        try:
            self.result = self.function()
        except BaseException as error:
            self.error = error
        finally:
            self.done.set()


class NamespaceThread:
    """A thread in a new network namespace of its own; ``run`` does work there.

    ``inode`` identifies the namespace while it lives, ``cookie`` for ever (SO_NETNS_COOKIE); ``fd`` is a
    descriptor of it, for netlink. Raises PrivilegeError where the kernel refuses a new namespace.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._closed = False
        self._gate = threading.RLock()  # no job is queued after the one that ends the thread: it would never be done
        self._thread = threading.Thread(target=self._main, name=f"lab-{name}", daemon=True)
        _start(self._thread)
        try:
            self.run(_enter_new_namespace)
            self.fd: int = self.run(lambda: os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC))
            self.inode: int = os.fstat(self.fd).st_ino
            self.cookie: int = self.run(_cookie)
            self.tid: int = self.run(threading.get_native_id)
        except BaseException:
            self.close()
            raise

    def _main(self) -> None:
        # A signal would cut a running bpf(2) test-run short and leave its count unknown: signals are the main thread's.
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        while (job := self._jobs.get()) is not None:
            job.work()
            del job  # else its result would live until the next one

    def run(self, function: Callable[..., T], *args: Any) -> T:
        """The result of ``function(*args)`` run on this thread, in its namespace; its exception is raised here."""
        if threading.current_thread() is self._thread:
            return function(*args)
        job = _Job(lambda: function(*args))
        with self._gate:
            if self._closed:
                raise StateError(
                    f"The host {self.name} is closed.",
                    tried="to run something on it",
                    on=self.name,
                    remedy="make the lab again: run the cell that calls lk.Lab(…)",
                )
            self._jobs.put(job)
        job.done.wait()
        if job.error is not None:
            raise job.error
        result: T = job.result
        return result

    def spawn(self, function: Callable[[], Any], name: str) -> threading.Thread:
        """Start another thread in this namespace: a thread inherits it from the one that starts it. Join it yourself."""

        def work() -> None:
            function()

        def start() -> threading.Thread:
            thread = threading.Thread(target=work, name=f"lab-{self.name}-{name}", daemon=True)
            _start(thread)
            return thread

        return self.run(start)

    def close(self, last: Callable[[], Any] = lambda: None) -> None:
        """End the thread after the work already queued and ``last``, let go of the namespace. Safe to call again."""
        job = _Job(last)
        with self._gate:
            if self._closed:
                return
            self._closed = True
            self._jobs.put(job)
            self._jobs.put(None)
        self._thread.join()
        if hasattr(self, "fd"):
            os.close(self.fd)
        if job.error is not None:
            raise job.error


def _start(thread: threading.Thread) -> None:
    try:
        thread.start()
    except RuntimeError as error:  # "can't start new thread": Python keeps the errno to itself
        raise LabError(
            "This process may have no more threads.",
            tried="to start one",
            on=thread.name,
            remedy="close labs that are no longer needed, or raise the limit (ulimit -u)",
        ) from error


def _enter_new_namespace() -> None:
    if not _libc.unshare(_CLONE_NEWNET):
        return
    number = ctypes.get_errno()
    cause = OSError(number, os.strerror(number))
    if number == errno.EPERM:
        raise PrivilegeError(
            "This process may not make a network namespace.",
            tried="unshare(CLONE_NEWNET)",
            errno=number,
            remedy=privilege_remedy(),
        ) from cause
    if number == errno.ENOSPC:
        raise LabError(
            "The kernel allows no more network namespaces.",
            tried="unshare(CLONE_NEWNET)",
            errno=number,
            remedy="close labs that are no longer needed, or raise /proc/sys/user/max_net_namespaces",
        ) from cause
    raise cause


def _cookie() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        return int(struct.unpack("=Q", probe.getsockopt(socket.SOL_SOCKET, _SO_NETNS_COOKIE, 8))[0])


def namespace_inode(task: str = "thread-self") -> int:
    """The inode of the network namespace of ``/proc/<task>``; by default the calling thread's."""
    return os.stat(f"/proc/{task}/ns/net").st_ino


def namespace_cookie_of(pid: int) -> int:
    """The cookie of the namespace that process ``pid`` is in, read by a thread that enters it and ends there.

    Raises OSError where the process is gone or the kernel refuses.
    """
    found: list[int | OSError] = []

    def visit() -> None:
        try:
            fd = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
            try:
                if _libc.setns(fd, _CLONE_NEWNET):
                    raise OSError(ctypes.get_errno(), "setns")
                found.append(_cookie())
            finally:
                os.close(fd)
        except OSError as error:
            found.append(error)

    thread = threading.Thread(target=visit, name="lab-visit", daemon=True)
    thread.start()
    thread.join()
    if isinstance(found[0], OSError):
        raise found[0]
    return found[0]
