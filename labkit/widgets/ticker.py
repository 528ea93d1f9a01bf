"""The panel's clock: a thread that works ten times a second while somebody looks, else sleeps."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

__all__ = ["Ticker"]

_UNANSWERED = 2  # frames sent without an answer before the ticker waits


class Ticker:
    """Calls ``tick(seq)`` every ``interval_s`` on a thread of its own until ``stop``.

    The looker answers each frame (``acknowledge``). Where the last two went unanswered, as from a
    hidden tab, the thread sleeps until an answer or a ``hello`` comes. What ``tick`` raises goes to
    ``failed``; nothing is printed, and the ticks go on.
    """

    def __init__(
        self,
        tick: Callable[[int], None],
        failed: Callable[[Exception], None],
        *,
        interval_s: float = 0.1,
        name: str = "panel",
    ) -> None:
        self.interval_s = interval_s
        self._tick = tick
        self._failed = failed
        self._state = threading.Condition()
        self._stopped = False
        self._seq = 0
        self._answered = 0
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> Ticker:
        """Start the thread; the first tick comes at once."""
        self._thread.start()
        return self

    def stop(self) -> None:
        """Stop and wait for the thread, unless called from it. Safe to call again."""
        with self._state:
            self._stopped = True
            self._state.notify_all()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join()

    def acknowledge(self, seq: int) -> None:
        """The looker has drawn frame ``seq``."""
        with self._state:
            self._answered = max(self._answered, min(seq, self._seq))
            self._state.notify_all()

    def hello(self) -> None:
        """Somebody looks (again): go on, whatever is unanswered."""
        self.acknowledge(self._seq)

    @property
    def seq(self) -> int:
        """The number of the latest frame."""
        return self._seq

    @property
    def waiting(self) -> bool:
        """Whether nobody has answered lately."""
        return self._seq - self._answered >= _UNANSWERED

    @property
    def alive(self) -> bool:
        """Whether the thread runs."""
        return self._thread.is_alive()

    def cpu_s(self) -> float:
        """Seconds of a CPU that the thread has used; 0 where it doesn't run."""
        ident = self._thread.ident
        return time.clock_gettime(time.pthread_getcpuclockid(ident)) if ident is not None and self.alive else 0.0

    def _run(self) -> None:
        due = time.monotonic()
        while self._wait_until(due):
            try:
                self._tick(self._seq)
            except Exception as error:
                self._failed(error)
            # A tick that took too long shifts the ones after it: there is no catching up.
            due = max(due + self.interval_s, time.monotonic() + self.interval_s / 5)

    def _wait_until(self, due: float) -> bool:
        """Wait for the time and for a looker; False once stopped. Numbers the next frame."""
        with self._state:
            while not self._stopped:
                wait = due - time.monotonic()
                if self.waiting:
                    self._state.wait()
                elif wait > 0:
                    self._state.wait(wait)
                else:
                    self._seq += 1
                    return True
            return False
