"""The events of one packet's life in plain words."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from labkit.observe.drops import reason_name
from labkit.observe.life_probes import RawEvent
from labkit.observe.words import words_of
from labkit.uapi import MapType, XdpAction

if TYPE_CHECKING:
    from labkit.interface import Interface
    from labkit.lab import Lab

__all__ = ["AF_PACKET", "LifeEvent", "Surroundings", "error_name", "plural"]

AF_PACKET = 17  # include/linux/socket.h
_LOOPBACK = 1  # the generator's frames count as received there
_PROTOCOLS = {1: "ICMP", 6: "TCP", 17: "UDP"}
_ICMP_ERRORS = {
    (3, 0): "network unreachable",
    (3, 1): "host unreachable",
    (3, 3): "port unreachable",
    (11, 0): "time exceeded",
}


@dataclass(frozen=True)
class LifeEvent:
    """One station: ``time_ns`` since the first event and ``cpu``, both None where the kernel has no event.

    ``host`` and ``interface`` say where ("" where there is none), ``what`` is the tracepoint's name or "xdp_verdict",
    ``says`` the same in plain words, ``detail`` its numbers.
    """

    time_ns: int | None
    cpu: int | None
    host: str
    interface: str
    what: str
    says: str
    detail: Mapping[str, Any] = field(default_factory=dict)

    @property
    def where(self) -> str:
        """``server eth0``, or the host alone, or "" for neither."""
        return " ".join(part for part in (self.host, self.interface) if part)


class Surroundings:
    """The lab a packet lives in: its interfaces by (namespace, ifindex), its programs by id."""

    def __init__(self, lab: Lab, via: Interface, how: str) -> None:
        self.via, self.how = via, how
        self._hosts = {host.inode: host.name for host in lab.hosts.values()}
        self._interfaces = {(each.host.inode, each.ifindex): each for each in lab.interfaces}
        self._programs = {program.id: program.name for program in lab.programs if not program.closed}

    def interface(self, place: tuple[int, int]) -> Interface | None:
        """The lab's interface there."""
        return self._interfaces.get(place)

    def peer(self, place: tuple[int, int]) -> tuple[int, int] | None:
        """Where the other end of the veth pair is."""
        found = self._interfaces.get(place)
        return (found.peer.host.inode, found.peer.ifindex) if found is not None else None

    def is_generator(self, event: RawEvent) -> bool:
        """Whether the frame is only being made: a redirect at the loopback interface by a program not the lab's."""
        return event.what.startswith("xdp_redirect") and self._made_here(event.place)

    def _made_here(self, place: tuple[int, int]) -> bool:
        return place == (self.via.host.inode, _LOOPBACK)

    def program(self, ident: int) -> str:
        """The program's name."""
        return self._programs.get(ident, f"program {ident}")

    def name(self, place: tuple[int, int]) -> str:
        """``server eth0``."""
        found = self._interfaces.get(place)
        return found.where if found is not None else f"interface {place[1]}"

    def event(self, raw: RawEvent, start_ns: int, first: bool, host: str) -> LifeEvent:
        """``raw`` in words; ``host`` is where the packet was last, for events that don't say it."""
        found = self._interfaces.get(raw.place)
        says, detail = _SAYS[raw.what](self, raw, first)
        return LifeEvent(
            raw.time_ns - start_ns,
            raw.cpu,
            self._hosts.get(raw.place[0], host),
            found.name if found is not None else "",
            raw.what,
            says,
            detail,
        )


Said = tuple[str, dict[str, Any]]


def plural(count: int, what: str) -> str:
    """``1 frame``, ``2 frames``."""
    return f"{count} {what}" + ("" if count == 1 else "s")


def error_name(number: int) -> str:
    """``EOPNOTSUPP`` for 95, in either sign."""
    if abs(number) == errno.EOPNOTSUPP:  # which Python calls ENOTSUP
        return "EOPNOTSUPP"
    return errno.errorcode.get(abs(number), f"errno {abs(number)}")


