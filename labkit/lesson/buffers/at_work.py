"""Bursts of frames into a program and a socket, beside the cells: who sends, who drops, who reads can be changed."""

from __future__ import annotations

import os
import threading

from labkit.compile import compile_source
from labkit.compile.source import lesson_directory
from labkit.errors import LessonError, StateError
from labkit.kernel.cpus import current_cpu
from labkit.lab import Lab
from labkit.lesson.buffers.moment import PageMoment, PagesOf
from labkit.lesson.buffers.parked import ROOM
from labkit.lesson.workshop import staying_on
from labkit.traffic.checks import check_whole
from labkit.traffic.frames import udp
from labkit.traffic.generator import Generator
from labkit.traffic.lifetime import close_with
from labkit.traffic.raw import frame_socket
from labkit.traffic.sink import UdpSink

__all__ = ["CHOICES", "PagesAtWork"]

STACK, GENERATOR = "the client's stack", "the generator"
PROGRAMS = {"passes them": "pass.c", "drops them": "drop_all.c"}  # where each is
AT_ONCE, NOW_AND_THEN, NEVER = "at once", "now and then", "never"
CHOICES: dict[str, tuple[str, ...]] = {
    "source": (STACK, GENERATOR),
    "program": tuple(PROGRAMS),
    "reads": (AT_ONCE, NOW_AND_THEN, NEVER),
}
"""Who makes the frames, what the program at the server does with them, when somebody reads the server's socket."""

_TRIED = "to let pages go their way"
_SIZE = 1_500  # bytes: one to a page, whoever makes it
_FRAMES = 17  # a burst, and so many pages
_PAUSE_S = 0.25
_TURNS = 12  # bursts, where the socket is read now and then
_MOST_BURSTS = 1_000


class PagesAtWork:
    """Frames from the lab's "client" to its "server", in bursts, as long as ``send`` lets them come.

    ``choose`` says how, at any time; see ``CHOICES``. The stack's frames are copied to pages of the server's queue, which has
    one pool as long as a program is there; each burst of the generator is a run with a pool of its own. ``close()`` ends it,
    and so does the lab. Raises LessonError for a lab without these hosts.
    """

    def __init__(self, lab: Lab) -> None:
        if not isinstance(lab, Lab) or lab.closed or not {"client", "server"} <= set(lab.hosts):
            raise LessonError(
                f"{lab!r} is no open lab with a client and a server.",
                tried=_TRIED,
                remedy="make one: lk.Lab(lk.Topology.pair())",
            )
        self.lab = lab
        self.chosen = {name: values[0] for name, values in CHOICES.items()}
        self.problem: Exception | None = None
        self._cpu = current_cpu()
        self._wake, self._ended = threading.Event(), threading.Event()
        self._worker: threading.Thread | None = None
        self._lock = threading.RLock()
        self._pages = PagesOf(lab)
        programs = {name: lab.load(compile_source(path=lesson_directory() / file)) for name, file in PROGRAMS.items()}
        self._programs = programs
        self._link = programs[self.chosen["program"]].attach(lab["server"]["eth0"])
        self.sink = UdpSink(lab["server"], read=False, receive_buffer=ROOM)
        self._frame = udp(lab["client"], lab["server"], size=_SIZE)
        self._generator = Generator(lab["client"]["eth0"], self._frame)
        self._generator.make_ready()
        self._out = frame_socket(lab["client"]["eth0"])
        close_with(lab, self)

    def choose(self, **values: str) -> None:
        """Set ``source``, ``program`` or ``reads`` to one of ``CHOICES``. Raises LabError, and then nothing has changed."""
        for name, value in values.items():
            if value not in CHOICES.get(name, ()):
                remedy = "use " + ", ".join(map(repr, CHOICES.get(name, CHOICES)))
                raise LessonError(f"{name} can't be {value!r}.", tried=_TRIED, remedy=remedy)
        with self._lock:
            self._check_open()
            if values.get("program", self.chosen["program"]) != self.chosen["program"]:
                self._link.replace(self._programs[values["program"]])
            self.chosen |= values
        if values.get("reads") == AT_ONCE:
            self.read()

    def _check_open(self) -> None:
        if self._ended.is_set():
            raise StateError("It was closed.", tried=_TRIED, remedy="run the cell that makes it again")

    def moment(self) -> PageMoment:
        """Where the pages are now. Raises StateError after ``close()``."""
        return self._pages.moment()

    def read(self) -> int:
        """Read the socket until nothing waits; how many datagrams that was.

        On the CPU where they came: what is read on another is freed when that one next polls, and it may never.
        """
        with staying_on(self._cpu):
            return self.sink.drain()

    @property
    def sending(self) -> bool:
        """Whether frames still come."""
        return self._worker is not None and self._worker.is_alive()

    def send(self, bursts: int = 120) -> None:
        """Let so many bursts come, in the background. Raises LabError."""
        self._check_open()
        check_whole("bursts", bursts, 1, _MOST_BURSTS, _TRIED)
        self.stop()
        self._wake.clear()
        self._worker = self.lab["client"].thread.spawn(lambda: self._run(bursts), "pages-at-work")
        self.lab.traffic.started(self)

    def stop(self) -> None:
        """Let no more frames come. Safe to call again."""
        self._wake.set()
        if self._worker is not None and self._worker is not threading.current_thread():
            self._worker.join()
            self._worker = None
        self.lab.traffic.ended(self)

    def wait(self) -> None:
        """Until the last burst has come."""
        if self._worker is not None:
            self._worker.join()

    def close(self) -> None:
        """Stop, close the socket, take the program off. Safe to call again."""
        self.stop()
        with self._lock:
            if self._ended.is_set():
                return
            self._ended.set()
        for each in (self._pages, self._out, self.sink, self._link, *self._programs.values()):
            each.close()
        self._generator.release()

    def _run(self, bursts: int) -> None:
        """Errors would go unseen: they are kept."""
        try:
            os.sched_setaffinity(0, {self._cpu})
            for number in range(1, bursts + 1):
                self._burst()
                if self.chosen["reads"] == AT_ONCE or (self.chosen["reads"] == NOW_AND_THEN and number % _TURNS == 0):
                    self.read()
                if number < bursts and self._wake.wait(_PAUSE_S):
                    return
        except Exception as error:
            self.problem = error

    def _burst(self) -> None:
        if self.chosen["source"] == STACK:
            for _ in range(_FRAMES):
                self._out.send(self._frame)
            return
        with self.lab.traffic.chunk():
            self._generator.burst(_FRAMES)

    def __enter__(self) -> PagesAtWork:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        how = ", ".join(f"{name} {value}" for name, value in self.chosen.items())
        return f"<pages at work in {self.lab.name}: {'closed' if self._ended.is_set() else how}>"
