"""Where every frame of an AF_XDP socket's memory is, and where the four rings' positions stand; at one moment."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from labkit.errors import LessonError
from labkit.lesson.page import Table
from labkit.lesson.pictures import Picture
from labkit.lesson.xsk_rings_drawing import drawn
from labkit.xsk import Ring, XskSocket

__all__ = ["RingState", "RingsState", "rings", "rings_picture", "state_of"]

_TRIES = 8
_WRAP = 0xFFFFFFFF
_PARTNERS = {  # who puts in, who takes out
    "fill": ("program", "kernel"),
    "receive": ("kernel", "program"),
    "transmit": ("program", "kernel"),
    "completion": ("kernel", "program"),
}


@dataclass(frozen=True)
class RingState:
    """A ring's positions, and the numbers of the frames between them, those that are taken out first in front.

    ``needs_wakeup``: the kernel looks into it only when it is told to.
    """

    name: str
    size: int
    consumer: int
    producer: int
    frames: tuple[int, ...]
    puts_in: str
    takes_out: str
    needs_wakeup: bool = False


@dataclass(frozen=True)
class RingsState:
    """The rings, and how many frames are where: ``places`` in a packet's order; their sum is the memory's ``frames``."""

    where: str
    frames: int
    rings: tuple[RingState, ...]
    places: dict[str, int]


def state_of(xsk: XskSocket) -> RingsState:
    """What the rings look like now. Raises LessonError for what is no socket, StateError after close.

    The program's loop waits for microseconds meanwhile, the kernel not at all. Under traffic the kernel's four positions
    may be some packets apart in time; the places add up to the memory all the same, and none is below 0.
    """
    if not isinstance(xsk, XskSocket):
        raise LessonError(
            f"{xsk!r} is no AF_XDP socket.", tried="to draw its rings", remedy="give what lk.xsk.XskSocket(…) returned"
        )
    with xsk.umem.lock:
        invalid, free, alone = xsk.statistics().tx_invalid_descs, xsk.umem.free, len(xsk.umem.users) == 1
        positions = _one_moment(xsk)
        held = [_held(each, *positions[each.name]) for each in xsk.rings.all()]
    states = tuple(
        _state(each, positions[each.name], addresses, xsk.umem.frame_size)
        for each, addresses in zip(xsk.rings.all(), held, strict=True)
    )
    places = {each.name: len(each.frames) for each in states}
    between = xsk.umem.frames - free - sum(places.values())
    if alone:
        places["kernel"] = kernel = _with_the_kernel(positions, invalid)
        places["program"] = between - kernel
    else:
        places["program, kernel, other sockets"] = between
    places["free"] = free
    return RingsState(xsk.where, xsk.umem.frames, states, places)


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


def _one_moment(xsk: XskSocket) -> dict[str, tuple[int, int]]:
    """Consumer and producer of each ring. The lock keeps the program's still, the kernel's are read until they stood still."""
    found = _positions(xsk)
    for _ in range(_TRIES):
        before, found = found, _positions(xsk)
        if before == found:
            break
    return found


def _positions(xsk: XskSocket) -> dict[str, tuple[int, int]]:
    """Against a frame's way: one that moves meanwhile is seen where it was, or between the rings, and never twice."""
    found = {}
    for each in reversed(xsk.rings.all()):
        producer = each.producer
        found[each.name] = (each.consumer, producer)
    return found


def _held(ring: Ring, consumer: int, producer: int) -> NDArray[np.uint64]:
    """The addresses between the positions, a copy: neither side writes there."""
    slots = (consumer + np.arange((producer - consumer) & _WRAP)) % ring.size
    entries = ring.entries["address"] if ring.entries.dtype.names else ring.entries
    return entries[slots]


def _state(ring: Ring, positions: tuple[int, int], addresses: NDArray[np.uint64], frame_size: int) -> RingState:
    frames = tuple((addresses // np.uint64(frame_size)).tolist())
    return RingState(ring.name, ring.size, *positions, frames, *_PARTNERS[ring.name], ring.needs_wakeup)


def _with_the_kernel(positions: dict[str, tuple[int, int]], invalid: int) -> int:
    """Frames taken out of a ring by the kernel and not put into the next.

    ``invalid`` descriptors were taken out, and never come to the completion ring.
    """
    arriving = (positions["fill"][0] - positions["receive"][1]) & _WRAP if "receive" in positions else 0
    leaving = (positions["transmit"][0] - positions["completion"][1]) & _WRAP if "transmit" in positions else 0
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
