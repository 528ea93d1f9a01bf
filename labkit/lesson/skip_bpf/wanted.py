"""The exercise of lesson 09: one port's packets to the socket, and all else to the stack. No skip could do that."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from labkit.lesson import odd_frames
from labkit.lesson.practice import Exercise, Row, register
from labkit.lesson.skip_bpf.trial import COPIES, SocketTrial, Went

__all__ = ["UDP_TO_SOCKET"]

_SOCKET, _STACK = "the socket", "the stack"
_MAP = "the map sockets: nothing is sent by it. Keep its name, and end in sockets.redirect_map(ctx->rx_queue_index, XDP_PASS)"
_ANSWER = (
    "the queue without a socket: the lower two bits of redirect_map's flags are its answer for an empty slot. 0 is XDP_ABORTED; "
    "XDP_PASS lets the stack have the packet"
)
_QUEUE = (
    "the slot: a socket gets packets of its own queue only, so the slot is ctx->rx_queue_index. To another queue's socket the "
    "kernel refuses each redirect"
)
_PORT = "the port: it is the destination's, and in network byte order in the packet: udp->dest != htons(9999)"
_TYPE = "what isn't UDP over IPv4 belongs to the stack: without ARP nobody finds this host, without TCP it can't be logged in to"
_FRAGMENT = "fragments: only the first one has a UDP header; see is_later_fragment in bpf/common/parse.h"
_OPTIONS = "IPv4 options: the header is ip->ihl * 4 bytes long; next_ipv4 moves the cursor behind it"
_SHORT = "a frame that ends before its headers do: next_…() returns NULL, and the stack may have it"
_VERDICT = "the verdict: nothing is dropped here. What isn't the socket's gets XDP_PASS"
_TARGET = "the target: XDP_REDIRECT alone names none; return what sockets.redirect_map() returns"
_ALTERED = "the frame itself: it stays as it is, whoever gets it"

Made = Callable[[int], bytes]
"""A frame with this source port."""


@dataclass(frozen=True)
class _Case:
    """Frames, the queue they are to come by (None: either), and where they should go."""

    what: str
    made: Made
    queue: int | None
    to: str
    look: str

    def row(self, trial: SocketTrial) -> Row:
        if self.queue is None:
            with trial.both_queues():
                went = trial.send(self.made(0))
        else:
            went = trial.send(trial.by_queue(self.made, self.queue))
        there = went.to_socket if self.to == _SOCKET else went.to_stack
        good = there == COPIES and not went.altered
        by = "" if self.queue is None else f", by queue {self.queue}"
        return Row(f"{COPIES} × {self.what}{by}", f"{COPIES} to {self.to}", went.words, good, self._diagnosis(went))

    def _diagnosis(self, went: Went) -> str:
        if went.altered:
            return _ALTERED
        if went.refused:
            return _TARGET if self.queue == 0 else _QUEUE
        if went.dropped:
            return _ANSWER if self.queue == 1 else _VERDICT if self.to == _STACK else _TARGET
        return self.look


def _fixed(frame: Callable[[], bytes]) -> Made:
    return lambda _: frame()


def _udp(sport: int, **more: object) -> bytes:
    return odd_frames.udp(sport=sport or 4321, **more)  # type: ignore[arg-type]


def _cases() -> tuple[_Case, ...]:
    options = odd_frames.nops()
    return (
        _Case("UDP to port 9999", _udp, 0, _SOCKET, _PORT),
        _Case("UDP to port 9999", _udp, 1, _STACK, _ANSWER),
        _Case("UDP to port 9999, behind IPv4 options", partial(_udp, options=options), 0, _SOCKET, _OPTIONS),
        _Case("UDP to port 53", partial(_udp, dport=53), 0, _STACK, _PORT),
        _Case("UDP from port 9999 to port 53", _fixed(lambda: _udp(9999, dport=53)), None, _STACK, _PORT),
        _Case("later fragment, 9999 where a port would be", _fixed(odd_frames.later_fragment), None, _STACK, _FRAGMENT),
        _Case("TCP to port 9999", _fixed(lambda: odd_frames.tcp(9999)), None, _STACK, _TYPE),
        _Case("ARP, 42 bytes", _fixed(odd_frames.arp), None, _STACK, _TYPE),
        _Case("IPv6, 17 and 9999 where IPv4 has them", _fixed(odd_frames.ipv6_look_alike), None, _STACK, _TYPE),
        _Case("UDP cut off after two bytes", _fixed(lambda: odd_frames.udp()[:36]), None, _STACK, _SHORT),
    )


def _run(trial: SocketTrial) -> list[Row]:
    if "sockets" not in trial.program.maps:
        return [Row("the map sockets", "LAB_XSKMAP(sockets, 64)", "not used by the program", False, _MAP)]
    return [case.row(trial) for case in _cases()]


UDP_TO_SOCKET = register(
    Exercise(
        "udp-to-socket",
        "One port for the socket, the rest for the stack",
        "The server has two receive queues; queue 0 has an AF_XDP socket, queue 1 sometimes. Write the program that gives a "
        "queue's socket what comes by that queue as UDP over IPv4 to port 9999, and leaves all else to the stack: other ports, "
        "TCP, ARP, IPv6, later fragments, and the same port's packets where the queue has no socket. Nothing is lost.",
        "udp_to_socket",
        (
            "As it is, the program gives everything away: nobody answers ARP any more. Which header tells whose a packet is?",
            "bpf/common/parse.h goes through the headers with the bounds checked: next_eth, next_ipv4, next_udp. Whatever isn't "
            "UDP to port 9999 ends in verdict(ctx, XDP_PASS).",
            "Two things remain. A later fragment has no UDP header: is_later_fragment(ip). And redirect_map's second argument is "
            "the answer for a queue without a socket.",
            "if (!ip || ip->protocol != IPPROTO_UDP || is_later_fragment(ip)) pass; if (!udp || udp->dest != htons(9999)) pass; "
            "else return verdict(ctx, sockets.redirect_map(ctx->rx_queue_index, XDP_PASS)).",
        ),
        _run,
        SocketTrial,
    )
)
