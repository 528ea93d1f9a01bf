"""ICMP messages that answer a socket's packets: they make its next send fail, which then has sent nothing."""

from __future__ import annotations

import contextlib
import errno
import socket

__all__ = ["enable_errors", "forget_answers", "send_once"]

_IP_RECVERR = 11  # include/uapi/linux/in.h
# struct sock_extended_err, include/uapi/linux/errqueue.h: u32 errno, u8 origin …
_ORIGIN, _ORIGIN_ICMP = 4, 2
# What icmp_err_convert makes of them, net/ipv4/icmp.c.
_FROM_ICMP = {
    errno.ECONNREFUSED,
    errno.EHOSTUNREACH,
    errno.ENETUNREACH,
    errno.ENOPROTOOPT,
    errno.EOPNOTSUPP,
    errno.EPROTO,
    errno.EHOSTDOWN,
    errno.ENONET,
}


def enable_errors(out: socket.socket) -> None:
    """Have ``out`` told of every failure: else a full or dead link is no error to UDP and raw sockets.

    udp_send_skb, net/ipv4/udp.c, and raw_send_hdrinc, net/ipv4/raw.c, keep ENOBUFS to themselves.
    """
    out.setsockopt(socket.IPPROTO_IP, _IP_RECVERR, 1)


def send_once(out: socket.socket, packet: bytes) -> None:
    """Send ``packet``; OSError where the kernel refused this one, not where an earlier one was answered by ICMP."""
    while True:
        try:
            out.send(packet)
            return
        except OSError as error:
            if error.errno not in _FROM_ICMP or not forget_answers(out):
                raise


def forget_answers(out: socket.socket) -> int:
    """Empty the socket's error queue; how many ICMP messages were in it."""
    found = 0
    with contextlib.suppress(BlockingIOError):
        while True:
            _, ancillary, _, _ = out.recvmsg(1, 512, socket.MSG_ERRQUEUE | socket.MSG_DONTWAIT)
            found += any(
                level == socket.IPPROTO_IP and kind == _IP_RECVERR and data[_ORIGIN] == _ORIGIN_ICMP
                for level, kind, data in ancillary
            )
    return found
