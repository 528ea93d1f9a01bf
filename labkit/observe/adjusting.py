"""One frame whose ends a program moves step by step (bpf/adjust.c), and what it found after each step."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from labkit.compile import compile_source
from labkit.compile.source import lesson_directory
from labkit.errors import AttachError, LabError, StateError, TrafficError
from labkit.interface import Interface
from labkit.program.link import MODES, Link, Mode
from labkit.program.program import Program
from labkit.traffic.frame import ETHERNET_HEADER
from labkit.traffic.generator import generate
from labkit.traffic.raw import send_frames

if TYPE_CHECKING:
    from labkit.lab import Lab

__all__ = ["KINDS", "MOST_STEPS", "SENDERS", "Adjusted", "Adjuster", "Finding", "Step", "steps_of"]

KINDS = ("meta", "head", "tail", "write")  # enum step_kind, bpf/adjust.c
SENDERS = ("socket", "generator")
MOST_STEPS = 8  # MOST_STEPS, bpf/adjust.c
_MOST_BYTES = 65_535
_TRIED = "to map a frame"
_LONGEST_S = 10.0
_NOTHING: dict[str, Any] = {
    **dict.fromkeys(("code", "meta_bytes", "frame_bytes", "left_bytes", "right_bytes", "memory_bytes", "complete"), 0),
    "memory": bytes(2048),  # MEMORY_BYTES, bpf/adjust.c
}


@dataclass(frozen=True)
class Step:
    """``kind`` "meta", "head" or "tail" with ``by_bytes`` as the kernel's helper takes it, or "write"."""

    kind: str
    by_bytes: int = 0


@dataclass(frozen=True)
class Finding:
    """Where everything is after ``step`` (None: as the frame came). All sizes in bytes.

    ``code`` is what the helper returned. ``left_bytes`` from the leftmost byte that can be reached to ``data``,
    ``right_bytes`` from ``data_end`` to the rightmost: both found by trying. ``memory`` starts at the leftmost byte and
    ends with the frame, or earlier where that is longer than the program copies.
    """

    step: Step | None
    code: int
    meta_bytes: int
    frame_bytes: int
    left_bytes: int
    right_bytes: int
    memory: bytes

    @property
    def data_meta(self) -> int:
        """Where the metadata begin, counted from the leftmost byte."""
        return self.left_bytes - self.meta_bytes

    @property
    def data(self) -> int:
        """Where the frame begins."""
        return self.left_bytes

    @property
    def data_end(self) -> int:
        """Where the frame ends: one past its last byte."""
        return self.left_bytes + self.frame_bytes

    @property
    def end(self) -> int:
        """Where the tailroom ends."""
        return self.data_end + self.right_bytes

    @property
    def metadata(self) -> bytes:
        """The bytes from ``data_meta`` to ``data``."""
        return self.memory[self.data_meta : self.data]

    @property
    def frame(self) -> bytes:
        """The bytes of the frame, as many as were copied."""
        return self.memory[self.data : self.data_end]


@dataclass(frozen=True)
class Adjusted:
    """The ``frame`` as it was sent, how, and the findings: as it came, then one a step."""

    frame: bytes
    where: str
    mode: str
    sender: str
    findings: tuple[Finding, ...]


def steps_of(steps: Any) -> tuple[Step, ...]:
    """Steps from pairs as ("meta", -8); "write" has no number. Raises StateError naming the one that can't be."""
    given = list(steps) if isinstance(steps, Sequence) and not isinstance(steps, str) else [None]
    if len(given) > MOST_STEPS:
        raise _no(f"{len(given)} steps are too many.", f"give {MOST_STEPS} at the most")
    return tuple(_step(number, each) for number, each in enumerate(given, 1))


def _step(number: int, given: Any) -> Step:
    if isinstance(given, Step):
        given = (given.kind, given.by_bytes)
    if given == "write":
        return Step("write")
    remedy = 'give pairs, as ("meta", -8), ("head", 4) or ("tail", -10); "write" alone fills the metadata'
    if not (isinstance(given, tuple | list) and len(given) == 2 and given[0] in KINDS):
        raise _no(f"Step {number} can't be {given!r}.", remedy)
    kind, size = given
    if isinstance(size, bool) or not isinstance(size, int) or abs(size) > _MOST_BYTES:
        raise _no(f"Step {number} can't move by {size!r} bytes.", remedy)
    return Step(kind, size)


def _no(message: str, remedy: str) -> StateError:
    return StateError(message, tried=_TRIED, remedy=remedy)


