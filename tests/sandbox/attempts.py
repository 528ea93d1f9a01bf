"""A register of hostile attempts, and how one is made: in a process of its own, with a deadline, its outcome in words."""

from __future__ import annotations

import errno
import os
import signal
import sys
import traceback
from collections.abc import Callable
from typing import Any

Facts = dict[str, Any]  # what the attacker knows of the machine: process numbers, paths, identifiers
ATTEMPTS: dict[str, Callable[[Facts], object]] = {}
CONTROLLED: list[str] = []  # those that root may make outside without harm: there they succeed
_DEADLINE_S = 10


class RefusedError(Exception):
    """No errno came, and yet it had no effect."""


def attempt(*, control: bool = False) -> Callable[[Callable[[Facts], object]], Callable[[Facts], object]]:
    """Register a function: it raises OSError or RefusedError where it is refused; what it returns is the proof."""

    def register(function: Callable[[Facts], object]) -> Callable[[Facts], object]:
        ATTEMPTS[function.__name__] = function
        if control:
            CONTROLLED.append(function.__name__)
        return function

    return register


def outcome(name: str, facts: Facts) -> str:
    """ "refused: EPERM", "SUCCEEDED: …" or "BROKEN: …" (a fault of the attempt itself)."""
    ours, theirs = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(ours)
        signal.alarm(_DEADLINE_S)
        os.write(theirs, _words(name, facts).encode()[:4000])
        os._exit(0)
    os.close(theirs)
    with open(ours, "rb") as file:
        words = file.read().decode()
    _, status = os.waitpid(child, 0)
    return words or f"BROKEN: ended with status {status}"


def _words(name: str, facts: Facts) -> str:
    try:
        return f"SUCCEEDED: {ATTEMPTS[name](facts)!r}"
    except OSError as error:
        return f"refused: {errno.errorcode.get(error.errno or 0, error)}"
    except RefusedError as error:
        return f"refused: {error}"
    except BaseException:
        return f"BROKEN: {traceback.format_exc(limit=-2)}"


def outcomes(names: list[str], facts: Facts) -> dict[str, str]:
    """Each attempt's outcome by its name."""
    sys.stdout.flush()
    return {name: outcome(name, facts) for name in names}
