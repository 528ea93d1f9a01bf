"""The exercise "who counts it": from what drivers and interfaces count, tell what became of redirected frames."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

from labkit.compile import compile_source
from labkit.compile.source import lesson_directory
from labkit.errors import LessonError
from labkit.interface import Interface
from labkit.lab import Lab
from labkit.lesson.practice import Exercise, Row, register
from labkit.lesson.python_answer import AnswerError
from labkit.lesson.ring_model.bounded import within
from labkit.topology import Topology
from labkit.traffic.frames import udp
from labkit.traffic.raw import send_frames
from labkit.traffic.sink import UdpSink

__all__ = ["FATES", "WHO_COUNTS_IT"]

FATES = ("received", "refused", "ring full", "arrived")
"""What the function is to tell: keys of the dict that it returns."""

_PORT = 9_999


@dataclass(frozen=True)
class _Situation:
    """``frames`` come, each is sent on ``copies`` times; ``receiver`` is the C file at the server, "" for none."""

    name: str
    frames: int
    copies: int
    receiver: str

    @property
    def right(self) -> dict[str, int]:
        """What the ledger must confirm: nothing is refused where a program is, and 256 places are in the queue."""
        wanted = self.frames * self.copies
        if not self.receiver:
            return dict(zip(FATES, (self.frames, wanted, 0, 0), strict=True))
        return {"received": self.frames, "refused": 0}


_SITUATIONS = (
    _Situation("one at a time", 11, 1, "drop_all.c"),
    _Situation("one at a time, into a socket", 13, 1, "pass.c"),
    _Situation("a burst that finds room", 1, 251, "drop_all.c"),
    _Situation("a burst that finds too little", 1, 509, "pass.c"),
    _Situation("nobody there who can take them", 17, 1, ""),
)

_LOOKS = {
    "received": "received: the driver that got the frames counts them for its program: rx_queue_0_xdp_packets, at router eth0. "
    "What was copied there was received once",
    "refused": "refused: a redirect that can't even be tried is a drop of the router's own receiving side, rx_queue_0_drops at "
    "router eth0, and nothing is seen at its other interface",
    "ring full": "ring full: the sending driver counts what the queue at the other end did not take, "
    "tx_queue_0_xdp_xmit_errors at router eth1 (the interface's tx_dropped has it, too). A difference of two other counters is "
    "wrong as soon as there are copies",
    "arrived": "arrived: what the server's driver took out of its queue, rx_queue_0_xdp_packets at server eth0, whatever its "
    "program did with it then",
}
_RETURN = "what you return: a dict with these four names, and whole numbers: " + ", ".join(FATES)


def _on_trial(answer: Callable[..., Any], _: str | None = None) -> AbstractContextManager[Callable[..., Any]]:
    return nullcontext(answer)


def _run(answer: Callable[..., Any]) -> list[Row]:
    return [row for each in _SITUATIONS for row in _tried(answer, each)]


def _tried(answer: Callable[..., Any], situation: _Situation) -> list[Row]:
    with _arranged(situation) as lab:
        places = [lab["router"]["eth0"], lab["router"]["eth1"], lab["server"]["eth0"]]
        before = [_counters(each) for each in places]
        send_frames(lab["client"]["eth0"], udp(lab["client"], lab["server"], dport=_PORT), situation.frames)
        right = _right(lab, situation)
        changed = {
            each.where: {name: value - was.get(name, 0) for name, value in _counters(each).items()}
            for each, was in zip(places, before, strict=True)
        }
    return _rows(situation, right, _answered(answer, situation, changed))


@contextlib.contextmanager
def _arranged(situation: _Situation) -> Iterator[Lab]:
    with Lab(Topology.router(), name="check") as lab:
        router, server = lab["router"], lab["server"]
        name = "redirect_devmap.c" if situation.copies == 1 else "burst.c"
        program = lab.load(compile_source(path=lesson_directory() / name))
        for slot in range(situation.copies):
            program.maps["ports"][slot] = router["eth1"]
        if situation.copies == 1:
            program.maps["next_hop"][0] = {"bytes": list(bytes.fromhex(server["eth0"].mac.replace(":", "")))}
        program.attach(router["eth0"])
        if situation.receiver:
            lab.load(compile_source(path=lesson_directory() / situation.receiver)).attach(server["eth0"])
        with UdpSink(server, _PORT):
            yield lab


def _counters(interface: Interface) -> dict[str, int]:
    return {**interface.driver_statistics(), **interface.statistics()}


def _right(lab: Lab, situation: _Situation) -> dict[str, int]:
    """By the ledger, which counts on its own."""
    ledger = lab.ledger(settle_s=1.0)
    wanted = situation.frames * situation.copies
    right = situation.right
    if situation.receiver:
        full = sum(number for name, number in ledger.losses.items() if name.startswith("ring full"))
        right |= {"ring full": full, "arrived": wanted - full}
    if ledger.unaccounted or ledger.sent + ledger.copies != wanted or ledger.in_flight:
        raise LessonError(
            "Not every frame of the check is accounted for.",
            tried="to send frames for the check",
            detail=str(ledger),
            remedy="check again; if it repeats, restart the kernel of the notebook",
        )
    return right


def _answered(answer: Callable[..., Any], situation: _Situation, changed: dict[str, dict[str, int]]) -> Any:
    try:
        return within(answer, changed)
    except AnswerError as error:
        error.detail = f"In the situation “{situation.name}”: {situation.frames} frames, {situation.copies} times each."
        raise


def _rows(situation: _Situation, right: Mapping[str, int], said: Any) -> list[Row]:
    what = f"{situation.name}: {situation.frames} × {situation.copies}"
    if not isinstance(said, Mapping):
        return [Row(what, "a dict", f"{said!r:.60}", False, _RETURN)]
    expected = ", ".join(f"{right[name]} {name}" for name in FATES)
    seen = ", ".join(f"{said.get(name, 'no')!s:.20} {name}" for name in FATES)
    wrong = [name for name in FATES if not _same(said.get(name), right[name])]
    look = _RETURN if set(said) != set(FATES) else _LOOKS[wrong[0]] if wrong else ""
    return [Row(what, expected, seen, not wrong and set(said) == set(FATES), look)]


def _same(said: object, right: int) -> bool:
    return isinstance(said, int) and not isinstance(said, bool) and said == right


WHO_COUNTS_IT = register(
    Exercise(
        "who-counts-it",
        "Who counts it?",
        "The router's program redirects frames from its eth0 to its eth1, behind which is the server; each once, or each "
        "very often at once. what_became(changed) gets by how much the counters grew meanwhile: a dict for each of “router "
        "eth0”, “router eth1” and “server eth0”, of the driver's own statistics (ethtool -S) and the interface's (ip -s link). "
        "Return a dict: “received”, frames that the router's program was shown; “refused”, redirects that could not even be "
        "tried; “ring full”, frames that found no place in the queue to the server; “arrived”, frames that the server's driver "
        "took out of it.",
        "what_became",
        (
            "Print changed, and run the check: which counters differ from situation to situation, and where are they?",
            "received and arrived have the same name at different interfaces: rx_queue_0_xdp_packets.",
            "A full queue is counted where frames are sent: tx_queue_0_xdp_xmit_errors at router eth1. A redirect that could "
            "not be tried is counted where the frame came in: rx_queue_0_drops at router eth0.",
        ),
        _run,
        _on_trial,
        "Python",
    )
)