class Adjuster:
    """The program, loaded once for a lab; ``run`` sends one frame through it. A context manager."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self._program: Program = lab.load(compile_source(path=lesson_directory() / "adjust.c"), "adjust")

    def close(self) -> None:
        """Let go of the program. Safe to call again."""
        self._program.close()

    def __enter__(self) -> Adjuster:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def run(
        self, frame: bytes, steps: Sequence[Step], *, mode: Mode, interface: Interface, sender: str = "socket"
    ) -> Adjusted:
        """Attach the program at ``interface``, send ``frame`` there from its peer once, and tell what was found.

        A program that is there already is put back afterwards. Raises AttachError, StateError, TrafficError.
        """
        self._check(frame, mode, interface, sender)
        sent = bytes(frame)
        with self._at(interface, mode):
            before = self._handled()
            self._order(sent, steps)
            self._send(interface, sent, sender)
            self._await(before, interface)
        findings = tuple(self._finding(n, step) for n, step in enumerate((None, *steps)))
        if findings[0].frame != sent[: len(findings[0].frame)]:
            raise StateError(
                f"Another frame of {len(sent)} bytes came to {interface.where} first.",
                tried=_TRIED,
                on=interface.where,
                remedy="let nothing else send meanwhile, and try again",
            )
        return Adjusted(sent, interface.where, mode, sender, findings)

    def _check(self, frame: Any, mode: Any, interface: Any, sender: Any) -> None:
        if self.lab.closed:
            raise self.lab.closed_error(_TRIED, "is closed")
        if not isinstance(interface, Interface) or interface.host.lab is not self.lab:
            raise _no(
                f"{interface!r} is no interface of the lab {self.lab.name}.", 'give one, as lab["server"]["eth0"]'
            )
        if not isinstance(mode, str) or mode not in MODES:
            raise _no(f"There is no XDP mode {mode!r}.", "use native or generic")
        if not isinstance(sender, str) or sender not in SENDERS:
            raise _no(f"A frame can't be sent by {sender!r}.", 'use "socket" or "generator"')
        most = ETHERNET_HEADER + 4 + interface.mtu
        if not isinstance(frame, bytes | bytearray) or not ETHERNET_HEADER <= len(frame) <= most:
            what = f"{len(frame)} bytes" if isinstance(frame, bytes | bytearray) else repr(frame)
            raise _no(
                f"The frame can't be {what}.", f"give {ETHERNET_HEADER} to {most} bytes, as lk.udp(client, server)"
            )
        if self.lab.traffic.running:
            raise _no("Something else sends in this lab.", "stop the traffic first: lab.traffic.stop()")

    @contextlib.contextmanager
    def _at(self, interface: Interface, mode: Mode) -> Iterator[None]:
        """With the program there; one that was there comes back in the end."""
        links = list(self.lab.attached)
        there: Link | None = next((link for link in links if link.interface.where == interface.where), None)
        if there is None:
            with self._program.attach(interface, mode=mode):
                yield
            return
        if there.mode != mode:
            raise AttachError(
                f"{there.program.name} is at {interface.where} in {there.mode} mode.",
                tried=f"{_TRIED} in {mode} mode",
                on=interface.where,
                remedy=f'close its link first, or use mode="{there.mode}"',
            )
        own = there.program
        there.replace(self._program)
        try:
            yield
        finally:
            there.replace(own)

    def _handled(self) -> int:
        counts = self._program.verdicts() or {}
        return counts["XDP_DROP"] + counts["XDP_ABORTED"]

    def _order(self, frame: bytes, steps: Sequence[Step]) -> None:
        maps = self._program.maps
        for slot in range(MOST_STEPS + 1):
            maps["found"][slot] = _NOTHING
        for slot, step in enumerate(steps):
            maps["steps"][slot] = {"kind": KINDS.index(step.kind), "bytes": step.by_bytes}
        maps["order"][0] = {"steps": len(steps), "frame_bytes": len(frame), "taken": 0}

    def _send(self, interface: Interface, frame: bytes, sender: str) -> None:
        via = interface.peer
        report = generate(via, frame, 1) if sender == "generator" else send_frames(via, frame)
        if report.failures:
            raise TrafficError(
                f"The frame did not leave {via.where}: {', '.join(report.failures)}.",
                tried=_TRIED,
                on=via.where,
                remedy="use a shorter frame, or bring the interface up",
            )

    def _await(self, before: int, interface: Interface) -> None:
        """Until the program has had its frame."""
        until = time.monotonic() + _LONGEST_S
        while self._handled() == before:
            if time.monotonic() > until:
                self._program.maps["order"][0] = {"steps": 0, "frame_bytes": 0, "taken": 1}
                raise _no(
                    f"The frame did not come to {interface.where}.", "see lab.ledger(): it tells what became of it"
                )
            time.sleep(0.001)

    def _finding(self, slot: int, step: Step | None) -> Finding:
        raw = self._program.maps["found"][slot]
        if not raw["complete"]:
            raise LabError(
                f"The ends of the frame could not be put back after step {slot}.",
                tried=_TRIED,
                remedy="see bpf/adjust.c: the kernel refused on the way back what it had agreed to before",
            )
        sizes = {name: raw[name] for name in ("code", "meta_bytes", "frame_bytes", "left_bytes", "right_bytes")}
        return Finding(step, memory=bytes(raw["memory"])[: raw["memory_bytes"]], **sizes)
