"""The exercise "a stalled transmitter": wake the kernel, as often as it takes, and take back what was sent."""

from __future__ import annotations

import time

from labkit.compile import compile_source
from labkit.compile.source import lesson_directory
from labkit.lesson.practice import Exercise, Row, register
from labkit.lesson.xsk_trial import XskTrial
from labkit.traffic.frames import udp
from labkit.xsk import Umem, XskSocket
from labkit.xsk.loops import written

__all__ = ["STALLED_TRANSMITTER"]

_PACKETS = 1_009
_FRAMES, _RING, _BATCH = 128, 64, 48  # a batch is more than the kernel sends for one wake-up
_IDLE = 5  # turns in which nothing moves: then it has stalled
_PATIENCE_S = 2.0

_KICK = (
    "the kernel: packets lie in the transmit ring, and nobody told it to look there. xsk.kick() wakes it (in copy mode nothing "
    "is sent without)"
)
_AGAIN = (
    "how often: one xsk.kick() sends 32 packets in copy mode and says EAGAIN while there are more. Kick until "
    "xsk.transmit_waiting is 0"
)
_COMPLETE = (
    "the completion ring: the frames of what was sent wait there. While it is full the kernel sends nothing, and says EAGAIN. "
    "xsk.complete() takes them back"
)
_NOTHING = "the transmit ring: not all packets came into it. xsk.transmit(batch, wake=False) puts them there"
_RETURN = (
    "what you return: how many packets the ring had room for, as xsk.transmit says; the others are given to you again"
)


def _run(trial: XskTrial) -> list[Row]:
    program = trial.lab.load(compile_source(path=lesson_directory() / "drop_by_protocol.c"))
    program.attach(trial.server)
    before = trial.server.driver_statistics()["rx_queue_0_xdp_packets"]
    with (
        Umem(_FRAMES) as umem,
        XskSocket(trial.client, umem=umem, receive_ring=0, filled=0, transmit_ring=_RING, completion_ring=_RING) as xsk,
    ):
        trial.guard(xsk)
        handed, said = _send(trial, xsk)
        places = xsk.places()
        sent = xsk.rings.completion.producer  # each frame that the kernel has sent is put there
        arrived = _arrived(trial, before, sent)
    counted = (program.verdicts() or {})["XDP_DROP"]
    return _rows(handed, said, arrived, counted, places)


def _send(trial: XskTrial, xsk: XskSocket) -> tuple[int, int]:
    """Call the function with packets until all are handed over or nothing moves any more.

    How many came into the ring, and how many of them the function told of.
    """
    frame = udp(trial.client.host, trial.server.host)
    handed = said = idle = 0
    while handed < _PACKETS and idle < _IDLE:
        batch = written(xsk, frame, min(_BATCH, _PACKETS - handed))
        before = _put_so_far(xsk)
        told = trial.call(xsk, batch)
        put = min((_put_so_far(xsk) - before) & 0xFFFFFFFF, len(batch))
        xsk.umem.give_back(batch.addresses[put:])
        said += told if isinstance(told, int) else 0
        handed, idle = handed + put, 0 if put else idle + 1
    return handed, said


def _put_so_far(xsk: XskSocket) -> int:
    ring = xsk.rings.transmit
    return ring.producer if ring else 0


def _arrived(trial: XskTrial, before: int, sent: int) -> int:
    until = time.monotonic() + _PATIENCE_S
    while True:
        seen = trial.server.driver_statistics()["rx_queue_0_xdp_packets"] - before
        if seen >= sent or time.monotonic() > until:
            return seen
        time.sleep(0.001)


def _rows(handed: int, said: int, arrived: int, counted: int, places: dict[str, int]) -> list[Row]:
    waiting, completed = places["transmit"], places["completion"]
    look = _cause(arrived, waiting, completed, places["free"])
    free = places["free"]
    return [
        Row("packets handed over", f"{_PACKETS}", f"{handed}", handed == _PACKETS, look),
        Row("packets that the server's driver saw", f"{_PACKETS}", f"{arrived}", arrived == _PACKETS, look),
        Row("packets that the server's program counted", f"{_PACKETS}", f"{counted}", counted == _PACKETS, look),
        Row("left in the transmit ring", "0", f"{waiting}", waiting == 0, look),
        Row("left in the completion ring", "0", f"{completed}", completed == 0, look),
        Row("frames free again", f"{_FRAMES}", f"{free}", free == _FRAMES, look),
        Row("packets that you said had room", f"{handed}", f"{said}", said == handed, _RETURN),
    ]


def _cause(arrived: int, waiting: int, completed: int, free: int) -> str:
    if not waiting and not completed and free == _FRAMES:
        return _NOTHING
    if not arrived:
        return _KICK
    return _COMPLETE if completed else _AGAIN


STALLED_TRANSMITTER = register(
    Exercise(
        "stalled-transmitter",
        "A transmitter that doesn't stall",
        f"transmit_turn(xsk, batch) is called with up to {_BATCH} packets at a time until {_PACKETS:,} are handed over. "
        f"The transmit ring and the completion ring have {_RING} entries each, the memory {_FRAMES} frames. As it stands, "
        "nothing arrives. Mend it: every packet arrives at the server, and in the end all frames are free again. Return how many "
        "of the batch the ring had room for; the others will be handed to you again.",
        "transmit_turn",
        (
            "Draw it: which ring has the packets, and who would have to take them out?",
            "The kernel sends when it is woken up: xsk.kick(). For one wake-up it sends 32, and says EAGAIN if there are more.",
            "When a packet has left, its frame comes into the completion ring. It is yours again when you take it: "
            "xsk.complete(). A full completion ring stops the kernel.",
            "After xsk.transmit: while xsk.transmit_waiting, xsk.kick() and xsk.complete(); and xsk.complete() once more.",
        ),
        _run,
        XskTrial,
        "Python",
    )
)
