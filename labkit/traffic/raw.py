"""Frames as they are, out of one interface, through an AF_PACKET socket: packet(7)."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from itertools import cycle, islice

from labkit.errors import TrafficError
from labkit.interface import Interface
from labkit.traffic.burst import bound_waiting, send_all
from labkit.traffic.checks import MOST_PACKETS, check_interface, check_whole
from labkit.traffic.report import TrafficReport

__all__ = ["frame_socket", "send_frames"]

_TRIED = "to send frames"


def send_frames(
    interface: Interface,
    frames: bytes | Sequence[bytes],
    packets: int | None = None,
    *,
    rate_pps: float | None = None,
    timeout_s: float = 600.0,
) -> TrafficReport:
    """Send ``packets`` frames out of ``interface``, past the protocols: some hundred thousand a second.

    ``frames`` is one frame or several, sent in turn, over and over up to ``packets`` (None: each
    once). Each is tried once; refusals are in the report by name, as "peer server eth0 is down".
    Raises TrafficError for what can't be sent at all.
    """
    check_interface(interface, _TRIED)
    given = [frames] if isinstance(frames, bytes) else list(frames)
    if not given or not all(isinstance(frame, bytes) for frame in given):
        raise TrafficError(
            "Not everything given is a frame." if given else "There is no frame to send.",
            tried=_TRIED,
            on=interface.where,
            remedy="give frames, as lk.udp(client, server), or other bytes",
        )
    count = len(given) if packets is None else packets
    check_whole("packets", count, 1, MOST_PACKETS, _TRIED)
    sizes = {len(frame) for frame in given}
    with frame_socket(interface) as out:
        return send_all(
            interface,
            out.send,
            islice(cycle(given), count),
            "frames",
            rate_pps=rate_pps,
            timeout_s=timeout_s,
            frame_bytes=sizes.pop() if len(sizes) == 1 else 0,
            past_ip=True,
        )


def frame_socket(interface: Interface) -> socket.socket:
    """A socket that sends frames out of ``interface`` and receives none. Close it yourself."""
    # Protocol 0: no frame is ever queued on it, packet_create, net/packet/af_packet.c.
    out = interface.host.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    try:
        bound_waiting(out)
        out.bind((interface.name, 0))
    except OSError as error:
        out.close()
        raise TrafficError(
            f"No frame can leave {interface.where}.",
            tried="to open a packet socket",
            on=interface.where,
            errno=error.errno,
            remedy="make the lab again: the interface may be gone",
        ) from error
    return out
