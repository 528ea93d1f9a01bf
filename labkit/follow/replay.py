"""lk.explain: one frame through a program, by the kernel and by the follower beside it, and what became of it."""

from __future__ import annotations

import errno
import os
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from labkit.analysis.arithmetic import MASK64
from labkit.analysis.code import Code, Line
from labkit.analysis.from_spec import code_of_spec
from labkit.analysis.interpret import Execution
from labkit.analysis.memory import Fault
from labkit.errors import AnalysisError, LabError, StateError, TopologyError, kernel_word, resources
from labkit.follow.answers import FIXED, FIXED_IN_WORDS, Answers
from labkit.follow.buffer import longest_frame
from labkit.follow.copies import COPIED, Content, contents, loaded
from labkit.follow.deciding import Decision, decision_of
from labkit.follow.follower import Follower
from labkit.follow.models import CannotFollow
from labkit.interface import Interface
from labkit.kernel.test_run import FrameRun, run_frame
from labkit.program.map import Map
from labkit.program.program import Program
from labkit.program.relocate import kernel_function
from labkit.uapi import ProgType

__all__ = ["Replay", "Replayed"]

T = TypeVar("T")
Changes = dict[tuple[str, bytes], tuple[bytes | None, bytes | None]]
_TRIED = "to replay a frame"
_LEAST, _MOST = 14, 65_535  # bytes: BPF_PROG_TEST_RUN takes no frame without an Ethernet header
_LOOPBACK = 1


@dataclass(frozen=True)
class Replayed:
    """What one replay found. ``kernel`` is None where the kernel can't run the copy, and ``kernel_why`` says why.

    ``run`` is the follower's end, None where it stopped before (``stopped`` says why). ``differs`` says what the two
    disagree on, "" for nothing.
    """

    kernel: FrameRun | None
    kernel_why: str
    follower: Follower
    run: Execution | None
    stopped: str
    differs: str
    changes: Changes
    decision: Decision | None


class Replay:
    """A program to replay frames through, as received at ``interface`` on receive queue ``queue``.

    ``interface``: by default the one it is bound or attached to; without any, this process' own loopback. Nothing of the
    program's own is touched: each replay makes a copy, with copies of its maps as they are then. With ``silent_driver`` a
    driver that is asked for hints has none. Raises StateError for what is no XDP program, TopologyError for what is no
    interface.
    """

    def __init__(
        self, program: Program, interface: Interface | None = None, queue: int = 0, *, silent_driver: bool = False
    ) -> None:
        if not isinstance(program, Program) or program.type is not ProgType.XDP:
            raise StateError(
                f"{program!r} is no loaded XDP program."
                if isinstance(program, Program)
                else f"{program!r} is no program.",
                tried=_TRIED,
                remedy="give what lab.load(…) returned for an XDP program",
            )
        if interface is not None and not isinstance(interface, Interface):
            raise TopologyError(
                f"{interface!r} is no interface.", tried=_TRIED, remedy='give one, as lab["server"]["eth0"]'
            )
        if isinstance(queue, bool) or not isinstance(queue, int) or not 0 <= queue < 1 << 16:
            raise StateError(f"queue can't be {queue!r}.", tried=_TRIED, remedy="receive queues count from 0")
        self.program, self.queue = program, queue
        self.interface = interface if interface is not None else place_of(program)
        self.code: Code = code_of_spec(program.spec, program.name)
        self.line_of: Mapping[int, Line | None] = {slot: self.code.line_at(slot) for slot in self.code.instructions}
        called = {callee.helper for callee in self.code.callees.values() if callee.helper is not None}
        kinds = {number: FIXED[number] for number in called & set(FIXED)}
        if silent_driver:
            kinds |= {number: "driver" for number in called if kernel_function(number) is not None}
        self._kinds = dict(sorted(kinds.items()))

    @property
    def notes(self) -> tuple[str, ...]:
        """What a replay of this program does otherwise than a real packet would meet it."""
        return tuple(FIXED_IN_WORDS[kind] for kind in dict.fromkeys(self._kinds.values()))

    @resources(_TRIED)
    def run(self, frame: bytes, metadata: bytes = b"") -> Replayed:
        """Replay ``frame``, with ``metadata`` before it. Raises StateError where a map can't be copied, LabError."""
        frame, metadata = checked(frame, metadata)
        found = contents(self.program)
        fixed = self._fixed()
        cpu = min(os.sched_getaffinity(0))
        try:
            with loaded(self.program, found, fixed) as (fd, maps):
                kernel, why = self._in_kernel(fd, frame, metadata, cpu)
                return self._beside(frame, metadata, found, fixed, maps, kernel, why, cpu)
        except StateError as error:
            if error.errno is None:
                raise
            return self._beside(frame, metadata, found, fixed, {}, None, error.message, cpu)

    def _fixed(self) -> dict[int, int]:
        answers = {
            "time": time.clock_gettime_ns(time.CLOCK_MONOTONIC),
            "ticks": 0,
            "chance": random.getrandbits(32),
            "print": 0,
            "driver": -errno.ENODATA & MASK64,
        }
        return {number: answers[kind] for number, kind in self._kinds.items()}

    def _in_kernel(self, fd: int, frame: bytes, metadata: bytes, cpu: int) -> tuple[FrameRun | None, str]:
        ifindex = self.interface.ifindex if self.interface is not None else 0

        def job() -> FrameRun:
            allowed = os.sched_getaffinity(0)
            os.sched_setaffinity(0, {cpu})  # so that it is known which CPU's values count
            try:
                return run_frame(fd, frame, metadata=metadata, ifindex=ifindex, queue=self.queue)
            finally:
                os.sched_setaffinity(0, allowed)

        try:
            return self._there(job), ""
        except OSError as error:
            return None, f"The kernel would not run it on this frame: {kernel_word(error.errno or 0)}."

    def _there(self, job: Callable[[], T]) -> T:
        """In the interface's namespace."""
        return job() if self.interface is None else self.interface.run(job)

    def _beside(
        self,
        frame: bytes,
        metadata: bytes,
        found: Mapping[str, Content],
        fixed: Mapping[int, int],
        maps: Mapping[str, Map],
        kernel: FrameRun | None,
        why: str,
        cpu: int,
    ) -> Replayed:
        """The follower's run, what the kernel's copies of the maps hold now, and whether both agree."""
        changed = _changes(found, maps, cpu) if kernel is not None else {}
        place = (self.interface.ifindex if self.interface is not None else _LOOPBACK, self.queue)
        answers = Answers(fixed, {name: each.fd for name, each in maps.items()}, cpu, place, self._there)

        def follower(flip: int | None = None) -> Follower:
            most = 200_000 if flip is None else 20_000
            given: Any = {"cpu": cpu, "place": place, "flip": flip, "most": most}
            return Follower(self.code, frame, metadata, found, answers, **given)

        followed, run, stopped = follower(), None, ""
        try:
            if len(frame) > longest_frame():
                raise CannotFollow(f"a frame of more than {longest_frame():,} bytes comes in pieces")
            run = followed.run()
        except CannotFollow as error:
            stopped = str(error)
        except (Fault, AnalysisError) as error:
            stopped = f"the follower went astray: {error.message if isinstance(error, LabError) else error}"
        differs = _difference(kernel, changed, followed, run) if kernel is not None and run is not None else ""
        decision = decision_of(followed, run, follower) if run is not None and not differs else None
        return Replayed(kernel, why, followed, run, stopped, differs, changed, decision)


