"""Where the frames of a memory are while packets come faster than a program takes them: one line for each moment."""

from __future__ import annotations

import time
from collections.abc import Sequence

from labkit.compile import compile_source
from labkit.compile.source import lesson_directory
from labkit.lab import Lab
from labkit.lesson.page import Table
from labkit.lesson.pictures import Picture, svg_of
from labkit.lesson.xsk_rings import RingsState, state_of
from labkit.lesson.xsk_rings_drawing import MEMORY_STEP, MEMORY_WIDTH, memory
from labkit.topology import Topology
from labkit.traffic.frames import udp
from labkit.traffic.generator import Generator
from labkit.xsk import XskSocket

__all__ = ["film_of", "rings_film"]

_PACKETS, _RATE_PPS = 6_007, 100_000  # three times the memory, in about 60 ms
_TAKEN = 128  # packets a turn: less than what comes meanwhile
_TURN_S = 0.006
_MOMENTS = 9
_PATIENCE_S = 20.0  # until the first packet comes


def rings_film() -> Picture:
    """A slow program at a socket under traffic, in a lab "film": where the 2,048 frames are before each of its turns.

    Packets come for as long as the picture's first half, about; then the program takes what is left.
    """
    with Lab(Topology.pair(), name="film") as lab:
        client, server = lab["client"], lab["server"]
        program = lab.load(compile_source(path=lesson_directory() / "to_socket.c"))
        program.attach(server["eth0"])
        with XskSocket(server["eth0"], transmit_ring=0) as xsk:
            program.maps["sockets"][0] = xsk
            states = [state_of(xsk)]
            generator = Generator(client["eth0"], udp(client, server), _PACKETS, rate_pps=_RATE_PPS).start()
            xsk.wait(_PATIENCE_S)
            while len(states) < _MOMENTS or generator.running:
                time.sleep(_TURN_S)  # the program is busy with something else
                states.append(state_of(xsk))
                xsk.drop(_TAKEN)
            generator.wait()
            lab.ledger()  # until nothing is under way any more
            while xsk.drop():
                pass
            return film_of([*states[:_MOMENTS], state_of(xsk)])


def film_of(states: Sequence[RingsState]) -> Picture:
    """A line for each of ``states``, of one socket: where its frames were. The table has the sum of each line."""
    lines = [memory(10 + i * MEMORY_STEP, state, f"turn {i}") for i, state in enumerate(states[:-1])]
    lines.append(memory(10 + len(lines) * MEMORY_STEP, states[-1], "at last"))
    names = list(states[0].places)
    rows = tuple(
        (i, *(state.places[name] for name in names), sum(state.places.values())) for i, state in enumerate(states)
    )
    title = f"Where the {states[0].frames:,} frames of {states[0].where} are, turn by turn"
    most = max(state.places.get("receive", 0) for state in states)
    last = states[-1].places.get("receive", 0)
    said = f"{len(states)} moments; the receive ring has up to {most:,} frames, in the end {last:,}."
    svg = svg_of(title, said, MEMORY_WIDTH, 10 + len(states) * MEMORY_STEP, "".join(lines))
    return Picture(title, said, svg, Table(("turn", *names, "the whole"), rows), open=False)
