"""A packet's life: one packet is sent and followed, hook by hook, with its times."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from html import escape
from typing import TYPE_CHECKING

from labkit.lesson.life_picture import draw_life
from labkit.lesson.page import Table, block
from labkit.lesson.pictures import Picture
from labkit.observe.life import follow
from labkit.observe.life_events import LifeEvent
from labkit.topology import Topology

if TYPE_CHECKING:
    from labkit.interface import Interface
    from labkit.lab import Lab

__all__ = ["Life", "life"]


@dataclass(frozen=True)
class Life:
    """The stations of one packet. In a notebook a picture and the same as a table, in plain text the table.

    ``events`` in order, ``answer`` those of what a host sent back for it; ``end`` as "delivered to a socket" or
    "dropped: NO_SOCKET"; ``notes`` tell what couldn't be seen. Times are those of the tracepoints' programs, each of
    which takes a microsecond or so itself: compare them with one another, not with a run that nobody watches.
    """

    title: str
    topology: Topology
    events: tuple[LifeEvent, ...]
    answer: tuple[LifeEvent, ...]
    end: str
    notes: tuple[str, ...] = ()

    @property
    def table(self) -> Table:
        """A row an event; times in µs since the first and since the one before, "–" where the kernel has no event."""
        rows: list[tuple[object, ...]] = []
        for of, events in (("", self.events), ("answer: ", self.answer)):
            before: int | None = None
            for event in events:
                now, more = event.time_ns, None
                if now is not None:
                    more, before = (None if before is None else f"{(now - before) / 1000:.1f}"), now
                since = None if now is None else f"{now / 1000:.1f}"
                rows.append((len(rows) + 1, since, more, event.cpu, event.where or None, event.what, of + event.says))
        return Table(("station", "µs", "+ µs", "CPU", "where", "event", "what happened"), tuple(rows))

    @cached_property
    def picture(self) -> Picture:
        """Hosts and interfaces from left to right, the stations from top to bottom."""
        said = "; ".join(f"{number}: {each.where}, {each.says}" for number, each in enumerate(self.events, 1))
        svg = draw_life(self.topology, self.events, self.answer, self.end, self.title, said)
        return Picture(self.title, said, svg, self.table)

    def __str__(self) -> str:
        return "\n".join((self.title, str(self.table), *self.notes))

    __repr__ = __str__

    def _repr_html_(self) -> str:
        notes = "".join(f"<p class='soft'>{escape(note)}</p>" for note in self.notes)
        return self.picture._repr_html_() + (block(notes) if notes else "")


def life(lab: Lab, frame: bytes, via: Interface, how: str = "generator") -> Life:
    """Send ``frame`` once out of ``via``, and tell the packet's life by the kernel's tracepoints.

    ``how`` is "generator" (a frame without an sk_buff) or "socket" (an AF_PACKET socket: an sk_buff through the stack's
    way out). Where a UDP datagram ends in filling, its last 16 bytes become random ones of the same checksum. Verdicts
    that have no event are known by the programs' counts. It takes some 0.2 s, 2 s where no end is seen.

    Raises FeatureError where no tracing program runs, StateError while a generator runs, TrafficError.
    """
    course = follow(lab, frame, via, how)
    by = "the generator" if how == "generator" else "a packet socket"
    title = f"A packet's life: {len(frame)} bytes sent from {via.where} by {by}, {course.end}"
    return Life(title, lab.topology, course.events, course.answer, course.end, course.notes)
