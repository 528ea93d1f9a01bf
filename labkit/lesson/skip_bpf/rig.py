"""A client that sends, and a server whose AF_XDP socket gets what its program gives it: volleys, all of them on one CPU."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

from labkit.errors import LessonError, MapError
from labkit.kernel import bpf
from labkit.lab import Lab
from labkit.lesson.fast_path_rig import Rig, checked_turns
from labkit.program.link import Mode
from labkit.program.program import Program
from labkit.topology import Topology
from labkit.traffic.frames import udp
from labkit.xsk import XskSocket

__all__ = ["MOST", "SocketRig", "checked_volleys", "program_ns"]

MOST = 2048
"""Packets a volley: as many as the socket has memory for, as nobody takes any out while the clock runs."""

_USUAL = 2_003
_PORT = 9_999
_TEST_RUNS, _TRIES = 100_003, 5


class SocketRig(Rig):
    """The lab ``name``: client and server. Programs are loaded for the server's eth0, where a socket waits."""

    def __init__(self, name: str, mode: Mode = "native") -> None:
        self.mode = mode
        self.lab = Lab(Topology.pair(), name=name)
        try:
            self.entry = self.lab["server"]["eth0"]
            self.frame = udp(self.lab["client"], self.lab["server"], dport=_PORT)
            self.socket = XskSocket(self.entry, transmit_ring=0)
        except BaseException:
            self.lab.close()
            raise

    def lanes(self, functions: Mapping[str, str]) -> dict[str, Program]:
        """Lane → a program of bpf/skip_cost.c, told of the socket and of the port."""
        return {lane: self._told(self.load("skip_cost.c", function)) for lane, function in functions.items()}

    def _told(self, program: Program) -> Program:
        if "sockets" in program.maps:
            program.maps["sockets"][0] = self.socket
        if "wanted" in program.maps:
            for port in range(_PORT, _PORT + 64):  # a full map: a look-up goes as far as it would
                program.maps["wanted"][port.to_bytes(2, "big")] = 0
        return program

    def _ready(self) -> None:
        """The socket gets all its memory back."""
        while self.socket.drop(MOST):
            pass


def checked_volleys(packets: int | None, turns: int | None) -> tuple[int, int]:
    """Packets a volley, and turns: 2,003 and 41 where None is given, less where ``$LAB_SCALE`` says so. Raises LessonError."""
    packets, turns = checked_turns(_USUAL if packets is None else packets, turns)
    if packets > MOST:
        raise LessonError(
            f"A volley can't have {packets:,} packets.",
            tried="to time packets to a socket",
            remedy=f"give {MOST:,} at most: so many frames the socket's memory has, and none is taken out meanwhile",
        )
    return packets, turns


def program_ns(program: Program, frame: bytes) -> int | None:
    """What one run of a program takes by the kernel's own clock, in whole ns; None where it can't be asked."""
    with suppress(OSError, MapError):
        return min(bpf.prog_test_run(program.fd, frame, repeat=_TEST_RUNS).duration_ns for _ in range(_TRIES))
    return None
