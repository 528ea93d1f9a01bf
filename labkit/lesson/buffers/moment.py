"""Where every page of a lab's pools is, at one moment: places with names for people, and the sums that must agree."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from labkit.buffers import BufferWatch, Pool, watch
from labkit.errors import FeatureError, LessonError, StateError
from labkit.lab import Lab

__all__ = ["AWAY", "HOME", "PageMoment", "PagesOf", "Spot", "moment_of", "spots_of"]

HOME, AWAY = "at home", "away"

# The place's name where it is counted, its name for people, whether a page is at home there, and what that means.
_SPOTS = (
    ("pool cache", "pool cache", HOME, "for the CPU that takes the next one: no lock needed"),
    ("pool ring", "pool ring", HOME, "where other CPUs give pages back"),
    ("open page", "open page", HOME, "cut into pieces for small packets"),
    ("receive ring", "receive ring", AWAY, "frames that wait for the driver; a veth has no other transmit ring"),
    ("elsewhere", "program, stack", AWAY, "on its way: too short a time to be told apart"),
    ("cpumap queue", "CPU queue", AWAY, "of a CPU map, until that CPU has time"),
    ("socket", "socket", AWAY, "until somebody reads it, or closes it"),
)
_USER = ("user", AWAY, "none, ever: a read copies the bytes, and the page goes home")
_COUNTED_BY_SOCKETS = "socket"


@dataclass(frozen=True)
class Spot:
    """``pages`` at a place (None: not counted here); ``side`` is HOME or AWAY."""

    name: str
    side: str
    says: str
    pages: int | None


@dataclass(frozen=True)
class PageMoment:
    """``held`` less ``released`` are the pages in flight, and the spots share them out. ``recycled`` is a part of 1.

    Without tracing there are no pages, only datagrams in sockets: ``note`` says so, and the sums are None.
    """

    title: str
    spots: tuple[Spot, ...]
    held: int | None = None
    released: int | None = None
    frames: int = 0
    recycled: float | None = None
    pools: tuple[Pool, ...] = ()
    ended: int = 0
    note: str = ""

    @property
    def in_flight(self) -> int | None:
        """Pages held and not released."""
        return None if self.held is None or self.released is None else self.held - self.released

    @property
    def adds_up(self) -> bool:
        """Whether the spots share out exactly the pages in flight."""
        return self.in_flight is None or sum(spot.pages or 0 for spot in self.spots) == self.in_flight

    def side(self, side: str) -> int:
        """Pages at home, or away."""
        return sum(spot.pages or 0 for spot in self.spots if spot.side == side)

    @property
    def sum_in_words(self) -> str:
        """``64 pool cache + 3 socket = 67 in flight = 70 held − 3 released``."""
        if self.in_flight is None:
            return self.note
        parts = " + ".join(f"{spot.pages:,} {spot.name}" for spot in self.spots if spot.pages) or "0"
        return f"{parts} = {self.in_flight:,} in flight = {self.held:,} held − {self.released:,} released"


def moment_of(lab: Lab, pools: BufferWatch | None, note: str = "") -> PageMoment:
    """The pages of ``lab`` now, as ``pools`` counts them; without it, what waits in sockets and ``note``."""
    title = f"{lab.name}: where the pages are"
    if pools is None:
        waiting = sum(sink.queued() for sink in list(lab.sinks))
        counted = {_COUNTED_BY_SOCKETS: waiting}
        return PageMoment(title, spots_of(counted, None), frames=sum(lab.traffic.totals().values()), note=note)
    found = pools.read()
    pages = {place.name: place.pages for place in pools.where(found).places}
    return PageMoment(
        title,
        spots_of(pages, 0),
        found.held,
        found.released,
        found.frames,
        found.recycle_ratio,
        tuple(sorted(found.pools, key=lambda pool: (-pool.out, pool.number))),
        found.ended.pools,
    )


class PagesOf:
    """The pages of an open lab, moment by moment: ``moment()`` until ``close()``, or until the lab's end. Raises LessonError."""

    def __init__(self, lab: Lab) -> None:
        if not isinstance(lab, Lab) or lab.closed:
            raise LessonError(f"{lab!r} is no open lab.", tried="to look at its pages", remedy="make one: lk.Lab(…)")
        self.lab = lab
        self.pools: BufferWatch | None = None
        self.note = ""
        self._closed = False
        try:
            self.pools = watch(lab)
        except FeatureError as error:
            self.note = f"{error.message} Pages can't be shown here; what waits in the lab's sockets can."

    def moment(self) -> PageMoment:
        """Where the pages are now. Raises StateError after the end."""
        if self._closed or self.lab.closed:
            raise StateError("It was closed.", tried="to look at pages", remedy="run the cell that makes it again")
        return moment_of(self.lab, self.pools, self.note)

    def close(self) -> None:
        """Stop counting. Safe to call again."""
        self._closed = True
        if self.pools is not None:
            self.pools.close()


def spots_of(pages: Mapping[str, int], user: int | None) -> tuple[Spot, ...]:
    """Every place with its pages, by the names of ``labkit.buffers``; what is not counted has None."""
    spots = [Spot(name, side, says, pages.get(known)) for known, name, side, says in _SPOTS]
    return (*spots, Spot(*_USER, user))
