"""lk.explain: a frame's way through a program as a Trace."""

from __future__ import annotations

from pathlib import PurePath

from labkit.analysis.code import Line
from labkit.follow.replay import Replay, Replayed
from labkit.follow.trace import Change, Mark, Step, Trace
from labkit.follow.way import Branch
from labkit.follow.words import Naming, verdict_name
from labkit.interface import Interface
from labkit.program.program import Program

__all__ = ["explain", "explained"]

_MOST_STEPS = 2_000
_REPLAYED = (
    "Replayed by the kernel (BPF_PROG_TEST_RUN) on a copy of the program with copies of its maps as they are now: nothing of "
    "yours is counted, and nothing is sent. An XDP_REDIRECT is what the program wants; whether the way is open isn't tried."
)
_TAGS = "Which line an instruction belongs to is the compiler's word: it may join lines that end alike."


def explain(
    program: Program,
    frame: bytes,
    *,
    interface: Interface | None = None,
    queue: int = 0,
    metadata: bytes = b"",
    silent_driver: bool = False,
) -> Trace:
    """Why ``program`` decides as it does on this very ``frame``: the kernel's verdict, and the way through the C text.

    ``interface`` is where the frame is to be received (by default where the program is attached), on receive queue
    ``queue``, with ``metadata`` before it. The program itself, its maps and counters aren't touched: a copy runs, once.
    A replay has no driver to ask for hints; with ``silent_driver`` it is taken to have none.
    Raises StateError where the program can't be copied or the frame can't be replayed, TopologyError, LabError.
    """
    replay = Replay(program, interface, queue, silent_driver=silent_driver)
    return explained(replay, frame, replay.run(frame, metadata), metadata)


def explained(replay: Replay, frame: bytes, found: Replayed, metadata: bytes = b"") -> Trace:
    """What a replay found, for people."""
    naming = Naming(replay.program.spec, bytes(frame), found.follower.keys)
    trusted = not found.differs
    steps = _steps(replay, found, naming) if trusted else ()
    last = next((each for each in steps if each.decides), None)
    decision = found.decision
    reason = _reason(found, naming, steps) if trusted else ""
    if found.kernel is None or (decision is not None and decision.check and reason):
        last = None
    otherwise = verdict_name(decision.otherwise) if decision is not None and decision.otherwise is not None else ""
    if last is None:
        otherwise = ""
    elif not otherwise:
        otherwise = "it would have read where nothing is"
    verdict = found.kernel.verdict if found.kernel is not None else None
    spec = replay.program.spec
    return Trace(
        program=replay.program.name,
        place=replay.interface.where if replay.interface is not None else "no interface",
        frame=bytes(frame),
        verdict=verdict,
        verdict_name=verdict_name(verdict),
        steps=steps,
        marks=_marks(replay, found) if trusted else (),
        last_branch=last,
        otherwise=otherwise,
        reads=naming.reads(found.follower.reads) if trusted else (),
        changes=_changes(found, naming),
        problem=_problem(replay, found),
        notes=(*((_REPLAYED,) if found.kernel is not None else ()), *replay.notes, _TAGS),
        source=spec.source,
        file=own_file(replay),
        metadata=bytes(metadata),
        result=found.kernel.frame if found.kernel is not None else b"",
        result_metadata=found.kernel.metadata if found.kernel is not None else b"",
        reason=reason,
    )


def own_file(replay: Replay) -> str:
    """The name that the line information has for the program's own text."""
    spec = replay.program.spec
    ends = PurePath(spec.path or f"{spec.name}.c").name
    files = {line.file for line in replay.line_of.values() if line is not None}
    return min((each for each in files if PurePath(each).name == ends), key=len, default=ends)


def _vias(replay: Replay, slots: list[int]) -> dict[int, int]:
    """For each place in ``slots``: the line of the program's own text that was the last before it, or comes next."""
    own, via, found = own_file(replay), 0, {}
    first = next((line.number for slot in slots if (line := replay.line_of[slot]) is not None and line.file == own), 0)
    for at, slot in enumerate(slots):
        line = replay.line_of[slot]
        if line is not None and line.file == own:
            via = line.number
        found[at] = via or first
    return found


def _steps(replay: Replay, found: Replayed, naming: Naming) -> tuple[Step, ...]:
    slots, own = found.follower.slots, own_file(replay)
    vias, at, tests, made = _vias(replay, slots), 0, 0, []
    for number, each in enumerate(found.follower.way[:_MOST_STEPS], 1):
        at = slots.index(each.slot, at)
        line = replay.line_of[each.slot] or Line("", 0, "")
        test = isinstance(each, Branch)
        decides = test and found.decision is not None and found.decision.branch == tests
        tests += test
        step = Step(
            number=number,
            slot=each.slot,
            kind="test" if test else "call",
            file="" if line.file == own else line.file,
            line=line.number,
            text=line.text,
            via=vias[at],
            words=naming.branch(each) if isinstance(each, Branch) else naming.called(each),
            taken=each.taken if isinstance(each, Branch) else None,
            decides=decides,
            reads=naming.read_by(each) if isinstance(each, Branch) else (),
        )
        made.append(step)
        at += 1
    return tuple(made)


def _marks(replay: Replay, found: Replayed) -> tuple[Mark, ...]:
    own, times, last = own_file(replay), dict[int, int](), 0
    for slot in found.follower.slots:
        line = replay.line_of[slot]
        here = line.number if line is not None and line.file == own else 0
        if here and here != last:
            times[here] = times.get(here, 0) + 1
        last = here or last
    return tuple(Mark(line, number) for line, number in sorted(times.items()))


def _changes(found: Replayed, naming: Naming) -> tuple[Change, ...]:
    return tuple(
        Change(naming.entry(name, key), naming.value(name, before), naming.value(name, after))
        for (name, key), (before, after) in sorted(found.changes.items(), key=lambda each: each[0])
        if before != after
    )


def _problem(replay: Replay, found: Replayed) -> str:
    if found.differs:
        return f"The way is not shown: {found.differs}. The verdict is the kernel's."
    said = ""
    if found.stopped:
        slots = found.follower.slots
        line = replay.line_of[slots[-1]] if slots else None
        place = f"line {line.number}" if line is not None and line.file == own_file(replay) else "its beginning"
        if line is not None and line.file != own_file(replay):
            place = f"{line.file}:{line.number}"
        said = f"Followed up to {place}: {found.stopped}." if slots else f"Not followed: {found.stopped}."
    if found.kernel is None:
        said = f"{found.kernel_why} {said or 'The marks are what the follower found, and nothing to hold it against.'}"
    return said.strip()


def _reason(found: Replayed, naming: Naming, steps: tuple[Step, ...]) -> str:
    """What the verdict came from, where no test decided it."""
    origins = found.follower.origins[0]
    answers = [each for each in origins if each.kind == "answer"]
    named = answers or [each for each in origins if each.kind in ("map", "frame")]
    calls = [each for each in steps if each.kind == "call" and answers and answers[0].name in each.words]
    if calls:
        return f"{calls[-1].words}, {calls[-1].where}"
    if named:
        return f"the verdict was read from {naming.origin(named[0])}"
    return ""
