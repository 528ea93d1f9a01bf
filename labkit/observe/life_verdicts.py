"""Verdicts for which the kernel has no event: from the programs' own counts before and after, put in their place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from labkit.observe.life_events import LifeEvent
from labkit.observe.life_order import Station
from labkit.program.program import Program
from labkit.uapi import AttachType

if TYPE_CHECKING:
    from labkit.interface import Interface
    from labkit.lab import Lab

__all__ = ["VerdictCounts"]

_TIMED = {
    "xdp_redirect": "XDP_REDIRECT",
    "xdp_redirect_err": "XDP_REDIRECT",
    "xdp_exception": "",  # ABORTED, or a number that is no verdict
}
_ARRIVALS = ("net_dev_start_xmit", "xdp_devmap_xmit", "xdp_bulk_tx")
# What follows each verdict at the same interface in native mode; the verdict is put before it.
_FOLLOWS = {
    "XDP_PASS": ("netif_rx", "napi_gro_receive_entry", "netif_receive_skb"),
    "XDP_TX": ("xdp_bulk_tx",),
    "XDP_DROP": ("kfree_skb", "napi_poll"),
}


@dataclass(frozen=True)
class _Gain:
    """A verdict given once: by which program, where it may have been (interfaces), in which mode; ``source`` of the count."""

    verdict: str
    program: Program
    interfaces: tuple[Interface, ...]
    mode: str
    source: str


class VerdictCounts:
    """What the lab's programs and the drivers counted, now; ``placed`` then tells what came on top."""

    def __init__(self, lab: Lab) -> None:
        self._lab = lab
        self._interfaces = {each.where: each for each in lab.interfaces}
        self._programs: dict[int, Program] = {}
        for program in lab.programs:
            counts = None if program.closed else program.maps.get("verdicts")
            if counts is not None and program.verdicts() is not None:
                self._programs[counts.id] = program
        self._before = {ident: program.verdicts() or {} for ident, program in self._programs.items()}
        self._silent = {
            link.interface.where: (link.program, _driver_drops(self._interfaces[link.interface.where]))
            for link in lab.attached
            if link.mode == "native" and link.program.verdicts() is None
        }

    def placed(self, stations: Sequence[Station]) -> tuple[list[Station], list[str]]:
        """The stations with the verdicts among them, and a note for each verdict that has no place there."""
        found, notes = list(stations), []
        used: set[tuple[str, str]] = set()
        for gain in [*self._counted(stations), *self._dropped(stations)]:
            at = _position(found, gain, used)
            if at is None:
                notes.append(f"{gain.program.name} also returned {gain.verdict or 'a verdict'}: no event shows when.")
                continue
            index, interface = at
            answer = found[index - 1].answer if index else False
            found.insert(index, _station(gain, interface, answer))
        return found, notes

    def _counted(self, stations: Sequence[Station]) -> list[_Gain]:
        gains = []
        for ident, program in self._programs.items():
            links = [
                link
                for link in self._lab.attached
                if (counts := link.program.maps.get("verdicts")) is not None and counts.id == ident
            ]
            places = tuple(self._interfaces[link.interface.where] for link in links)
            mode = links[0].mode if links else ""
            ids = {program.id, *(link.program.id for link in links)}
            timed = [_TIMED[each.event.what] for each in stations if each.event.what in _TIMED and each.program in ids]
            for verdict, now in (program.verdicts() or {}).items():
                word = verdict if verdict == "XDP_REDIRECT" else "" if verdict in ("XDP_ABORTED", "unknown") else None
                left = now - self._before[ident].get(verdict, 0) - (timed.count(word) if word is not None else 0)
                gains += [_Gain(verdict, program, places, mode, "the program's own count")] * max(0, left)
        return gains

    def _dropped(self, stations: Sequence[Station]) -> list[_Gain]:
        """Drops in native mode by programs that keep no count, as the driver counted them."""
        gains = []
        for where, (program, before) in self._silent.items():
            interface = self._interfaces[where]
            timed = sum(each.event.what == "xdp_exception" and each.program == program.id for each in stations)
            left = _driver_drops(interface) - before - timed
            gains += [_Gain("", program, (interface,), "native", "the driver's count")] * max(0, left)
        return gains


def _driver_drops(interface: Interface) -> int:
    return sum(n for name, n in interface.driver_statistics().items() if name.endswith("_xdp_drops"))


def _position(
    stations: Sequence[Station], gain: _Gain, used: set[tuple[str, str]]
) -> tuple[int, Interface | None] | None:
    """Where among the stations, the earliest place that is free."""
    if not gain.interfaces:
        at = _in_a_map(stations, gain.program)
        return None if at is None else (at, None)
    choices = []
    for each in gain.interfaces:
        at = _at_interface(stations, gain, each)
        if at is not None and (each.where, gain.verdict) not in used:
            choices.append((at, each))
    if not choices:
        return None
    best = min(choices, key=lambda choice: choice[0])
    used.add((best[1].where, gain.verdict))
    return best


def _in_a_map(stations: Sequence[Station], program: Program) -> int | None:
    """A program of a devmap or cpumap runs before the bulk is handed on."""
    before = {AttachType.XDP_DEVMAP: "xdp_devmap_xmit", AttachType.XDP_CPUMAP: "xdp_cpumap_kthread"}
    what = before.get(AttachType(program.expected_attach_type)) if program.expected_attach_type else None
    redirects = [
        i for i, each in enumerate(stations) if each.event.what == "xdp_redirect" and each.event.cpu is not None
    ]
    last = redirects[-1] if redirects else -1
    later = [i for i, each in enumerate(stations) if i > last and each.event.what == what]
    if later:
        return later[0]
    return last + 1 if what is not None and redirects else None


def _at_interface(stations: Sequence[Station], gain: _Gain, interface: Interface) -> int | None:
    here, peer = ((each.host.inode, each.ifindex) for each in (interface, interface.peer))
    if gain.mode == "generic":
        received = [i for i, s in enumerate(stations) if s.event.what == "netif_receive_skb" and s.place == here]
        return received[0] + 1 if received else None
    arrivals = [i for i, s in enumerate(stations) if s.event.what in _ARRIVALS and s.place == peer]
    if not arrivals:
        return None
    follows = _FOLLOWS.get(gain.verdict, _FOLLOWS["XDP_DROP"])
    freed = []
    for i in range(arrivals[0] + 1, len(stations)):
        if stations[i].place == here and stations[i].event.what == "consume_skb":
            freed.append(i)
        if stations[i].place == here and stations[i].event.what in follows:
            # The first sk_buff went when it was copied for the program, the copy's when the verdict was known.
            return freed[1] if len(freed) > 1 else i
    return arrivals[0] + 1


def _station(gain: _Gain, interface: Interface | None, answer: bool) -> Station:
    words = f"{gain.program.name} returned {gain.verdict}" if gain.verdict else f"{gain.program.name} dropped it"
    event = LifeEvent(
        None,
        None,
        interface.host.name if interface is not None else "",
        interface.name if interface is not None else "",
        "xdp_verdict",
        f"{words}: known by {gain.source}, as the kernel has no event here.",
        {"verdict": gain.verdict, "program": gain.program.name, "mode": gain.mode},
    )
    return Station(event, (interface.host.inode, interface.ifindex) if interface is not None else (0, 0), answer)
