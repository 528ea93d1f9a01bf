"""The editor's work on a thread of its own: the page is heard while the compiler is busy, and can stop it."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from labkit.compile.stopping import Stop, stoppable
from labkit.errors import StateError

__all__ = ["Work"]

_MOST_WAITING = 20
_THREAD = "editor"


class Work:
    """One piece of work after another; ``at_work`` and ``seconds`` tell of the one under way, ``stop`` ends its compiling.

    ``do`` brackets work on the caller's thread, ``order`` gives it to a thread that lives as long as there is some.
    """

    def __init__(self, changed: Callable[[], None]) -> None:
        self._changed = changed  # called when work begins
        self._turn = threading.RLock()
        self._lock = threading.Lock()
        self._waiting: deque[Callable[[], None]] = deque()
        self._thread: threading.Thread | None = None
        self._stop: Stop | None = None
        self._began = 0.0
        self.at_work = ""
        self.ended = False

    @property
    def seconds(self) -> float:
        """For how long the work under way has been at it; 0 for none."""
        return time.monotonic() - self._began if self.at_work else 0.0

    @property
    def idle(self) -> bool:
        """Whether nothing is under way, and nothing waits."""
        with self._lock:
            return not self.at_work and not self._waiting and self._thread is None

    @contextmanager
    def do(self, what: str) -> Iterator[Stop]:
        """The turn of ``what``, as "compiling": within, compilations end when somebody stops them."""
        with self._turn, stoppable(Stop()) as stop:
            before = self._stop, self.at_work, self._began
            with self._lock:
                self._stop, self.at_work, self._began = stop, what, time.monotonic()
                if self.ended:
                    stop.set()
            try:
                self._changed()
                yield stop
            finally:
                with self._lock:
                    self._stop, self.at_work, self._began = before

    def done(self) -> None:
        """The work under way has its result: what is shown from now on shows it as ended."""
        self.at_work = ""

    def order(self, work: Callable[[], None]) -> None:
        """Do ``work`` soon, after what was ordered before; it must see to its own errors. Raises StateError."""
        with self._lock:
            if len(self._waiting) >= _MOST_WAITING:
                raise StateError(
                    f"{_MOST_WAITING} orders wait already.",
                    tried="to give the editor work",
                    remedy="stop what it is at, or wait",
                )
            self._waiting.append(work)
            if self._thread is None:
                self._thread = threading.Thread(target=self._work_off, name=_THREAD, daemon=True)
                self._thread.start()

    def wait(self, timeout_s: float = 60.0) -> bool:
        """Wait until all that was ordered is done; whether it is."""
        with self._lock:
            thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(timeout_s)
        return self.idle

    def _work_off(self) -> None:
        while True:
            with self._lock:
                if not self._waiting:
                    self._thread = None
                    return
                work = self._waiting.popleft()
            work()

    def stop(self) -> bool:
        """Stop the compilation under way, and forget what waits; whether anything was under way. Waits for nothing."""
        with self._lock:
            stop, at_work = self._stop, self.at_work
            self._waiting.clear()
        if stop is None or not at_work:
            return False
        stop.set()
        return True

    def end(self) -> None:
        """For good: what is under way is stopped, and the thread has gone within moments."""
        self.ended = True
        self.stop()