def _target(around: Surroundings, raw: RawEvent) -> str:
    _error, kind, _map, index = raw.args[:4]
    if kind == MapType.CPUMAP:
        return f"CPU {index}"
    if kind == MapType.XSKMAP:
        return f"the AF_XDP socket in slot {index}"
    if raw.other[1]:
        return around.name(raw.other)
    return around.name((raw.place[0], index)) if kind == MapType.UNSPEC else f"slot {index}"


def _redirect_detail(around: Surroundings, raw: RawEvent) -> dict[str, Any]:
    error, kind, map_id, index = raw.args[:4]
    word = MapType(kind).name.lower() if kind in MapType.__members__.values() else str(kind)
    return {
        "program": "the generator" if around.is_generator(raw) else around.program(raw.program),
        "to": _target(around, raw),
        "map": "" if kind == MapType.UNSPEC else word,
        "map_id": map_id,
        "index": index,
        "error": error,
    }


def _redirect(around: Surroundings, raw: RawEvent, first: bool) -> Said:
    detail = _redirect_detail(around, raw)
    if around.is_generator(raw):
        return f"The generator made the frame and redirects it to {detail['to']}.", detail
    return f"{detail['program']} returned XDP_REDIRECT, to {detail['to']}.", detail


def _redirect_err(around: Surroundings, raw: RawEvent, first: bool) -> Said:
    detail = _redirect_detail(around, raw)
    name = error_name(raw.args[0])
    why = words_of(f"redirect {name}").explains
    return f"{detail['program']} redirects it to {detail['to']}, refused: {name} ({raw.args[0]}). {why}", detail


def _exception(around: Surroundings, raw: RawEvent, first: bool) -> Said:
    action, program = raw.args[0] & 0xFFFFFFFF, around.program(raw.program)
    detail = {"program": program, "action": action}
    if action == XdpAction.ABORTED:
        return f"{program} returned XDP_ABORTED: itself, or a redirect map had nothing at its key.", detail
    if action in tuple(XdpAction):
        return f"XDP_{XdpAction(action).name}, which {program} returned, failed.", detail
    return f"{program} returned {action}, which is no XDP action.", detail


def _bulk(raw: RawEvent) -> dict[str, Any]:
    return dict(zip(("sent", "drops", "error"), raw.args[:3], strict=True))


def _devmap_xmit(around: Surroundings, raw: RawEvent, first: bool) -> Said:
    detail, to = _bulk(raw), around.name(raw.place)
    peer = around.interface(raw.place)
    there = peer.peer.where if peer is not None else "the other end"
    if detail["error"] < 0:
        return f"The driver of {to} refuses the bulk: {os.strerror(-detail['error'])}.", detail
    if detail["drops"]:
        # A program of the devmap ran before, and what it drops counts here too: bq_xmit_all, kernel/bpf/devmap.c.
        return f"Flush of the bulk: dropped. The ring of {there} is full, or the map's own program dropped it.", detail
    return f"Flush of the bulk: {to} puts {plural(detail['sent'], 'frame')} in the ring of {there}.", detail


def _bulk_tx(around: Surroundings, raw: RawEvent, first: bool) -> Said:
    detail, at = _bulk(raw), around.interface(raw.place)
    there = at.peer.where if at is not None else "the other end"
    if detail["drops"] or detail["error"] < 0:
        why = f": {error_name(detail['error'])} ({detail['error']})" if detail["error"] < 0 else ""
        return f"XDP_TX finds no way back to {there}{why}.", detail
    return f"Flush of the bulk: XDP_TX puts {plural(detail['sent'], 'frame')} in the ring of {there}.", detail


def _enqueue(around: Surroundings, raw: RawEvent, first: bool) -> Said:
    detail = dict(zip(("map_id", "processed", "drops", "to_cpu"), raw.args[:4], strict=True))
    if detail["drops"]:
        return f"The queue of CPU {detail['to_cpu']} is full: dropped.", detail
    return f"Flush of the bulk: {plural(detail['processed'], 'frame')} in the queue of CPU {detail['to_cpu']}.", detail


