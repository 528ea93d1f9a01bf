"""Replay of a capture file out of an interface of the lab."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import cycle, islice
from pathlib import Path

from labkit.errors import CaptureError
from labkit.interface import Interface
from labkit.traffic.burst import send_all
from labkit.traffic.checks import MOST_PACKETS, check_interface, check_whole
from labkit.traffic.frame import ETHERNET_HEADER
from labkit.traffic.pcap import CapturedPacket, read_pcap
from labkit.traffic.raw import frame_socket
from labkit.traffic.report import TrafficReport

__all__ = ["replay"]

_TRIED = "to replay a capture file"
_MOST_BYTES = 256 << 20  # held in memory, so that nothing is sent of a file that ends in the middle
_MULTICAST = 1  # the lowest bit of a MAC's first byte, IEEE 802; broadcast has it too
_CUT = "cut short when it was captured"
_NO_FRAME = "no Ethernet frame: shorter than its header"


def replay(
    interface: Interface,
    path: str | os.PathLike[str],
    *,
    packets: int | None = None,
    rate_pps: float | None = None,
    keep_macs: bool = False,
    timeout_s: float = 600.0,
) -> TrafficReport:
    """Send the packets of a capture file out of ``interface``, in order, whichever way they once went.

    Each once, or ``packets`` of them, from the start again where the file has fewer. Times in the file
    are not kept: as fast as it goes, or at ``rate_pps``. The source MAC becomes the interface's, a
    unicast destination the peer's, or the peer would take no packet of it in; ``keep_macs`` leaves them.
    What can't be sent as it was (longer than the MTU, cut by the capture) is refused by name. The file
    is read before the first packet leaves. Raises CaptureError, TrafficError.
    """
    check_interface(interface, _TRIED)
    if packets is not None:
        check_whole("packets", packets, 1, MOST_PACKETS, _TRIED)
    found = _read(Path(path), packets)
    near, far = _mac(interface.mac), _mac(interface.peer.mac)
    prepared = [_prepared(each, None if keep_macs else (near, far)) for each in found]
    refused: Counter[str] = Counter()

    def usable() -> Iterator[bytes]:
        for each in islice(cycle(prepared), packets or len(prepared)):
            if isinstance(each, bytes):
                yield each
            else:
                refused[each] += 1

    with frame_socket(interface) as out:
        report = send_all(interface, out.send, usable(), "replay", rate_pps=rate_pps, timeout_s=timeout_s, past_ip=True)
    failures = Counter(report.failures) + refused
    return replace(report, failed=failures.total(), failures=dict(failures))


def _read(path: Path, packets: int | None) -> list[CapturedPacket]:
    """The packets to send, all read: at most ``packets``."""
    found, size = [], 0
    for each in islice(read_pcap(path), packets):
        found.append(each)
        size += len(each.data)
        if size > _MOST_BYTES:
            raise CaptureError(
                f"{path.name} holds more than {_MOST_BYTES >> 20} MiB of packets.",
                tried=_TRIED,
                on=str(path),
                remedy=f"use its first {len(found) - 1:,}: packets={len(found) - 1}",
            )
    if not found:
        raise CaptureError(
            f"{path.name} holds no packet.",
            tried=_TRIED,
            on=str(path),
            remedy="capture again while something is sent",
        )
    return found


def _prepared(packet: CapturedPacket, macs: tuple[bytes, bytes] | None) -> bytes | str:
    """The frame to send, or why there is none."""
    if not packet.whole:
        return _CUT
    if len(packet.data) < ETHERNET_HEADER:
        return _NO_FRAME
    return _between(packet.data, *macs) if macs else packet.data


def _mac(text: str) -> bytes:
    return bytes.fromhex(text.replace(":", ""))


def _between(frame: bytes, near: bytes, far: bytes) -> bytes:
    """The frame from ``near``; to ``far``, unless it was for many."""
    return (frame[:6] if frame[0] & _MULTICAST else far) + near + frame[12:]
