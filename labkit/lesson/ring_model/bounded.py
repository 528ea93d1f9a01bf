"""A student's function that must come to an end: one that goes round for ever is stopped, and told."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from typing import Any

from labkit.lesson.python_answer import AnswerError, called

__all__ = ["PATIENCE_S", "within"]

PATIENCE_S = 10.0
_AGAIN_S = 0.2


class _TooLongError(BaseException):
    """No Exception: ``except Exception`` in the student's code must not swallow it."""


def within(function: Callable[..., Any], *arguments: object, seconds: float | None = None) -> Any:
    """What ``function`` returns. Raises AnswerError for its errors, and where it hasn't returned after ``seconds``.

    It is stopped between two of its steps: a single call that waits for ever can't be.
    """
    limit = PATIENCE_S if seconds is None else seconds
    guard = _Guard(limit)
    try:
        try:
            return called("", function, *arguments)
        finally:
            guard.end()
    except _TooLongError:
        guard.end()
        raise AnswerError(
            f"Your code did not return within {limit:g} seconds.",
            tried="to call it",
            remedy="it is called again and again: do what can be done now, and return. A loop needs an end",
        ) from None


class _Guard:
    """Raises _TooLongError in the thread that made it, again and again, until ``end()``."""

    def __init__(self, seconds: float) -> None:
        self._whom = ctypes.c_ulong(threading.get_ident())
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._watch = threading.Thread(target=self._wait, args=(seconds,), name="lab-within", daemon=True)
        self._watch.start()

    def _wait(self, seconds: float) -> None:
        while not self._ended.wait(seconds):
            with self._lock:
                if not self._ended.is_set():
                    ctypes.pythonapi.PyThreadState_SetAsyncExc(self._whom, ctypes.py_object(_TooLongError))
            seconds = _AGAIN_S

    def end(self) -> None:
        """Stop watching. Safe to call again."""
        with self._lock:
            self._ended.set()
            ctypes.pythonapi.PyThreadState_SetAsyncExc(self._whom, None)  # one that is still under way
        self._watch.join()
