"""Which test decided: each branch on the way is sent the other way, on its own, to see whether the verdict hangs on it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from labkit.analysis.interpret import Execution
from labkit.analysis.memory import Fault
from labkit.errors import AnalysisError
from labkit.follow.follower import Follower
from labkit.follow.models import CannotFollow
from labkit.follow.way import Branch
from labkit.uapi import MapType

__all__ = ["Decision", "decision_of"]

_MOST_BRANCHES = 96
_TELLING = ("frame", "answer", "entry")
_MOST_STEPS = 300_000  # of all that is tried, together


@dataclass(frozen=True)
class Decision:
    """``branch`` counts branches from 0; ``otherwise`` is the verdict had it gone the other way, None if that can't be:
    the program would have read where nothing is. ``check``: it is one that the verifier asks for, and went well.
    """

    branch: int
    otherwise: int | None
    check: bool = False


def decision_of(followed: Follower, run: Execution, again: Callable[[int], Follower]) -> Decision | None:
    """The last test that the verdict hangs on; else the last one of what the frame holds; else a check that went well.

    ``again(n)`` makes a follower that sends branch ``n`` the other way.
    """
    branches = [each for each in followed.way if isinstance(each, Branch)]
    steps, check, astray = 0, None, None
    for number in range(len(branches) - 1, max(-1, len(branches) - 1 - _MOST_BRANCHES), -1):
        other = again(number)
        found = _tried(other, number, run.verdict)
        steps += len(other.slots)
        passed = _passed_check(branches[number], followed)
        if found is not None and found.otherwise is not None and not passed:
            return found
        if found is not None and passed:
            check = check or replace(found, check=True)
        elif found is not None:
            astray = astray or found
        if steps > _MOST_STEPS:
            break
    if any(each.kind in ("answer", "map") for each in followed.origins[0]):
        return check  # the verdict is what a helper answered, or what a map holds
    told = _of_the_frame(branches, followed, run.verdict)
    return max((each for each in (told, astray) if each is not None), key=lambda each: each.branch, default=check)


def _of_the_frame(branches: list[Branch], followed: Follower, verdict: int) -> Decision | None:
    """The last test of the frame, or of what the kernel said of it: these bytes are treated alike either way, others aren't."""
    for number in range(len(branches) - 1, -1, -1):
        origins = branches[number].left.origins | branches[number].right.origins
        telling = any(each.kind in _TELLING or each.name == "data_end" for each in origins)
        if telling and not _passed_check(branches[number], followed):
            return Decision(number, verdict)
    return None


def _tried(other: Follower, number: int, verdict: int) -> Decision | None:
    try:
        otherwise = other.run().verdict
    except Fault:
        return Decision(number, None)
    except (CannotFollow, AnalysisError):
        return None
    return Decision(number, otherwise) if otherwise != verdict else None


def _passed_check(branch: Branch, followed: Follower) -> bool:
    """Whether it is a check that the verifier asks for, and went well: the frame is long enough, an array has the entry."""
    left, right = branch.left, branch.right
    pointers = [side.pointer for side in (left, right) if side.pointer is not None]
    if len(pointers) == 2 and all(pointer[0] == "packet" for pointer in pointers):
        ends = [any(o.name == "data_end" for o in side.origins) for side in (left, right)]
        if ends == [False, True]:
            return branch.taken == (branch.operation in ("le", "lt"))
        return branch.taken == (branch.operation in ("ge", "gt"))
    entry = next((each for each in left.origins if each.kind == "entry"), None)
    if entry is not None and right.constant and right.number == 0:
        arrays = (MapType.ARRAY, MapType.PERCPU_ARRAY)
        found = (branch.operation == "ne") == branch.taken
        return found and entry.name in followed.maps and followed.maps[entry.name].spec.type in arrays
    return False
