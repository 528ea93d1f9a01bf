"""Where every frame of an AF_XDP socket's memory is, and where the four rings' positions stand; at one moment."""

from __future__ import annotations

from dataclasses import dataclass

from labkit.errors import LessonError
from labkit.lesson.page import Table
from labkit.lesson.pictures import Picture
from labkit.lesson.xsk_rings_drawing import drawn
from labkit.xsk import Ring, XskSocket

__all__ = ["RingState", "RingsState", "rings", "rings_picture", "state_of"]

_TRIES = 1000
_WRAP = 0xFFFFFFFF
_PARTNERS = {  # who puts in, who takes out
    "fill": ("program", "kernel"),
    "receive": ("kernel", "program"),
    "transmit": ("program", "kernel"),
    "completion": ("kernel", "program"),
}


@dataclass(frozen=True)
class RingState:
    """A ring's positions, and the numbers of the frames between them, those that are taken out first in front."""

    name: str
    size: int
    consumer: int
    producer: int
    frames: tuple[int, ...]
    puts_in: str
    takes_out: str


@dataclass(frozen=True)
class RingsState:
    """The rings, and how many frames are where: ``places`` in a packet's order; their sum is the memory's ``frames``."""

    where: str
    frames: int
    rings: tuple[RingState, ...]
    places: dict[str, int]


def state_of(xsk: XskSocket) -> RingsState:
    """What the rings look like now. Raises LessonError for what is no socket, StateError after close."""
    if not isinstance(xsk, XskSocket):
        raise LessonError(
            f"{xsk!r} is no AF_XDP socket.", tried="to draw its rings", remedy="give what lk.xsk.XskSocket(…) returned"
        )
    with xsk.umem.lock:
        for _ in range(_TRIES):  # the kernel's positions move while they are read: only what stood still is one moment
            before = _positions(xsk)
            found, kernel = xsk.places(), _with_the_kernel(xsk)
            states = tuple(_state(each, xsk.umem.frame_size) for each in xsk.rings.all())
            if _positions(xsk) == before:
                break
    between = found.pop("elsewhere")
    free = found.pop("free")
    if kernel is None:
        found["program, kernel, other sockets"] = between
    else:
        found["kernel"], found["program"] = kernel, between - kernel
    found["free"] = free
    return RingsState(xsk.where, xsk.umem.frames, states, found)


def rings(xsk: XskSocket, title: str = "") -> Picture:
    """The four rings with the positions of who puts in and who takes out, and where each frame is: a picture and its table.

    ``title`` says what was done last.
    """
    return rings_picture(state_of(xsk), title)


def rings_picture(state: RingsState, title: str = "") -> Picture:
    """The same of a moment that was read before."""
    said = f"{title}: the rings of {state.where}" if title else f"The rings of {state.where}"
    places = ", ".join(f"{name} {frames:,}" for name, frames in state.places.items())
    description = f"Of {state.frames:,} frames: {places}."
    return Picture(said, description, drawn(state, said, description), _table(state), open=False)


def _positions(xsk: XskSocket) -> list[tuple[int, int]]:
    return [(each.consumer, each.producer) for each in xsk.rings.all()]


def _state(ring: Ring, frame_size: int) -> RingState:
    consumer, producer = ring.consumer, ring.producer
    entries = ring.entries["address"] if ring.entries.dtype.names else ring.entries
    slots = [(consumer + i) % ring.size for i in range((producer - consumer) & _WRAP)]
    frames = tuple(int(entries[slot]) // frame_size for slot in slots)
    return RingState(ring.name, ring.size, consumer, producer, frames, *_PARTNERS[ring.name])


def _with_the_kernel(xsk: XskSocket) -> int | None:
    """Frames taken out of a ring by the kernel and not put into the next; None where other sockets have the memory as well."""
    if len(xsk.umem.users) > 1:
        return None
    fill, receive, transmit, completion = xsk.rings.fill, xsk.rings.receive, xsk.rings.transmit, xsk.rings.completion
    arriving = (fill.consumer - receive.producer) & _WRAP if receive else 0
    leaving = (transmit.consumer - completion.producer) & _WRAP if transmit else 0
    invalid = xsk.statistics().tx_invalid_descs  # taken out, and never put into the completion ring
    return arriving + max(0, leaving - invalid)


def _table(state: RingsState) -> Table:
    rows: list[tuple[object, ...]] = [
        (each.name, each.puts_in, each.takes_out, each.producer, each.consumer, len(each.frames), each.size)
        for each in state.rings
    ]
    named = {each.name for each in state.rings}
    rows += [(name, None, None, None, None, frames, None) for name, frames in state.places.items() if name not in named]
    rows.append(("the whole memory", None, None, None, None, sum(state.places.values()), state.frames))
    return Table(("place", "put in by", "taken out by", "producer", "consumer", "frames", "of"), tuple(rows))
