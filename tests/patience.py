"""How tests wait, and how they tell their own namespaces from a neighbour's: several test processes share the machine."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterable, Iterator

PATIENCE_S = 20.0  # what takes milliseconds may take seconds on a busy machine


def until(condition: Callable[[], object], what: str = "what was awaited", seconds: float = PATIENCE_S) -> None:
    """Return once ``condition`` holds; fails, naming ``what``, where it doesn't within ``seconds``."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"waited {seconds:g} s in vain for {what}"
        time.sleep(0.005)


@contextlib.contextmanager
def numbers_kept(namespaces: Iterable[str]) -> Iterator[None]:
    """Within, no other namespace gets the number of one of these (paths such as /proc/PID/ns/net).

    The kernel gives a number again as soon as its namespace has gone: the next lab on the machine may have it, and who
    then looks for the number finds a stranger's. A descriptor keeps the number taken, and no process in the namespace.
    """
    with contextlib.ExitStack() as stack:
        for path in namespaces:
            stack.callback(os.close, os.open(path, os.O_RDONLY | os.O_CLOEXEC))
        yield
