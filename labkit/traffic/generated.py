"""What the in-kernel generator can send, and what it refuses: each refusal names what was given and what would do."""

from __future__ import annotations

import os
from typing import Any

from labkit.errors import TrafficError
from labkit.traffic.checks import check_interface, check_number, check_whole

__all__ = [
    "LARGEST_FRAME",
    "MOST_METADATA",
    "MOST_PACKETS",
    "SMALLEST_FRAME",
    "check_generator",
    "metadata_before",
    "refused",
    "sized",
]

SMALLEST_FRAME = 14  # ETH_HLEN
# One page less headroom, struct skb_shared_info and struct xdp_page_head: bpf_prog_test_run_xdp, net/bpf/test_run.c.
LARGEST_FRAME = os.sysconf("SC_PAGE_SIZE") - 256 - 320 - 112
MOST_PACKETS = 10_000_000_000
# Bytes: of the headroom of 256, struct xdp_frame takes 40 (tried; more is EINVAL). Older kernels take 32 at the most, and
# say so themselves.
MOST_METADATA = 216
_TRIED = "to generate traffic"


def sized(frame: Any, size: Any) -> bytes:
    """The bytes of ``frame``, padded with zeros or cut to ``size`` where it is given."""
    if not isinstance(frame, (bytes, bytearray, memoryview)):
        raise refused(f"{frame!r} is not a frame.", "give its bytes, as lk.udp(client, server) builds them")
    if size is not None and (isinstance(size, bool) or not isinstance(size, int)):
        raise refused(f"{size!r} bytes is no frame size.", "give a whole number")
    wanted = bytes(frame) if size is None else bytes(frame)[: max(size, 0)].ljust(size, b"\0")
    if not SMALLEST_FRAME <= len(wanted) <= LARGEST_FRAME:
        raise refused(
            f"A frame of {len(wanted)} bytes can't be generated.", f"use {SMALLEST_FRAME} to {LARGEST_FRAME} bytes"
        )
    return wanted


def metadata_before(metadata: Any) -> bytes:
    """The bytes that go before each frame; none where ``metadata`` is empty."""
    if not isinstance(metadata, (bytes, bytearray, memoryview)):
        raise refused(f"metadata can't be {metadata!r}.", "give bytes")
    given = bytes(metadata)
    if len(given) % 4 or len(given) > MOST_METADATA:
        raise refused(
            f"{len(given)} bytes can't go before a frame as its metadata.",
            f"use a multiple of 4, {MOST_METADATA} at the most",
        )
    return given


def check_generator(
    interface: Any, packets: Any, seconds: Any, rate_pps: Any, flows: Any, threads: Any, batch: Any
) -> None:
    """Raise TrafficError unless each is what a generator can be asked for; ``packets`` and ``rate_pps`` may be None."""
    check_interface(interface, _TRIED)
    for name, value, most in (("packets", packets, MOST_PACKETS), ("flows", flows, 50_000), ("threads", threads, 16)):
        if name != "packets" or value is not None:
            check_whole(name, value, 1, most, _TRIED)
    check_whole("batch", batch, 1, 256, _TRIED)
    for name, value in (("seconds", seconds), ("rate_pps", rate_pps)):
        if value is not None:
            check_number(name, value, _TRIED)


def refused(message: str, remedy: str) -> TrafficError:
    """The error for what can't be generated."""
    return TrafficError(message, tried=_TRIED, remedy=remedy)
