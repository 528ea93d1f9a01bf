"""Compilations that somebody else can stop: a button, while the thread that compiles waits for the child process."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from labkit.errors import CompileError

__all__ = ["CompileStopped", "Stop", "current", "stoppable"]


class CompileStopped(CompileError):
    """A compilation was stopped before it had a result. Nothing is wrong with the text, as far as is known."""


class Stop:
    """Ends one piece of work: ``set`` may be called by any thread, at any time, and more than once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._set = False
        self._end: Callable[[], None] | None = None

    def set(self) -> None:
        """Stop: at once where the compiler is at work for it, else before it gets its turn."""
        with self._lock:
            self._set = True
            if self._end is not None:
                self._end()

    @property
    def asked(self) -> bool:
        """Whether ``set`` was called."""
        return self._set

    def check(self, name: str = "") -> None:
        """Raises CompileStopped once ``set`` was called."""
        if self._set:
            raise CompileStopped(
                "the compilation was stopped, before it had a result",
                tried=f"to compile {name}".strip(),
                remedy="compile it again, or change the text first: look for a long loop that is unrolled, or macros "
                "that multiply one another",
            )

    @contextmanager
    def ends(self, end: Callable[[], None]) -> Iterator[None]:
        """Within, ``set`` also calls ``end``; never afterwards, when that would hit somebody else's work."""
        with self._lock:
            self._end = end
            if self._set:
                end()
        try:
            yield
        finally:
            with self._lock:
                self._end = None


_current: ContextVar[Stop | None] = ContextVar("stop", default=None)


def current() -> Stop | None:
    """The Stop for what this thread compiles now; None where nobody wants to stop it."""
    return _current.get()


@contextmanager
def stoppable(stop: Stop) -> Iterator[Stop]:
    """Within, what this thread compiles ends with CompileStopped once ``stop`` is set."""
    before = _current.set(stop)
    try:
        yield stop
    finally:
        _current.reset(before)
