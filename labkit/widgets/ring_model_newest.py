"""Work on a thread of its own, of which only the newest counts: what was asked before and not begun is dropped."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

__all__ = ["Newest"]

T = TypeVar("T")


class Newest(Generic[T]):
    """Calls ``work`` with what was asked last. The thread is there only while there is work: nothing is left when idle.

    ``work`` catches its own exceptions: there is nobody here who could tell them.
    """

    def __init__(self, work: Callable[[T], None], *, name: str) -> None:
        self._work, self._name = work, name
        self._state = threading.Condition()
        self._asked: list[T] = []  # none or one
        self._thread: threading.Thread | None = None
        self._stopped = False

    def ask(self, what: T) -> None:
        """Ask for work; returns at once."""
        with self._state:
            if self._stopped:
                return
            self._asked = [what]
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
                self._thread.start()

    def wait(self, seconds: float) -> bool:
        """Wait until all is done: whether it is. Called from the work itself it doesn't wait."""
        with self._state:
            if self._thread is threading.current_thread():
                return False
            return self._state.wait_for(lambda: self._thread is None, seconds)

    def stop(self) -> None:
        """Begin nothing more, and wait for what is under way. Safe to call again, and from the work itself."""
        with self._state:
            self._stopped, self._asked = True, []
            thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def _run(self) -> None:
        while True:
            with self._state:
                if not self._asked:
                    self._thread = None
                    self._state.notify_all()
                    return
                what = self._asked.pop()
            self._work(what)
