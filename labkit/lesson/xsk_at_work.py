"""A program at an AF_XDP socket, at work beside the cells: how much of its memory it gives back can be changed meanwhile."""

from __future__ import annotations

import threading

import numpy as np

from labkit.errors import LabError, LessonError
from labkit.interface import Interface
from labkit.traffic.checks import check_whole
from labkit.traffic.frames import udp
from labkit.traffic.generator import Generator
from labkit.traffic.lifetime import close_with
from labkit.xsk import Batch, XskSocket

__all__ = ["GIVES_BACK", "PACES", "AtWork"]

GIVES_BACK = ("all", "half", "nothing")
"""What of the frames that it takes the program gives back."""

PACES = ("at once", "now and then")
"""When it takes what has come."""

_TRIED = "to put a program to work at a socket"
_TAKEN = 64  # packets a turn
_WAIT_S = 0.05
_PAUSE_S = 0.4  # now and then
_RATE_PPS = 15  # slow enough for eyes: a ring of 8 entries goes round twice a second
_MOST = 100_000
_SECONDS = 120.0  # a generator ends then, whatever else


class AtWork:
    """Takes every packet that comes to ``xsk``, on a thread of its own, ``pace``, and gives back ``gives_back`` of the frames.

    ``send`` lets packets come from ``source``. What it keeps, it keeps until it is told to give back all. It ends with
    ``close()``, with its socket, or with the lab. Raises LessonError.
    """

    def __init__(self, xsk: XskSocket, source: Interface) -> None:
        if not isinstance(xsk, XskSocket) or xsk.closed:
            raise LessonError(
                f"{xsk!r} is no open AF_XDP socket.", tried=_TRIED, remedy="give one, lk.xsk.XskSocket(…)"
            )
        if not isinstance(source, Interface):
            raise LessonError(f"{source!r} is no interface.", tried=_TRIED, remedy='give one, as client["eth0"]')
        self.xsk, self.source = xsk, source
        self.taken = 0
        self.problem: Exception | None = None
        self._gives_back, self._pace = GIVES_BACK[0], PACES[0]
        self._kept = np.empty(0, np.uint64)
        self._frame = udp(source.host, xsk.interface.host)
        self._generator: Generator | None = None
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="at-work", daemon=True)
        close_with(xsk.interface.host.lab, self)
        self._thread.start()

    @property
    def gives_back(self) -> str:
        """One of ``GIVES_BACK``; may be set at any time."""
        return self._gives_back

    @gives_back.setter
    def gives_back(self, share: str) -> None:
        self._gives_back = _one_of(GIVES_BACK, "gives_back", share)

    @property
    def pace(self) -> str:
        """One of ``PACES``; may be set at any time."""
        return self._pace

    @pace.setter
    def pace(self, pace: str) -> None:
        self._pace = _one_of(PACES, "pace", pace)

    @property
    def kept(self) -> int:
        """Frames that the program has and should have given back."""
        return len(self._kept)

    @property
    def sending(self) -> bool:
        """Whether packets are on their way to it."""
        return self._generator is not None and self._generator.running

    def send(self, packets: int = 907, rate_pps: float = _RATE_PPS) -> None:
        """Let so many packets come, in the background; those that still came are stopped first. Raises LabError."""
        check_whole("packets", packets, 1, _MOST, _TRIED)
        self.stop()
        made = Generator(self.source, self._frame, packets, rate_pps=rate_pps, batch=1, seconds=_SECONDS)
        self._generator = made.start()

    def stop(self) -> None:
        """Let no more packets come. Safe to call again."""
        if self._generator is not None:
            self._generator.stop()
            self._generator.wait()
            self._generator = None

    def close(self) -> None:
        """Stop the packets and the program; the socket stays open. Safe to call again."""
        self.stop()
        self._ended.set()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join()

    def _run(self) -> None:
        """A thread's exception would go unseen: it is kept in ``problem``, and a socket that was closed is none."""
        try:
            while not self._ended.is_set():
                self._turn()
        except LabError as error:
            self.problem = None if self.xsk.closed else error
        except Exception as error:
            self.problem = error

    def _turn(self) -> None:
        if self._gives_back == "all" and len(self._kept):
            self.xsk.recycle(self._kept)
            self._kept = self._kept[:0]
        if self._pace == PACES[1]:
            self._ended.wait(_PAUSE_S)
        if not self.xsk.wait(_WAIT_S):
            return
        batch = self.xsk.take(_TAKEN)
        self.taken += len(batch)
        back = {"all": len(batch), "half": (len(batch) + self.taken % 2) // 2, "nothing": 0}[self._gives_back]
        self._give(batch, back)

    def _give(self, batch: Batch, back: int) -> None:
        self._kept = np.concatenate([self._kept, batch.addresses[back:]])
        self.xsk.recycle(batch.addresses[:back])

    def __enter__(self) -> AtWork:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "ended" if self._ended.is_set() or not self._thread.is_alive() else f"gives back {self._gives_back}"
        return f"<program at {self.xsk.where}: {state}, {self.taken:,} packets taken>"


def _one_of(known: tuple[str, ...], name: str, value: str) -> str:
    if value not in known:
        raise LessonError(f"{name} can't be {value!r}.", tried=_TRIED, remedy="use " + ", ".join(map(repr, known)))
    return value
