"""The exercise "no more than a few out": an XDP program that counts what it passes against what is read."""

from __future__ import annotations

import contextlib
import time
from dataclasses import replace
from typing import Self

from labkit.buffers import BufferWatch, one_cpu, watch
from labkit.errors import FeatureError, LessonError
from labkit.lab import Lab
from labkit.lesson import odd_frames
from labkit.lesson.buffers.parked import ROOM
from labkit.lesson.practice import Exercise, Row, register
from labkit.program.spec import ProgramSpec
from labkit.topology import Topology
from labkit.traffic.frames import udp
from labkit.traffic.generator import generate
from labkit.traffic.raw import send_frames
from labkit.traffic.receive_buffer import set_receive_buffer
from labkit.uapi import XdpAction

__all__ = ["FEW_OUT"]

_MOST, _BURST, _READ, _OTHERS = 41, 97, 7, 5
_PORT = 9_999
_PATIENCE_S = 20.0
_TURN_S = 0.002
_MAPS = ("most", "taken", "passed")

_LIMIT = "the limit: while passed - taken is below most there is room for one more; when it is as much, there is none"
_ALL = "nothing is dropped yet: compare what is out, passed - taken, with most, before you pass a datagram"
_TAKEN = "what has come home: taken counts what the application has read, and makes room for as many"
_COUNT = "what you count: passed is to grow by one for each datagram that you pass, and not for one that you drop"
_KINDS = "what is no UDP over IPv4: it passes, and passed doesn't count it"
_LESS = "a limit that is lowered: more may be out than allowed; then nothing passes until enough has come home"
_DROP = "how you refuse: XDP_DROP is a decision, XDP_ABORTED says that the program is broken"


class _Credit:
    """The program on trial at a server with a socket that is read a little at a time, in a lab "check"."""

    def __init__(self, spec: ProgramSpec, function: str | None = None) -> None:
        self._made = contextlib.ExitStack()
        self.lab = self._made.enter_context(Lab(Topology.pair(), name="check"))
        try:
            self._made.enter_context(one_cpu())
            self.client, self.server = self.lab["client"], self.lab["server"]
            self.program = self.lab.load(spec, function)
            self.program.attach(self.server["eth0"])
            self._socket = self._made.enter_context(self.server.socket())
            self._socket.bind(("0.0.0.0", _PORT))
            self._socket.setblocking(False)
            set_receive_buffer(self._socket, ROOM)
            self.pools = self._watched()
        except BaseException:
            self._made.close()
            raise
        self._judged = 0

    def _watched(self) -> BufferWatch | None:
        try:
            return self._made.enter_context(watch(self.lab))
        except FeatureError:
            return None

    def burst(self) -> None:
        """Datagrams from the generator, a page each."""
        generate(self.client["eth0"], udp(self.client, self.server, dport=_PORT), _BURST)
        self._await(_BURST)

    def others(self, frame: bytes) -> None:
        """Frames that are no UDP."""
        send_frames(self.client["eth0"], frame, _OTHERS)
        self._await(_OTHERS)

    def _await(self, frames: int) -> None:
        """Until the driver has shown them to the program."""
        self._judged += frames
        until = time.monotonic() + _PATIENCE_S
        while (seen := self.server["eth0"].driver_statistics().get("rx_queue_0_xdp_packets", 0)) < self._judged:
            if time.monotonic() > until:
                raise LessonError(
                    f"Of {self._judged} frames the driver saw {seen}.",
                    tried="to show frames to the program",
                    remedy="check again; if it repeats, restart the kernel of the notebook",
                )
            time.sleep(_TURN_S)

    def verdicts(self, action: XdpAction) -> int:
        """How often the program said so."""
        return int((self.program.verdicts() or {}).get(f"XDP_{action.name}", 0))

    def read(self, most: int) -> int:
        """Datagrams taken out of the socket; the program is told."""
        taken = 0
        with contextlib.suppress(BlockingIOError):
            while taken < most:
                self._socket.recv(64)
                taken += 1
        self.program.maps["taken"][0] += taken
        return taken

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._made.close()