def _kthread(around: Surroundings, raw: RawEvent, first: bool) -> Said:
    detail = dict(zip(("map_id", "processed", "drops", "redirect", "pass", "drop"), raw.args, strict=True))
    verdicts = [f"XDP_{name.upper()}" for name in ("redirect", "pass", "drop") if detail[name]]
    said = f", whose program returned {', '.join(verdicts)}" if verdicts else ""
    return f"The thread cpumap/{raw.cpu} took {plural(detail['processed'], 'frame')} out of its queue{said}.", detail


def _queue(around: Surroundings, raw: RawEvent, first: bool) -> Said:
    who = "A packet socket" if first else "The stack"
    return f"{who} hands it to {around.name(raw.place)}, to be sent.", {"by": who}


def _start_xmit(around: Surroundings, raw: RawEvent, first: bool) -> Said:
    at = around.interface(raw.place)
    there = at.peer.where if at is not None else "the other end"
    return f"The driver of {around.name(raw.place)} gets the sk_buff, and passes it to {there}.", {}


def _kfree(around: Surroundings, raw: RawEvent, first: bool) -> Said:
    reason = reason_name(raw.args[0])
    name = "an XDP program's verdict" if reason == "XDP" else words_of(reason).name
    return f"The kernel drops it, reason {reason}: {name}.", {"reason": reason}


def _read(around: Surroundings, raw: RawEvent, first: bool) -> Said:
    return f"A process read {plural(raw.args[3], 'byte')} from the socket.", {"port": raw.args[2], "bytes": raw.args[3]}


def _icmp(around: Surroundings, raw: RawEvent, first: bool) -> Said:
    kind, code = raw.args[:2]
    word = _ICMP_ERRORS.get((kind, code), f"type {kind}, code {code}")
    return f"The stack answers with an ICMP error: {word}.", {"type": kind, "code": code}


def _poll(around: Surroundings, raw: RawEvent, first: bool) -> Said:
    work = plural(raw.args[0], "frame")
    return f"The poll (NAPI) of {around.name(raw.place)}'s ring ends: {work}.", {
        "work": raw.args[0],
        "budget": raw.args[1],
    }


def _ready(around: Surroundings, raw: RawEvent, first: bool) -> Said:
    family, protocol, port = raw.args[:3]
    detail = {"family": family, "protocol": protocol, "port": port}
    if family == AF_PACKET:
        return "A packet socket (a capture) got a copy.", detail
    kind = _PROTOCOLS.get(protocol, f"protocol {protocol}")
    return f"It waits in the {kind} socket on port {port}, whose reader is woken.", detail


def _plain(text: str) -> Callable[[Surroundings, RawEvent, bool], Said]:
    return lambda around, raw, first: (text, {})


_SAYS: dict[str, Callable[[Surroundings, RawEvent, bool], Said]] = {
    "xdp_redirect": _redirect,
    "xdp_redirect_err": _redirect_err,
    "xdp_exception": _exception,
    "xdp_devmap_xmit": _devmap_xmit,
    "xdp_bulk_tx": _bulk_tx,
    "xdp_cpumap_enqueue": _enqueue,
    "xdp_cpumap_kthread": _kthread,
    "net_dev_queue": _queue,
    "net_dev_start_xmit": _start_xmit,
    "netif_rx": _plain("It waits in this CPU's backlog for the stack."),
    "napi_gro_receive_entry": _plain("The sk_buff is handed to GRO."),
    "netif_receive_skb": _plain("The stack receives it."),
    "kfree_skb": _kfree,
    "consume_skb": _plain("The sk_buff is freed: it did its work."),
    "icmp_send": _icmp,
    "tcp_send_reset": _plain("TCP answers with a reset (RST)."),
    "napi_poll": _poll,
    "sk_data_ready": _ready,
    "sock_recv_length": _read,
}
