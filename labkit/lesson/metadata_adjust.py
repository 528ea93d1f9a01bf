"""What the kernel answers when a program asks for other bounds of its packet: metadata, head and tail; in words."""

from __future__ import annotations

import contextlib
import errno
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import takewhile
from typing import Any

from labkit.compile import compile_source
from labkit.compile.source import lesson_directory
from labkit.errors import LessonError, TrafficError, kernel_word
from labkit.lab import Lab
from labkit.lesson.page import Table
from labkit.program.link import Mode
from labkit.program.program import Program
from labkit.topology import Topology
from labkit.traffic.checks import check_whole
from labkit.traffic.frames import udp
from labkit.traffic.generator import generate
from labkit.traffic.raw import send_frames
from labkit.traffic.report import TrafficReport

__all__ = ["BOUNDS", "ORIGINS", "adjust_answers", "adjust_limits", "adjust_meaning"]

BOUNDS = {"meta": 1, "head": 2, "tail": 3}
"""Of a packet, with their numbers in bpf/meta_adjust.c."""

GENERATED, SOCKET, GENERIC = "native, generated frame", "native, a socket's frame", "generic mode"
ORIGINS = (GENERATED, SOCKET, GENERIC)
"""Where a packet comes from, and in what mode the program meets it."""

_ENOTSUPP = 524  # include/linux/errno.h: not for user space, but a BPF program sees it
_ETHERNET, _MOST_META = (
    14,
    252,
)  # bytes: ETH_HLEN; a multiple of 4 below 256, xdp_metalen_invalid() in include/net/xdp.h
_QUESTIONS = 512  # bpf/meta_adjust.c
_TRIES = 7
_FRAME = 62  # bytes
_FARTHEST, _COARSE = 4096, 32  # bytes: a page, the largest buffer of one frame; steps
_PATIENCE_S = 20.0
_FURTHEST = 65_535  # bytes: more has no packet
_TRIED = "to ask the kernel"

Step = tuple[str, int]
"""A bound and by how many bytes to move it."""

Send = Callable[[int], TrafficReport]
"""Sends so many frames."""


@dataclass(frozen=True)
class Question:
    """An adjustment, perhaps after another one."""

    step: Step
    after: Step | None = None

    def as_value(self) -> dict[str, dict[str, int]]:
        """As the map ``questions`` has it; the step that counts is always the second."""
        first = self.after or ("", 0)
        return {
            "first": {"bound": BOUNDS.get(first[0], 0), "by": first[1]},
            "then": {"bound": BOUNDS[self.step[0]], "by": self.step[1]},
        }


Ask = Callable[[Sequence[Question]], list[int]]
"""Asks the kernel."""


def adjust_meaning(bound: str, by: int, answer: int) -> str:
    """What the kernel's answer (0, or a negative errno) to ``bpf_xdp_adjust_<bound>(ctx, by)`` means, in words.

    Raises LessonError where there is no such bound.
    """
    if not isinstance(bound, str) or bound not in BOUNDS:
        raise LessonError(
            f"A packet has no bound {bound!r}.", tried="to explain an answer", remedy="meta, head or tail"
        )
    if answer == 0:
        return _granted(bound, by)
    if answer == -_ENOTSUPP:
        return "this driver keeps no metadata"
    if answer == -errno.EOPNOTSUPP:
        return "not for a frame of several buffers"
    if answer == -errno.EACCES and bound == "meta":
        return (
            "not a multiple of 4 bytes in all"
            if by % 4
            else f"more than {_MOST_META} bytes: its length is kept in one byte"
        )
    if answer == -errno.EINVAL:
        return _no_room(bound, by)
    return f"the kernel says {kernel_word(-answer)}"


def _granted(bound: str, by: int) -> str:
    if by == 0:
        return "granted: nothing moves"
    if bound == "meta":
        return f"granted: {abs(by)} bytes {'more' if by < 0 else 'less'} of metadata"
    return f"granted: the frame is {abs(by)} bytes {'longer' if (by < 0) == (bound == 'head') else 'shorter'}"


