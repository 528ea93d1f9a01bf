"""UDP from an ordinary socket of a host: what an application sends, through every layer of the stack."""

from __future__ import annotations

import socket
from itertools import repeat

from labkit.host import Host
from labkit.interface import Interface
from labkit.traffic.answers import enable_errors, send_once
from labkit.traffic.burst import bound_waiting, send_all
from labkit.traffic.checks import MOST_PACKETS, check_port, check_whole
from labkit.traffic.failures import failure_name
from labkit.traffic.report import TrafficReport
from labkit.traffic.way import Way, no_way, way

__all__ = ["send_udp"]

_TRIED = "to send UDP"
_HEADERS = 14 + 20 + 8  # bytes: Ethernet, IPv4 (RFC 791), UDP (RFC 768)
_LARGEST = 14 + 65535
_IP_MTU_DISCOVER, _IP_PMTUDISC_DO = 10, 2  # include/uapi/linux/in.h


def send_udp(
    source: Host | Interface,
    destination: Host | Interface,
    packets: int,
    *,
    dport: int = 9999,
    size: int = 64,
    rate_pps: float | None = None,
    timeout_s: float = 600.0,
) -> TrafficReport:
    """Send ``packets`` datagrams from a socket of ``source`` to port ``dport`` of ``destination``.

    ``size`` is that of the frame in bytes (42 to the MTU + 14; longer ones are refused by the
    kernel, as they must not be cut into fragments). ``sent`` counts what left the interface.
    Raises TrafficError.
    """
    check_whole("packets", packets, 1, MOST_PACKETS, _TRIED)
    check_port("dport", dport, _TRIED)
    check_whole("size", size, _HEADERS, _LARGEST, _TRIED)
    taken = way(source, destination, _TRIED)
    try:
        out = _connected(taken, dport)
    except OSError as error:
        if not taken.out.up:
            name = failure_name(taken.out, error.errno or 0)
            return TrafficReport("udp", taken.out.where, 0, packets, 0.0, size, {name: packets})
        raise no_way(taken, error, _TRIED) from error
    with out:

        def send(payload: bytes) -> None:
            send_once(out, payload)

        return send_all(
            taken.out,
            send,
            repeat(bytes(size - _HEADERS), packets),
            "udp",
            rate_pps=rate_pps,
            timeout_s=timeout_s,
            frame_bytes=size,
        )


def _connected(taken: Way, dport: int) -> socket.socket:
    out = taken.out.host.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try:
        bound_waiting(out)
        out.setsockopt(socket.IPPROTO_IP, _IP_MTU_DISCOVER, _IP_PMTUDISC_DO)
        enable_errors(out)
        out.bind((taken.out.ip, 0))
        out.connect((taken.target.ip, dport))
    except BaseException:
        out.close()
        raise
    return out