def checked(frame: bytes, metadata: bytes) -> tuple[bytes, bytes]:
    """Both as bytes. Raises StateError for what the kernel could not run a program on."""
    for what, given in (("frame", frame), ("metadata", metadata)):
        if not isinstance(given, (bytes, bytearray, memoryview)):
            raise StateError(
                f"A {what} is bytes, not {type(given).__name__}.",
                tried=_TRIED,
                remedy="give bytes, as lk.udp(…) makes them",
            )
    if not _LEAST <= len(frame) <= _MOST:
        raise StateError(
            f"A frame of {len(frame):,} bytes can't be replayed.",
            tried=_TRIED,
            remedy=f"the kernel takes {_LEAST} (an Ethernet header) to {_MOST:,} bytes",
        )
    if len(metadata) % 4 or len(metadata) > 252:
        raise StateError(
            f"{len(metadata)} bytes of metadata can't be.",
            tried=_TRIED,
            remedy="use whole words of 4 bytes, 252 at most",
        )
    return bytes(frame), bytes(metadata)


def place_of(program: Program) -> Interface | None:
    """Where a program is bound, or attached in its lab; None where it is nowhere."""
    if isinstance(program.device, Interface):
        return program.device
    lab = getattr(program.attacher, "__self__", None)
    found = (link.interface for link in list(getattr(lab, "attached", ())) if link.program is program)
    return next((each for each in found if isinstance(each, Interface)), None)


def _changes(found: Mapping[str, Content], maps: Mapping[str, Map], cpu: int) -> Changes:
    """What the run changed in the kernel's copies, by map and key; of per-CPU values that of ``cpu``."""
    changes: Changes = {}
    for name, content in found.items():
        if content.spec.type not in COPIED:
            continue
        after = dict(maps[name].raw_items())
        zero = bytes(0)
        for key in {*content.entries, *after}:
            before, now = content.entries.get(key, zero), after.get(key, zero)
            if before != now:
                changes[name, key] = (_part(content, before, cpu), _part(content, now, cpu))
    return changes


def _part(content: Content, raw: bytes, cpu: int) -> bytes | None:
    if not raw:
        return None
    spec = content.spec
    stride = (spec.value_size + 7) & ~7 if spec.type.per_cpu else 0
    return raw[cpu * stride : cpu * stride + spec.value_size]


def _difference(kernel: FrameRun, changed: Changes, followed: Follower, run: Execution) -> str:
    """What the follower and the kernel disagree on."""
    if kernel.verdict != run.verdict:
        return f"the kernel's verdict is {kernel.verdict}, the follower's {run.verdict}"
    if kernel.frame != followed.buffer.frame:
        return "the frame's bytes afterwards are not the same"
    if kernel.metadata != followed.buffer.metadata:
        return "the metadata afterwards is not the same"
    ours = {
        (name, key): change
        for name, model in followed.maps.items()
        if model.spec.type in COPIED
        for key, change in model.changes().items()
    }
    same = {key: each for key, each in changed.items() if each[0] != each[1]}
    return "" if ours == same else "the maps afterwards are not the same"