def _no_room(bound: str, by: int) -> str:
    """What EINVAL means: the same word for each end of the room."""
    if bound == "meta" and by > 0:
        return "metadata would begin behind the packet's first byte"
    if bound == "tail" and by > 0:
        return "no room behind the packet in its buffer"
    if bound != "meta" and (bound == "head") == (by > 0):
        return f"less than an Ethernet header, {_ETHERNET} bytes, would be left"
    return "no room in front: the headroom ends, and the kernel's own struct xdp_frame stands there"


class Asking:
    """A pair of hosts whose program asks; ``with Asking() as kernel, kernel.meeting(ORIGINS[0]) as ask: ask(questions)``."""

    def __init__(self) -> None:
        self.lab = Lab(Topology.pair(), name="adjust")
        try:
            self._client, self._server = self.lab["client"]["eth0"], self.lab["server"]["eth0"]
            self._program: Program = self.lab.load(compile_source(path=lesson_directory() / "meta_adjust.c"))
            self._frame = udp(self._client, self._server, size=_FRAME)
        except BaseException:
            self.lab.close()
            raise

    @contextlib.contextmanager
    def meeting(self, origin: str) -> Iterator[Ask]:
        """While it lasts, a function that asks: it takes questions, and gives the answer to each, from a frame of its own."""
        mode: Mode = "generic" if origin == GENERIC else "native"
        send: Send = partial(send_frames, self._client, self._frame)
        if origin == GENERATED:
            send = partial(generate, self._client, self._frame)
        with self._program.attach(self._server, mode=mode):
            yield lambda questions: [number for some in _parts(questions) for number in self._round(some, send)]

    def _round(self, questions: Sequence[Question], send: Send) -> list[int]:
        maps = self._program.maps
        start = _QUESTIONS - len(questions)  # the last one answered is the last there is: later packets ask nothing
        for number, question in enumerate(questions, start):
            maps["questions"][number] = question.as_value()
        maps["next"][0] = start
        send(len(questions))
        deadline = time.monotonic() + _PATIENCE_S
        while maps["next"][0] < _QUESTIONS:
            if time.monotonic() > deadline:
                raise TrafficError("Not every frame reached the program.", tried=_TRIED, remedy="try again")
            time.sleep(0.0005)
        answers = maps["answers"].read()
        for number, question in enumerate(questions, start):
            if question.after and answers[number]["first"]:
                raise LessonError(f"{question.after} was refused, so what follows means nothing.", tried=_TRIED)
        return [answers[number]["then"] for number in range(start, _QUESTIONS)]

    def __enter__(self) -> Asking:
        return self

    def __exit__(self, *_: object) -> None:
        self.lab.close()


def _parts(questions: Sequence[Question]) -> Iterator[Sequence[Question]]:
    for at in range(0, len(questions), _QUESTIONS):
        yield questions[at : at + _QUESTIONS]


def adjust_answers(bound: str, asked: Sequence[int], *, after: Step | None = None) -> Table:
    """A row for each of ``asked`` (bytes to move ``bound`` by): the kernel's answers on three origins, and their meaning.

    Each is asked of 7 frames of 62 bytes; ``after`` is done before, as ("head", -64). In a lab of its own, "adjust".
    Raises LessonError where that first step is refused, or ``bound`` isn't meta, head or tail.
    """
    for step in [(bound, by) for by in _asked(asked)] + ([after] if after is not None else []):
        _check_step(step)
    questions = [Question((bound, by), after) for by in asked for _ in range(_TRIES)]
    answers: dict[str, list[int]] = {}
    with Asking() as kernel:
        for origin in ORIGINS:
            with kernel.meeting(origin) as ask:
                answers[origin] = ask(questions)
    rows = []
    for row, by in enumerate(asked):
        said = {origin: found[row * _TRIES : (row + 1) * _TRIES] for origin, found in answers.items()}
        meanings = dict.fromkeys(adjust_meaning(bound, by, a) for found in said.values() for a in found)
        rows.append((f"{by:+d}" if by else "0", *(_words(found) for found in said.values()), "; or: ".join(meanings)))
    caption = f"bpf_xdp_adjust_{bound}(ctx, N), a frame of {_FRAME} bytes"
    caption += f", after bpf_xdp_adjust_{after[0]}(ctx, {after[1]:+d})" if after else ""
    return Table(("N", *ORIGINS, "which means"), tuple(rows), caption)


