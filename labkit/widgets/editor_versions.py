"""The versions of a program at one interface: compiled, loaded, swapped in under traffic, and put back."""

from __future__ import annotations

import difflib
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from labkit.compile import compile_source
from labkit.compile.stopping import current
from labkit.errors import LabError, StateError
from labkit.interface import Interface
from labkit.lab import Lab
from labkit.program.link import Link, Mode
from labkit.program.program import Program
from labkit.program.reuse import Handover, handover
from labkit.program.spec import ProgramSpec
from labkit.uapi import ProgFlag

__all__ = ["Origin", "Version", "Versions"]

_KEPT_LOADED = 16  # versions whose program stays in the kernel; an older one is loaded anew when it is wanted
_KEPT = 100


@dataclass(frozen=True)
class Origin:
    """Where a text came from: ``name`` for messages, ``path`` of its file or None, and the function that is to run."""

    name: str | None = None
    path: str | None = None
    function: str | None = None

    @property
    def cflags(self) -> tuple[str, ...]:
        """Headers beside the file are found, though the text is not compiled from there."""
        return (f"-I{Path(self.path).absolute().parent}",) if self.path else ()


@dataclass(repr=False, eq=False)
class Version:
    """One text that ran: ``number`` counts from 1; ``time_s`` is the clock's when it was put in place."""

    number: int
    spec: ProgramSpec
    program: Program
    handover: Handover
    time_s: float
    seconds: Mapping[str, float] = field(default_factory=dict)  # what each step took: compile, load, swap
    frags: bool = False
    _counted: dict[str, int] = field(default_factory=dict)
    _begun: dict[str, int] | None = None

    @property
    def text(self) -> str:
        """The C text."""
        return self.spec.source

    @property
    def name(self) -> str:
        """The C function's name."""
        return self.program.name

    @property
    def tag(self) -> str:
        """The kernel's hash of the instructions: the same for texts that differ in comments alone."""
        return self.program.tag

    def verdicts(self) -> dict[str, int] | None:
        """Packets by verdict while this version ran; None where it keeps no count."""
        now = self.program.verdicts() if self._begun is not None else None
        if now is None and not self._counted:
            return None if self.program.verdicts() is None else {}
        return self._sum(now)

    def _sum(self, now: Mapping[str, int] | None) -> dict[str, int]:
        total = dict(self._counted)
        for verdict, count in (now or {}).items():
            gained = count - (self._begun or {}).get(verdict, 0)
            if gained:
                total[verdict] = total.get(verdict, 0) + gained
        return total

    def __repr__(self) -> str:
        since = time.strftime("%H:%M:%S", time.localtime(self.time_s))
        return f"<version {self.number}: {self.name}, tag {self.tag}, put in place at {since}>"

    def begin(self, now: dict[str, int] | None) -> None:
        """It runs from now on; its map holds ``now``."""
        self._begun = now

    def end(self, now: dict[str, int] | None) -> None:
        """It ran until now."""
        if self._begun is not None:
            self._counted, self._begun = self._sum(now), None


