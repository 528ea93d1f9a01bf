"""The exercise "fill the fill ring": a receiver that must go on when every frame of the memory has been used once."""

from __future__ import annotations

import time
from typing import Any

from labkit.lesson.practice import Exercise, Row, register
from labkit.lesson.xsk_trial import XskTrial
from labkit.traffic.frames import udp
from labkit.traffic.raw import send_frames
from labkit.xsk import Umem, XskSocket

__all__ = ["FILL_THE_FILL_RING"]

_FRAMES, _BURST, _BURSTS = 64, 13, 17  # more packets than three times the memory
_PATIENCE_S = 10.0
_TURNS = 2 * _BURST  # for a burst: enough for one packet a turn

_NEVER = (
    "the frames: you take packets out of the receive ring and keep their frames. The kernel has nothing left to put packets "
    "into. Which method of the socket gives frames back?"
)
_SOME = "how many: not all the frames of a batch came back; give back each one that you took"
_FREE = (
    "where you give them back to: they are among the free frames of the memory, where the kernel doesn't look; it takes "
    "frames out of the fill ring only (xsk.recycle puts them there, or xsk.fill() after umem.give_back)"
)
_TWICE = "how often: some frame was given back twice, so two packets would share it; give back each one once"
_RETURN = "what you return: the number of packets that you have taken in this turn"
_TAKE = "the receive ring: packets are waiting there, and your function doesn't take them"


def _run(trial: XskTrial) -> list[Row]:
    with Umem(_FRAMES) as umem, XskSocket(trial.server, umem=umem, transmit_ring=0) as xsk:
        trial.at_socket(xsk)
        trial.guard(xsk)
        frame = udp(trial.client.host, trial.server.host)
        said = 0
        for burst in range(_BURSTS):
            send_frames(trial.client, frame, _BURST)
            _await(xsk, _BURST * (burst + 1))
            said += _turns(trial, xsk)
        return _rows(xsk, said)


def _await(xsk: XskSocket, packets: int) -> None:
    """Until as many packets have come to the socket, or found no place there."""
    until = time.monotonic() + _PATIENCE_S
    while (seen := xsk.counters()).arrived + seen.refused < packets and time.monotonic() < until:
        time.sleep(0.0005)


def _turns(trial: XskTrial, xsk: XskSocket) -> int:
    """Let the function take turns as long as packets wait; what it says it took, of what can be counted."""
    said = 0
    for _ in range(_TURNS):
        before = xsk.counters().waiting
        said += _whole(trial.call(xsk))
        if not xsk.counters().waiting or (before == xsk.counters().waiting):
            break
    return said


def _whole(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def _rows(xsk: XskSocket, said: int) -> list[Row]:
    sent, seen, places = _BURST * _BURSTS, xsk.counters(), xsk.places()
    look = _cause(xsk)
    missing = places["elsewhere"]
    return [
        Row(f"packets taken, of {sent} in {_BURSTS} bursts", f"{sent}", f"{seen.taken}", seen.taken == sent, look),
        Row("lost for want of a frame", "0", f"{seen.no_buffer}", seen.no_buffer == 0, look),
        Row("left in the receive ring", "0", f"{seen.waiting}", seen.waiting == 0, _TAKE),
        Row("frames in the fill ring afterwards", f"{_FRAMES}", f"{places['fill']}", places["fill"] == _FRAMES, look),
        Row("frames that are nowhere, or in two places", "0", f"{abs(missing)}", missing == 0, look),
        Row("packets that you said you took", f"{seen.taken}", f"{said}", said == seen.taken, _RETURN),
    ]


def _cause(xsk: XskSocket) -> str:
    places, taken = xsk.places(), xsk.counters().taken
    if places["elsewhere"] < 0:
        return _TWICE
    if places["free"]:
        return _FREE
    if xsk.counters().waiting:
        return _TAKE
    return _NEVER if taken <= _FRAMES else _SOME


FILL_THE_FILL_RING = register(
    Exercise(
        "fill-the-fill-ring",
        "A receiver that goes on",
        f"receive_turn(xsk) is called again and again while {_BURST * _BURSTS} packets come, in bursts of {_BURST}. The memory "
        f"has {_FRAMES} frames, all in the fill ring at first. The function takes packets, and after {_FRAMES} of them nothing "
        "comes any more. Mend it: every packet is to be taken, none lost, and in the end all frames are in the fill ring again.",
        "receive_turn",
        (
            "Where are the frames when the receiver has stopped? lesson.rings(xsk) draws it.",
            "xsk.take() makes the frames of a batch yours, until you give them back. The kernel takes empty frames out of the "
            "fill ring, and only the program puts some in.",
            "After you have looked at the packets: xsk.recycle(batch).",
        ),
        _run,
        XskTrial,
        "Python",
    )
)
