"""Checks of what a caller asks for, before the kernel would say EINVAL to all of it."""

from __future__ import annotations

import platform
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labkit.errors import FeatureError, XskError

__all__ = ["check_addresses", "check_machine", "check_power_of_two", "check_seconds", "check_whole", "refused"]

# The program reads a position and then the entries, and writes entries and then the position. x86 keeps that order in
# what other CPUs see (Intel SDM volume 3, "Memory Ordering"). Others need a barrier between, which Python has not.
_ORDERED = ("x86_64", "AMD64")
_LONGEST_WAIT_S = 3600


def check_machine() -> None:
    """Raise FeatureError where the machine's memory order would need barriers between the accesses to a ring."""
    if platform.machine() not in _ORDERED:
        raise FeatureError(
            f"AF_XDP rings can't be shared with the kernel from Python on {platform.machine()}.",
            tried="to use memory that the kernel writes to at the same time",
            detail="This machine may show an entry of a ring older than the position that says it is there: a barrier "
            "has to stand between the two, and Python has none to offer.",
            remedy="use an x86-64 machine for this lesson",
        )


def check_whole(name: str, value: Any, low: int, high: int, tried: str) -> int:
    """``value`` where it is a whole number from ``low`` to ``high``; True and False are not numbers here."""
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise refused(f"{name} can't be {value!r}.", tried, f"give a whole number from {low:,} to {high:,}")
    return value


def check_power_of_two(name: str, value: Any, low: int, high: int, tried: str) -> int:
    """``value`` where it is a power of two from ``low`` to ``high``."""
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high or value & (value - 1):
        choice = ", ".join(f"{1 << n:,}" for n in range(low.bit_length() - 1, high.bit_length()))
        raise refused(f"{name} can't be {value!r}.", tried, f"give a power of two: {choice}")
    return value


def check_seconds(name: str, value: Any, tried: str) -> float:
    """``value`` where it is a number of seconds that somebody would wait."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= _LONGEST_WAIT_S:
        raise refused(f"{name} can't be {value!r}.", tried, f"give a number of seconds from 0 to {_LONGEST_WAIT_S:,}")
    return float(value)


def check_addresses(value: Any, tried: str) -> NDArray[np.uint64]:
    """``value`` where it can be addresses of frames."""
    if not isinstance(value, np.ndarray) or value.dtype != np.uint64 or value.ndim != 1:
        raise refused(f"{value!r} are no addresses.", tried, "give a Batch, or its addresses: a row of numpy's uint64")
    return value


def refused(message: str, tried: str, remedy: str, on: str = "", errno: int | None = None) -> XskError:
    """The error for an argument that can't be meant."""
    return XskError(message, tried=tried, on=on, remedy=remedy, errno=errno)
