"""Sending packets from bytes: written into free frames, a ring full at a time, until each has left."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from labkit.errors import XskError
from labkit.traffic.checks import MOST_PACKETS, check_number
from labkit.traffic.report import TrafficReport
from labkit.xsk.checks import check_whole, refused
from labkit.xsk.frames import Batch

if TYPE_CHECKING:
    from labkit.xsk.transmitting import Transmitting

__all__ = ["send"]

_SHORTEST = 14  # ETH_HLEN
_TRIED = "to send frames"
_REST_S = 0.0002


class _Frames:
    """What is to be sent, as rows of one array: a batch of it is written with one step for all frames."""

    def __init__(self, frames: Sequence[bytes]) -> None:
        self.lengths = np.array([len(each) for each in frames], np.uint32)
        self.longest = int(self.lengths.max())
        self._rows = np.zeros((len(frames), self.longest), np.uint8)
        for row, each in zip(self._rows, frames, strict=True):
            row[: len(each)] = np.frombuffer(each, np.uint8)

    def write(self, xsk: Transmitting, addresses: NDArray[np.uint64], first: int) -> Batch:
        """A batch of the frames from number ``first`` on, in turn, each at the beginning of a frame of the memory."""
        turn = (np.arange(len(addresses)) + first) % len(self.lengths)
        xsk.umem.bytes[addresses // np.uint64(xsk.umem.frame_size), : self.longest] = self._rows[turn]
        return Batch(addresses, self.lengths[turn])


def send(xsk: Transmitting, frames: bytes | Sequence[bytes], packets: int | None, timeout_s: float) -> TrafficReport:
    """What ``XskSocket.send`` does."""
    given = _checked(xsk, frames)
    count = len(given) if packets is None else check_whole("packets", packets, 1, MOST_PACKETS, _TRIED)
    check_number("timeout_s", timeout_s, _TRIED)
    what, sent, began, words = _Frames(given), 0, time.perf_counter(), set[str]()
    until = began + timeout_s
    while sent < count and time.perf_counter() < until:
        xsk.complete()
        addresses = xsk.umem.take(min(count - sent, xsk.transmit_room))
        if len(addresses):
            batch = what.write(xsk, addresses, sent)
            queued = xsk.transmit(batch, wake=False)
            xsk.umem.give_back(addresses[queued:])
            sent += queued
        words.add(xsk.flush())
        if not len(addresses) and not xsk.transmit_waiting and not xsk.complete():
            time.sleep(_REST_S)  # every frame is with the kernel, or with somebody else
    left = _finish(xsk, until, words)
    size = what.longest if len(set(what.lengths.tolist())) == 1 else 0
    failures = {f"not sent in time ({', '.join(sorted(words - {''})) or 'no frame free'})": count - sent + left}
    failed = count - sent + left
    return TrafficReport(
        "AF_XDP", xsk.where, sent - left, failed, time.perf_counter() - began, size, failures if failed else {}
    )


def _finish(xsk: Transmitting, until: float, words: set[str]) -> int:
    """Wake the kernel until the transmit ring is empty and every frame is back: how many are left in the ring in the end."""
    while xsk.transmit_waiting and time.perf_counter() < until:
        words.add(xsk.flush())
    xsk.complete()
    return xsk.transmit_waiting


def _checked(xsk: Transmitting, frames: bytes | Sequence[bytes]) -> list[bytes]:
    try:
        given = [frames] if isinstance(frames, bytes) else list(frames)
    except TypeError:
        given = []
    if not given or not all(isinstance(each, bytes) for each in given):
        raise refused(
            "Not everything given is a frame.", _TRIED, "give bytes, as lk.udp(client, server), or a list of them"
        )
    for each in given:
        if not _SHORTEST <= len(each) <= xsk.umem.frame_size:
            raise XskError(
                f"A frame of {len(each)} bytes can't be sent from this memory.",
                tried=_TRIED,
                on=xsk.where,
                remedy=f"send {_SHORTEST} to {xsk.umem.frame_size:,} bytes, or use larger frames: Umem(frame_size=4096)",
            )
    return given