def _check_step(step: Any) -> None:
    if not (isinstance(step, (tuple, list)) and len(step) == 2):
        raise LessonError(f"{step!r} is not a step.", tried=_TRIED, remedy='give a pair, as ("head", -64)')
    adjust_meaning(step[0], check_whole("bytes to move by", step[1], -_FURTHEST, _FURTHEST, _TRIED), 0)


def _asked(asked: Sequence[int]) -> list[int]:
    if isinstance(asked, (str, bytes)) or not isinstance(asked, Sequence) or not asked:
        raise LessonError(f"{asked!r} is not what to ask for.", tried=_TRIED, remedy="give bytes, as (-4, -8, 4)")
    return list(asked)


def _words(answers: Sequence[int]) -> str:
    """One answer for all, or how many were granted."""
    different = sorted(set(answers), reverse=True)
    words = [str(a) if a == 0 else f"{a} {_name(-a)}" for a in different]
    if len(different) == 1:
        return words[0]
    return f"0 for {answers.count(0)} of {len(answers)}, else " + ", ".join(words[1:] if 0 in different else words)


def _name(number: int) -> str:
    return "ENOTSUPP" if number == _ENOTSUPP else errno.errorcode.get(number, "").replace("ENOTSUP", "EOPNOTSUPP")


_LIMITS: tuple[tuple[str, str, int, Step | None], ...] = (
    ("metadata", "meta", -4, None),
    ("frame longer in front", "head", -1, None),
    ("frame shorter in front", "head", 1, None),
    ("frame longer behind", "tail", 1, None),
    ("frame shorter behind", "tail", -1, None),
    ("metadata, after head −64", "meta", -4, ("head", -64)),
    ("metadata, after head −128", "meta", -4, ("head", -128)),
    ("metadata, after head +48", "meta", -4, ("head", 48)),
    ("frame longer in front, after meta −32", "head", -1, ("meta", -32)),
)


def adjust_limits() -> Table:
    """How far each bound could be moved, in bytes: up to there every step was granted. In a lab of its own, "adjust"."""
    limits: dict[str, list[int]] = {}
    with Asking() as kernel:
        for origin in ORIGINS:
            with kernel.meeting(origin) as ask:
                limits[origin] = [_furthest(ask, bound, step, after) for _, bound, step, after in _LIMITS]
    rows = (
        (what, f"bpf_xdp_adjust_{bound}", *(limits[origin][row] for origin in ORIGINS))
        for row, (what, bound, _, _) in enumerate(_LIMITS)
    )
    return Table(("bytes at the most", "by", *ORIGINS), tuple(rows), f"a frame of {_FRAME} bytes")


def _furthest(ask: Ask, bound: str, step: int, after: Step | None) -> int:
    """The last distance granted before the first one that wasn't: first in large steps, then one by one."""
    start = 0
    for stride in (step * _COARSE, step):
        distances = range(start, start + stride * (_FARTHEST // abs(stride) if stride != step else _COARSE), stride)
        answers = ask([Question((bound, by), after) for by in distances])
        granted = [by for by, _ in takewhile(lambda pair: pair[1] == 0, zip(distances, answers, strict=True))]
        start = granted[-1] if granted else start
    return abs(start)
