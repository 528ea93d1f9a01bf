"""The maps that a browser shows: of a lab, of a program and those that took its place, or one; and their fields."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from labkit.errors import StateError
from labkit.kernel.btf import Btf
from labkit.lab import Lab, open_labs
from labkit.program.map import Map
from labkit.program.program import VERDICTS, Program
from labkit.uapi import MapType
from labkit.widgets.map_browser_fields import Leaf, leaves, named
from labkit.widgets.map_browser_reading import NAME_BYTES

__all__ = ["Known", "fields_of", "is_open", "known_maps", "lab_of", "refreshed"]

_TC_ACTIONS = (
    "OK",
    "RECLASSIFY",
    "SHOT",
    "PIPE",
    "STOLEN",
    "QUEUED",
    "REPEAT",
    "REDIRECT",
)  # include/uapi/linux/pkt_cls.h
_PROTOCOLS = {1: "ICMP", 2: "IGMP", 6: "TCP", 17: "UDP", 41: "IPv6", 47: "GRE", 58: "ICMPv6", 132: "SCTP"}
_DEVMAPS = (MapType.DEVMAP, MapType.DEVMAP_HASH)
_PROGRAM = "program (id)"


@dataclass(frozen=True)
class Known:
    """A map by one open ``Map``, and the open programs of the lab that use it."""

    map: Map
    programs: tuple[Program, ...]

    @property
    def label(self) -> str:
        """Its name, and whose it is."""
        return f"{self.map.name} of {', '.join(dict.fromkeys(program.name for program in self.programs))}"


def is_open(each: Map) -> bool:
    """Whether somebody holds its descriptor."""
    with contextlib.suppress(StateError):
        return each.fd >= 0
    return False


def lab_of(what: Any) -> Lab:
    """The open lab that a program or map belongs to. Raises StateError for what is nothing of the kind, or closed."""
    tried, remedy = "to show maps", "give a lab, what lab.load(…) returned, or one of its maps, as program.maps[…]"
    if isinstance(what, Lab):
        if what.closed:
            raise what.closed_error(tried, "is closed")
        return what
    if not isinstance(what, (Program, Map)):
        shown = repr(what)
        raise StateError(f"{shown[:80]} is no lab, program or map.", tried=tried, remedy=remedy)
    for lab in open_labs():
        for program in list(lab.programs):
            if not program.closed and (what is program or any(what is each for each in program.maps.values())):
                return lab
    raise StateError(
        f"{what.name} belongs to no open lab, or is closed.",
        tried=tried,
        on=what.name,
        remedy=f"{remedy}; run the cell that calls lab.load(…) again",
    )


def known_maps(lab: Lab, what: Lab | Program | Map) -> dict[int, Known]:
    """Every map of ``what`` that some open program of the lab has, by the kernel's id."""
    programs = [program for program in list(lab.programs) if not program.closed]
    wanted = _family(what, programs) if isinstance(what, Program) else programs
    found: dict[int, Map] = {}
    users: dict[int, list[Program]] = {}
    for program in programs:
        for each in list(program.maps.values()):
            if is_open(each):
                users.setdefault(each.id, []).append(program)
                if program in wanted and (not isinstance(what, Map) or each.id == what.id):
                    found.setdefault(each.id, each)
    return {ident: Known(each, tuple(users[ident])) for ident, each in found.items()}


def _family(what: Program, programs: list[Program]) -> list[Program]:
    """The program, and those that go on with its count: what an editor put in its place."""
    return [each for each in programs if each is what or each.shares_counters_with(what)]


def fields_of(known: Known, lab: Lab) -> tuple[tuple[Leaf, ...], tuple[Leaf, ...]]:
    """The fields of its key and of its value, with the names that are certain."""
    each = known.map
    spec, kind = each.spec, each.spec.type
    program = known.programs[0]
    btf = Btf(program.spec.btf) if program.spec.btf else None
    keys = leaves(btf, spec.key_type, spec.key_size)
    if kind is MapType.LPM_TRIE and spec.key_size > 4:
        keys = (Leaf("", 0, spec.key_size, "prefix"),)
    if len(keys) == 1 and (words := _names(spec.name, kind, spec.max_entries)):
        keys = (named(keys[0], words),)
    return keys, _special(known, lab) or leaves(btf, spec.value_type, spec.value_size)


def refreshed(values: Sequence[Leaf], known: Known, lab: Lab) -> Sequence[Leaf]:
    """The same fields, with the names of interfaces and programs as they are now."""
    return _special(known, lab) or values


def _names(name: str, kind: MapType, entries: int) -> dict[int, str]:
    """Names of an array's indexes, where the map's own name says what they are."""
    if kind not in (MapType.ARRAY, MapType.PERCPU_ARRAY):
        return {}
    if name == "verdicts" and entries == len(VERDICTS):
        return dict(enumerate((*VERDICTS[:-1], "any other number")))
    if name == "tc_verdicts" and entries == len(_TC_ACTIONS):
        return {number: f"TC_ACT_{word}" for number, word in enumerate(_TC_ACTIONS)}
    return _PROTOCOLS if entries == 256 and "protocol" in name.split("_") else {}


def _special(known: Known, lab: Lab) -> tuple[Leaf, ...]:
    """The values of maps that hold interfaces, CPUs, programs, sockets, maps."""
    kind, programs = known.map.spec.type, {**_programs(lab), 0: "none"}
    second = (Leaf(_PROGRAM, 4, 4, "number", words=programs),) if known.map.spec.value_size == 8 else ()
    if kind in _DEVMAPS:
        return (Leaf("interface (ifindex)", 0, 4, "number", words=_interfaces(known, lab)), *second)
    if kind is MapType.CPUMAP:
        return (Leaf("queue in packets", 0, 4, "number"), *second)
    if kind is MapType.XSKMAP:
        return (Leaf("socket", 0, NAME_BYTES, "text"),)
    if kind is MapType.PROG_ARRAY:
        return (Leaf(_PROGRAM, 0, 4, "number", words=programs),)
    if kind in (MapType.ARRAY_OF_MAPS, MapType.HASH_OF_MAPS):
        return (Leaf("map (id)", 0, 4, "number"),)
    return ()


def _programs(lab: Lab) -> dict[int, str]:
    """The lab's open programs by their ids."""
    return {program.id: program.name for program in list(lab.programs) if not program.closed}


def _interfaces(known: Known, lab: Lab) -> dict[int, str]:
    """The lab's interfaces by index. Each host counts its own, so that one index may be of several: then all are named.

    Those of hosts where a program with this map runs come first.
    """
    hosts = {link.interface.where.partition(" ")[0] for link in list(lab.attached) if link.program in known.programs}
    order = sorted(lab.interfaces, key=lambda each: each.host.name not in hosts)
    found: dict[int, list[str]] = {}
    for each in order:
        found.setdefault(each.ifindex, []).append(each.where)
    return {index: " or ".join(where) for index, where in found.items()}