class Versions:
    """What ran at ``interface``, and what runs. A swap is atomic; whatever fails, the running program goes on."""

    def __init__(self, lab: Lab, interface: Interface, mode: Mode, origin: Origin) -> None:
        self.lab, self.interface, self.mode, self.origin = lab, interface, mode, origin
        self.all: list[Version] = []
        self.functions: tuple[str, ...] = ()
        self.lock = threading.RLock()
        self._count = 0
        self._running: Version | None = None

    @property
    def link(self) -> Link | None:
        """What is attached there now, by whomever in this lab."""
        return next((link for link in list(self.lab.attached) if link.interface.where == self.interface.where), None)

    @property
    def running(self) -> Version | None:
        """The version that runs; a program put there by other hands becomes a version when it is first seen."""
        with self.lock:
            link = self.link
            program = link.program if link is not None else None
            if self._running is None or self._running.program is not program:
                if self._running is not None:
                    self._running.end(self._running.program.verdicts())
                self._running = self._seen(program) if program is not None else None
                if self._running is not None:
                    self._running.begin(self._running.program.verdicts())
            return self._running

    def _seen(self, program: Program) -> Version:
        known = next((each for each in self.all if each.program is program), None)
        return known or self._add(program, Handover(), {})

    def compiled(self, text: str) -> ProgramSpec:
        """``text``, compiled. Raises CompileError."""
        spec = compile_source(text=text, name=self.origin.name, cflags=self.origin.cflags)
        if (stop := current()) is not None:
            stop.check(self.origin.name or "")  # it came with the result: what runs is left alone
        self.functions = tuple(spec.functions)
        return spec

    def chosen(self, spec: ProgramSpec) -> str:
        """Which of its functions is to run. Raises LabError where that is not clear."""
        wanted = self.origin.function
        return wanted if wanted is not None and wanted in spec.functions else spec.function().name

    def check(self, text: str) -> ProgramSpec:
        """Compile and load ``text``, and let go of it again. Raises LabError."""
        spec = self.compiled(text)  # outside of the lock: the page goes on reading versions while it lasts
        with self.lock:
            program, _ = self._load(spec, self.chosen(spec), self.running)
            program.close()
            if program in self.lab.programs:
                self.lab.programs.remove(program)
            return spec

    def run(self, text: str) -> tuple[Version, bool]:
        """Put ``text`` in place of what runs: the version, and whether it is new. Raises LabError; then nothing has changed."""
        began = time.perf_counter()
        spec = self.compiled(text)
        with self.lock:
            compiled = time.perf_counter()
            before, function = self.running, self.chosen(spec)
            if before is not None and before.spec == spec and before.name == function:
                return before, False
            program, maps = self._load(spec, function, before)
            loaded = time.perf_counter()
            self._put(program, before)
            steps = {"compile": compiled - began, "load": loaded - compiled, "swap": time.perf_counter() - loaded}
            made = self._add(program, maps, steps)
            self._note_swap(before, made)
            return made, True

    def back(self, number: int) -> Version:
        """Put version ``number`` in place again; its maps are those it had. Raises LabError."""
        with self.lock:
            wanted, before = self.numbered(number), self.running
            if wanted is before:
                return wanted
            if wanted.program.closed:
                wanted.program, wanted.handover = self._load(wanted.spec, wanted.name, before, frags=wanted.frags)
            self._put(wanted.program, before)
            wanted.time_s = time.time()
            self._note_swap(before, wanted)
            return wanted

    def numbered(self, number: int) -> Version:
        """The version of that number. Raises StateError."""
        found = next((each for each in self.all if each.number == number), None)
        if found is None or isinstance(number, bool):
            numbers = ", ".join(str(each.number) for each in self.all) or "none yet"
            raise StateError(
                f"There is no version {number!r}.", tried="to look a version up", remedy=f"there are: {numbers}"
            )
        return found

    def _load(
        self, spec: ProgramSpec, function: str, before: Version | None, *, frags: bool = False
    ) -> tuple[Program, Handover]:
        old = before.program if before is not None and not before.program.closed else None
        program = self.lab.load(
            spec,
            function,
            replaces=old,
            device=old.device if old is not None else None,
            frags=frags or (old is not None and ProgFlag.XDP_HAS_FRAGS in old.flags),
        )
        return program, handover(old, spec, program.function)

    def _put(self, program: Program, before: Version | None) -> None:
        link = self.link
        try:
            if link is not None:
                link.replace(program)
            else:
                program.attach(self.interface, self.mode)
        except LabError:
            if before is None or before.program is not program:
                program.close()
            raise

    def _note_swap(self, before: Version | None, now: Version) -> None:
        """One reading ends the one count and begins the other, so that together they have every packet."""
        counts = now.program.verdicts()
        if before is not None and before is not now:
            shared = not before.program.closed and now.program.shares_counters_with(before.program)
            before.end(counts if shared else before.program.verdicts())
        now.begin(counts)
        self._running = now
        loaded = [each for each in self.all if not each.program.closed and each is not now]
        for each in loaded[: max(0, len(loaded) - _KEPT_LOADED)]:
            each.program.close()

    def _add(self, program: Program, maps: Handover, steps: Mapping[str, float]) -> Version:
        self._count += 1
        frags = ProgFlag.XDP_HAS_FRAGS in program.flags
        made = Version(self._count, program.spec, program, maps, time.time(), steps, frags)
        self.all.append(made)
        del self.all[:-_KEPT]
        return made

    def diff(self, text: str, number: int, other: int | None = None) -> str:
        """From version ``number`` to version ``other``, or to ``text``: a unified diff, "" where they are the same."""
        old = self.numbered(number)
        new, name = (text, "the text") if other is None else (self.numbered(other).text, f"version {other}")
        lines = difflib.unified_diff(
            old.text.splitlines(), new.splitlines(), f"version {number}", name, lineterm="", n=3
        )
        return "\n".join(lines)

    def adopt(self, other: Versions) -> None:
        """Go on with the versions of an editor that is shown again."""
        with self.lock, other.lock:
            self.all, self._count, self._running = other.all, other._count, other._running
            self.functions = other.functions
