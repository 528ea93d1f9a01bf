"""What a measurement of metadata can be asked for: each refusal names what was given and what would do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from labkit.errors import LessonError
from labkit.lesson.hints_cost import NEVER, Composer
from labkit.lesson.race import runs_scaled, scaled
from labkit.lesson.workshop import LONGEST_QUEUE

__all__ = ["check_composers", "check_threshold", "checked_counts", "checked_sizes"]

_SMALLEST, _LARGEST = 42, 3_400  # bytes: a UDP datagram without payload; what the generator has room for
_MOST_RUNS = 10_000
_TRIED = "to measure what metadata costs"


def checked_sizes(sizes: Any, *, least: int = 1) -> tuple[int, ...]:
    """The frame sizes in bytes: ``least`` or more, which rise. Raises LessonError."""
    given = tuple(sizes) if isinstance(sizes, Sequence) and not isinstance(sizes, (str, bytes)) else ()
    whole = all(isinstance(size, int) and _SMALLEST <= size <= _LARGEST for size in given)
    if not whole or len(given) < least or list(given) != sorted(set(given)):
        raise _refused(
            f"{sizes!r} can't be the frame sizes",
            f"give {least} or more that rise, of {_SMALLEST} to {_LARGEST:,} bytes, as (64, 256)",
        )
    return given


def checked_counts(packets: Any, runs: Any, usual: tuple[int, int], name: str = "pairs") -> tuple[int, int]:
    """Packets a run, and runs; ``usual`` as ``$LAB_SCALE`` would have it where None is given. Raises LessonError."""
    for what, value, most in (("packets", packets, LONGEST_QUEUE), (name, runs, _MOST_RUNS)):
        if value is not None and (isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most):
            raise _refused(f"{what} can't be {value!r}", f"give a whole number from 1 to {most:,}")
    number = scaled(usual[0]) if packets is None else packets
    return min(number, LONGEST_QUEUE), runs_scaled(usual[1]) if runs is None else runs


def check_composers(composers: Sequence[Any]) -> None:
    """Raise LessonError unless each composes metadata."""
    for each in composers:
        if not isinstance(each, Composer) or each is Composer.NOBODY:
            fitting = ", ".join(known.name for known in Composer if known is not Composer.NOBODY)
            raise _refused(f"{each!r} is no composer of metadata", f"use one of lesson.Composer: {fitting}")


def check_threshold(threshold: Any) -> None:
    """Raise LessonError unless it can be a frame size from which on metadata is composed."""
    if isinstance(threshold, bool) or not isinstance(threshold, int) or not 0 <= threshold <= NEVER:
        raise _refused(
            f"The threshold can't be {threshold!r}",
            f"give a whole number of bytes: 0 for every frame, {NEVER:,} for none",
        )


def _refused(message: str, remedy: str) -> LessonError:
    return LessonError(f"{message}.", tried=_TRIED, remedy=remedy)
