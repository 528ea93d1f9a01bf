"""Every way through a program from some place on, with what is known at each.

A place is an instruction and the calls that led to it, so a subprogram is walked through once for each of its callers.

``walk`` joins what is known where ways meet, so it always ends, and each place has one state. ``search`` keeps ways apart
as long as something is known differently on them: it finds the way that breaks a claim, not one that only meets it, but
gives up where there are too many.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from labkit.analysis.code import Code
from labkit.analysis.instruction import Instruction
from labkit.analysis.opcodes import Kind
from labkit.analysis.state import State
from labkit.analysis.transfer import after, after_call, taken
from labkit.errors import AnalysisError

__all__ = ["Place", "Walk", "entries", "search", "steps", "walk"]

MOST_FRAMES = 8  # MAX_CALL_FRAMES, include/linux/bpf_verifier.h
MOST_PLACES = 200_000
MOST_WAYS = 5_000


@dataclass(frozen=True)
class Place:
    """Slot ``slot``, entered through ``root`` (where the kernel enters: 0, or a callback) and ``calls`` (the slots of the
    calls that haven't returned, outermost first).
    """

    slot: int
    calls: tuple[int, ...] = ()
    root: int = 0

    def at(self, slot: int) -> Place:
        """Another slot of the same call."""
        return Place(slot, self.calls, self.root)


@dataclass
class Walk:
    """What was found: the state at each place reached, and the place from which it was reached first."""

    states: dict[Place, State] = field(default_factory=dict)
    before: dict[Place, Place | None] = field(default_factory=dict)

    def path_to(self, place: Place) -> tuple[Place, ...]:
        """Places from the start to ``place``, both included."""
        path: list[Place] = []
        at: Place | None = place
        while at is not None:
            path.append(at)
            at = self.before[at]
        return tuple(reversed(path))


Stop = Callable[[Place, State, Instruction], bool]


def entries(code: Code) -> dict[Place, State]:
    """Where the kernel comes in: at the first slot, and in functions that helpers call."""
    found = {Place(0): State.entry()}
    found.update({Place(f.start, (), f.start): State.callback() for f in code.functions if f.callback})
    return found


def walk(code: Code, starts: dict[Place, State], stop: Stop | None = None) -> Walk:
    """Walk from ``starts``; where ``stop`` says True at a place, nothing after it is looked at.

    ``stop`` is asked again whenever less is known of a place than before. Raises AnalysisError where a program calls
    itself, deeper than the kernel allows, or has too many places.
    """
    done = Walk(dict(starts), dict.fromkeys(starts))
    queue, waiting = deque(starts), set(starts)
    while queue:
        place = queue.popleft()
        waiting.discard(place)
        state, each = done.states[place], code.instructions[place.slot]
        if stop is not None and stop(place, state, each):
            continue
        for to, known in steps(code, place, state, each):
            old = done.states.get(to)
            new = known if old is None else old.joined(known)
            if old == new:
                continue
            done.states[to] = new
            done.before.setdefault(to, place)
            if to not in waiting:
                waiting.add(to)
                queue.append(to)
        if len(done.states) > MOST_PLACES:
            raise _too_large(code)
    return done


def search(code: Code, start: Place, state: State, stop: Stop) -> tuple[Place, ...] | None:
    """The shortest way from ``start`` to where ``stop`` says True, both ends included; () where there is none.

    None: there are too many ways to tell.
    """
    before: dict[Hashable, Hashable | None] = {(start, state.key): None}
    queue = deque([(start, state)])
    while queue and len(before) <= MOST_WAYS:
        place, state = queue.popleft()
        here = (place, state.key)
        each = code.instructions[place.slot]
        if stop(place, state, each):
            return _back(before, here)
        for to, known in steps(code, place, state, each):
            if (to, known.key) not in before:
                before[to, known.key] = here
                queue.append((to, known))
    return None if queue else ()


def _back(before: Mapping[Hashable, Any], last: Any) -> tuple[Place, ...]:
    way = []
    while last is not None:
        way.append(last[0])
        last = before[last]
    return tuple(reversed(way))


def steps(code: Code, place: Place, state: State, each: Instruction) -> Iterator[tuple[Place, State]]:
    """Where it can go on from a place, and what is known there."""
    if each.kind is Kind.EXIT:
        if place.calls:
            back = Place(code.instructions[place.calls[-1]].following, place.calls[:-1], place.root)
            yield back, state.returned()
    elif each.kind is Kind.CALL:
        callee = code.callees[place.slot]
        if callee.target is not None:
            yield _entered(code, place, callee.target), state.called()
        else:
            yield place.at(each.following), after_call(state, callee.helper)
    elif each.kind is Kind.BRANCH and each.target is not None:
        way = taken(state, each)
        if way is not True:
            yield place.at(each.following), state
        if way is not False:
            yield place.at(each.target), state
    else:
        known = after(state, each)
        for slot in each.successors:
            yield place.at(slot), known


def _entered(code: Code, place: Place, target: int) -> Place:
    calls = (*place.calls, place.slot)
    if len(calls) >= MOST_FRAMES:
        raise AnalysisError(
            f"Calls go {len(calls) + 1} functions deep, or round in a circle; the kernel allows {MOST_FRAMES}.",
            slot=place.slot,
            tried="to follow a program's calls",
            on=code.name,
            remedy="the kernel would not load it either",
        )
    return Place(target, calls, place.root)


def _too_large(code: Code) -> AnalysisError:
    return AnalysisError(
        f"{code.name} has more than {MOST_PLACES:,} places to look at.",
        tried="to walk through a program",
        on=code.name,
        remedy="analyse its functions one by one",
    )
