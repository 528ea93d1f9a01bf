"""One packet's life: it is marked, sent alone, and followed by the kernel's tracepoints until it has come to rest."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from labkit.errors import StateError, TrafficError
from labkit.interface import Interface
from labkit.observe.life_events import LifeEvent, Surroundings
from labkit.observe.life_order import end_of, sorted_out
from labkit.observe.life_probes import LifeProbes, Mark
from labkit.observe.life_verdicts import VerdictCounts
from labkit.traffic.frame import ETHERNET_HEADER
from labkit.traffic.generator import generate
from labkit.traffic.raw import send_frames
from labkit.uapi import MapType

if TYPE_CHECKING:
    from labkit.lab import Lab

__all__ = ["Course", "follow"]

_TRIED = "to follow a packet"
_REST_S = 0.03  # without an event after the end: what a reader of the socket or the end of a poll adds comes soon
_LONGEST_S = 2.0  # where no end is seen
_POLL_S = 0.004
_MARK = 16  # bytes, MARK_BYTES in bpf/lab/life_skb.c
_SMALLEST = ETHERNET_HEADER + _MARK
_VLAN, _IPV4, _UDP = (b"\x81\x00", b"\x88\xa8"), b"\x08\x00", 17


@dataclass(frozen=True)
class Course:
    """The events in order, those of an answer apart; how it ended; notes on what couldn't be seen."""

    events: tuple[LifeEvent, ...]
    answer: tuple[LifeEvent, ...]
    end: str
    notes: tuple[str, ...]


def follow(lab: Lab, frame: bytes, via: Interface, how: str) -> Course:
    """Send ``frame`` once out of ``via`` and tell its course. Raises StateError, TrafficError, FeatureError."""
    _check(lab, frame, via, how)
    sent, mark = marked(bytes(frame))
    cpumaps = [m.id for p in lab.programs if not p.closed for m in p.maps.values() if m.spec.type is MapType.CPUMAP]
    around = Surroundings(lab, via, how)
    with LifeProbes([host.inode for host in lab.hosts.values()], cpumaps, mark) as probes:
        counts = VerdictCounts(lab)
        refusals = _send(via, sent, how)
        course = _settled(probes, around, counts)
        lost = probes.lost
        notes = [*probes.notes, *course.notes]
    if lost:
        notes.append(f"{lost} events found no room: something else sends in this lab.")
    if refusals and not course.end:
        course = replace(course, end=f"refused when sent: {refusals}")
    return replace(course, end=course.end or "no event tells how it ended", notes=tuple(notes))


def _check(lab: Lab, frame: Any, via: Any, how: Any) -> None:
    if not isinstance(via, Interface) or via.host.lab is not lab:
        raise TrafficError(
            f"{via!r} is no interface of the lab {lab.name}.",
            tried=_TRIED,
            remedy='give the one it leaves through, as in via=lab["client"]["eth0"]',
        )
    if how not in ("generator", "socket"):
        raise TrafficError(f"A packet can't be sent by {how!r}.", tried=_TRIED, remedy='use "generator" or "socket"')
    if not isinstance(frame, (bytes, bytearray)) or len(frame) < _SMALLEST:
        raise TrafficError(
            f"{frame!r} can't be followed.",
            tried=_TRIED,
            remedy=f"give a frame of {_SMALLEST} bytes or more, as lk.udp(client, server)",
        )
    if lab.closed:
        raise lab.closed_error(_TRIED, "is closed")
    if lab.traffic.running:
        raise StateError(
            "A generator runs in this lab: one packet among millions can't be told from them before it is an sk_buff.",
            tried=_TRIED,
            on=lab.name,
            remedy="stop the traffic first: lab.traffic.stop()",
        )


def marked(frame: bytes) -> tuple[bytes, Mark]:
    """The frame as it is sent, and how to know it again.

    Where a UDP datagram ends in 16 bytes of filling (all the same), they become random ones with the same sum, so that
    its checksum stays right. Any other frame is sent as it is, and known by its last 16 bytes.
    """
    l2 = ETHERNET_HEADER
    while frame[l2 - 2 : l2] in _VLAN and len(frame) > l2 + 4:
        l2 += 4
    end, payload = len(frame), len(frame)
    if frame[l2 - 2 : l2] == _IPV4 and len(frame) >= l2 + 20:
        total = int.from_bytes(frame[l2 + 2 : l2 + 4], "big")
        end = l2 + total if l2 + _MARK <= l2 + total <= len(frame) else len(frame)
        fragment = int.from_bytes(frame[l2 + 6 : l2 + 8], "big") & 0x3FFF
        if frame[l2 + 9] == _UDP and not fragment:
            payload = l2 + (frame[l2] & 15) * 4 + 8
    at = end - _MARK
    filling = frame[at:end]
    if at >= payload and len(set(filling)) == 1:
        frame = frame[:at] + _random_like(filling) + frame[end:]
    return frame, Mark(frame[at:end], at, l2, ETHERNET_HEADER + 28 + end - l2)


def _random_like(filling: bytes) -> bytes:
    """Random bytes with the same Internet checksum (RFC 1071): the last word makes up for the others."""
    most = 0xFFFF
    wanted = sum(int.from_bytes(filling[i : i + 2], "big") for i in range(0, len(filling), 2))
    words = [int.from_bytes(os.urandom(2), "big") for _ in range(len(filling) // 2 - 1)]
    words.append((wanted - sum(words)) % most)
    return b"".join(word.to_bytes(2, "big") for word in words)


def _send(via: Interface, frame: bytes, how: str) -> str:
    """Send it; what refused it, in words, or ""."""
    report = generate(via, frame, 1) if how == "generator" else send_frames(via, frame)
    return ", ".join(report.failures)


def _over(answer: tuple[LifeEvent, ...]) -> bool:
    """Whether nothing more is expected of an answer."""
    ends = ("kfree_skb", "consume_skb", "sk_data_ready", "xdp_verdict", "xdp_exception", "xdp_redirect_err")
    return not answer or any(each.what in ends for each in answer[-2:])


def _settled(probes: LifeProbes, around: Surroundings, counts: VerdictCounts) -> Course:
    """The course once it has ended and nothing has come on top for a while; as it is where no end is seen."""
    began = changed = time.monotonic()
    events = 0
    while True:
        raws = probes.read()
        now = time.monotonic()
        if len(raws) != events:
            events, changed = len(raws), now
        if now - changed >= _REST_S or now - began >= _LONGEST_S:
            stations, notes = counts.placed(sorted_out(raws, around))
            life = tuple(each.event for each in stations if not each.answer)
            end = end_of(life)
            answer = tuple(each.event for each in stations if each.answer)
            if (end and _over(answer)) or now - began >= _LONGEST_S:
                return Course(life, answer, end, tuple(notes))
        time.sleep(_POLL_S)