def _run(trial: _Credit) -> list[Row]:
    missing = _missing(trial)
    if missing:
        return missing
    trial.program.maps["most"][0] = _MOST
    rows = [_burst(trial, f"{_BURST} datagrams, nobody reads", _MOST, _LIMIT), *_pages(trial)]
    if not rows[0].good:
        counted = trial.program.maps["passed"][0]
        look = _ALL if _all_pass(trial) else _LIMIT if counted else _COUNT
        return [replace(row, look=look) for row in rows] + _refused(trial)
    trial.read(_BURST)
    rows.append(
        _burst(
            trial,
            f"{_MOST} were read, {_BURST} come",
            _MOST,
            _TAKEN if trial.verdicts(XdpAction.PASS) == _MOST else _COUNT,
        )
    )
    trial.read(_READ)
    rows.append(_burst(trial, f"{_READ} were read, {_BURST} come", _READ, _TAKEN))
    trial.read(_READ)
    for name, frame in (("ARP", odd_frames.arp()), ("TCP", odd_frames.tcp(80))):
        passed = trial.verdicts(XdpAction.PASS)
        trial.others(frame)
        passed = trial.verdicts(XdpAction.PASS) - passed
        rows.append(Row(f"{_OTHERS} × {name}", f"{_OTHERS} passed", f"{passed} passed", passed == _OTHERS, _KINDS))
    rows.append(_burst(trial, f"then {_BURST} datagrams, room for {_READ}", _READ, _KINDS))
    trial.program.maps["most"][0] = _MOST - _READ
    rows.append(_burst(trial, f"{_MOST} are out, most is {_MOST - _READ}: {_BURST} come", 0, _LESS))
    passed = trial.verdicts(XdpAction.PASS) - 2 * _OTHERS
    counted = trial.program.maps["passed"][0]
    rows.append(Row("the map passed", f"{passed}", f"{counted}", counted == passed, _COUNT))
    return rows + _refused(trial)


def _missing(trial: _Credit) -> list[Row]:
    look = "the maps as the stub has them: the check fills in most and taken, and reads passed"
    return [
        Row(f"the map {name}", "there", "not used by the program", False, look)
        for name in _MAPS
        if name not in trial.program.maps
    ]


def _all_pass(trial: _Credit) -> bool:
    """Whether the program passes datagrams whatever the limit: tried with none at all, and nothing taken."""
    trial.program.maps["most"][0] = 0
    before = trial.verdicts(XdpAction.PASS)
    trial.burst()
    return trial.verdicts(XdpAction.PASS) - before == _BURST


def _burst(trial: _Credit, what: str, expected: int, look: str) -> Row:
    before = trial.verdicts(XdpAction.PASS)
    trial.burst()
    passed = trial.verdicts(XdpAction.PASS) - before
    return Row(what, f"{expected} passed", f"{passed} passed", passed == expected, look)


def _pages(trial: _Credit) -> list[Row]:
    """As many pages are away as datagrams wait, where pages can be counted."""
    if trial.pools is None:
        return []
    until = time.monotonic() + _PATIENCE_S
    while (
        (out := trial.pools.read().out) > _MOST and trial.verdicts(XdpAction.PASS) <= _MOST and time.monotonic() < until
    ):
        time.sleep(_TURN_S)
    return [Row("pages away from their pool", f"{_MOST}", f"{out}", out == _MOST, _LIMIT)]


def _refused(trial: _Credit) -> list[Row]:
    aborted = trial.verdicts(XdpAction.ABORTED)
    return [Row("frames that the program aborted", "0", f"{aborted}", False, _DROP)] if aborted else []


FEW_OUT = register(
    Exercise(
        "few-pages-out",
        "No more than a few out",
        "Input: any frame. Somebody reads the server's socket slowly, and each datagram that waits keeps a page. Let no more "
        "than most[0] of them wait: taken[0] says how many UDP datagrams have been read so far, and you count in passed[0] how "
        "many you have passed. Drop a UDP datagram (over IPv4) for which there is no room; whatever else comes passes, and "
        "doesn't count. Both numbers of the check, most and taken, change while frames come.",
        "few_out",
        (
            "What is out is what you have passed and nobody has read: passed - taken.",
            "Find the IPv4 header with the cursor of bpf/common/parse.h (next_eth, next_ipv4); pass where there is none, or its "
            "protocol isn't IPPROTO_UDP.",
            "if (*out - *read >= *limit) drop; else *out += 1, and pass.",
        ),
        _run,
        _Credit,
    )
)
