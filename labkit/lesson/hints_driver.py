"""Asking a driver what it knows of each packet (hash, timestamp, VLAN tag), and saying so where nobody may ask."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from labkit.compile import compile_source
from labkit.compile.source import lesson_directory
from labkit.errors import FeatureError, LessonError, TrafficError
from labkit.interface import Interface
from labkit.kernel import features
from labkit.kernel.gate import in_sandbox
from labkit.lesson.hints_driver_words import Answer
from labkit.lesson.page import Table
from labkit.lesson.tracing import Unseen
from labkit.program.program import Program
from labkit.uapi import XdpAction

__all__ = ["Asked", "asking", "hash_answers", "if_hints", "take_answers", "unhinted"]

_PATIENCE_S = 20.0


def unhinted() -> str:
    """Why no program may ask a driver for hints here; "" where one may."""
    if features.bound_program() and features.rx_metadata():
        return ""
    if in_sandbox():
        return "In a sandbox no program can be bound to a device"
    missing = features.bound_program() and features.rx_metadata()
    return f"This kernel has no metadata hints ({missing.detail.rstrip('.')})"


def if_hints(what: str, show: Callable[[], Any]) -> Any:
    """What ``show()`` returns; where no program may ask for hints, a line that says what isn't shown, and how to see it."""
    reason = unhinted()
    if not reason:
        try:
            return show()
        except FeatureError as error:  # an older kernel has some of the three functions
            return Unseen(f"{error.message.rstrip('.')}: {what} can't be shown.")
    how = "./env/lab --root shows it" if in_sandbox() else "labkit doctor tells what it would take"
    return Unseen(f"{reason}: {what} can't be shown. {how}.")


def hash_answers(program: Program, senders: Mapping[str, Callable[[], object]]) -> Table:
    """Let each sender send, and tell how many of its packets ``program`` (bpf/hints_hash.c, attached) got a hash for."""
    if program.device is None or "answers" not in program.maps:
        raise LessonError(
            f"{program.name} asks no driver for a hash.",
            tried="to count a driver's answers",
            remedy='load bpf/hints_hash.c for a device: lab.load(spec, device=server["eth0"])',
        )
    rows, seen = [], list(program.maps["answers"].read().values())
    for name, send in senders.items():
        send()
        program.device.host.lab.ledger()  # waits until all have arrived
        now = list(program.maps["answers"].read().values())
        rows.append((name, *(after - before for after, before in zip(now, seen, strict=True))))
        seen = now
    return Table(("sent by", "a hash", "none for this packet", "none for any"), tuple(rows))


class Asked:
    """``bpf/hints_seen.c`` at an interface: ``take(packets)`` gives the answers since the last time."""

    def __init__(self, program: Program, interface: Interface) -> None:
        self.program = program
        self.interface = interface

    def take(self, packets: int) -> list[Answer]:
        """The kinds of answers that the next ``packets`` packets got, most frequent first. Raises TrafficError."""
        return take_answers(self.program, self.interface, packets)


def take_answers(program: Program, interface: Interface, packets: int) -> list[Answer]:
    """Wait until ``program`` (bpf/hints_seen.c) has asked for ``packets`` packets, and empty its map ``answers``.

    Raises TrafficError where they don't come within 20 s, or where more came.
    """
    counted, until = program.maps["answers"], time.monotonic() + _PATIENCE_S
    while (came := sum(value["packets"] for _, value in counted.items())) < packets and time.monotonic() < until:
        time.sleep(0.002)
    found = [(key, Answer.of(key, value)) for key, value in counted.items()]
    for key, _ in found:
        del counted[key]
    if came != packets:
        raise TrafficError(
            f"{packets:,} packets were sent, and the driver was asked about {came:,}.",
            tried="to ask a driver for hints",
            on=interface.where,
            remedy="run it again, and report it if it repeats",
        )
    return sorted((answer for _, answer in found), key=lambda each: -each.packets)


@contextlib.contextmanager
def asking(interface: Interface, action: XdpAction = XdpAction.DROP) -> Iterator[Asked]:
    """While it lasts, a program bound to ``interface`` asks its driver about every packet, and returns ``action``.

    Raises FeatureError where the kernel binds no program to a device.
    """
    spec = compile_source(path=lesson_directory() / "hints_seen.c")
    with interface.host.lab.load(spec, device=interface) as program:
        program.maps["action"][0] = action
        with program.attach(interface):
            yield Asked(program, interface)
