"""Programs in the slots of devmaps and CPU maps: what each returned, by its own count, and where it runs."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from labkit.errors import LabError
from labkit.observe.verdicts import Tally
from labkit.program.map import Map
from labkit.program.program import Program
from labkit.uapi import AttachType, MapType

if TYPE_CHECKING:
    from labkit.host import Host

__all__ = ["SlotBook"]

_MODES = {int(AttachType.XDP_DEVMAP): "devmap", int(AttachType.XDP_CPUMAP): "cpumap"}
_DEVMAPS = (MapType.DEVMAP, MapType.DEVMAP_HASH)


class SlotBook:
    """No link tells of such a program: the maps of the programs at the lab's interfaces are searched for it."""

    def __init__(self) -> None:
        self._reach: dict[int, tuple[Map, dict[Any, str]]] = {}  # by the map's id: its host's interfaces or the host
        self._places: dict[int, tuple[str, ...]] = {}  # by the program's id

    def attached(self, program: Program, host: Host) -> None:
        """Note that the maps of ``program`` send packets on from ``host``."""
        for each in program.maps.values():
            if each.spec.type in _DEVMAPS:
                reach: dict[Any, str] = {i.ifindex: i.where for i in host.interfaces.values()}
                self._reach.setdefault(each.id, (each, reach))
            elif each.spec.type == MapType.CPUMAP:
                self._reach.setdefault(each.id, (each, {}))[1]["host"] = host.name

    def read(self, programs: Iterable[Program]) -> dict[int, Tally]:
        """One tally for each counting program of a slot, by the id of its counting map."""
        found = {}
        for program in programs:
            mode = _MODES.get(program.expected_attach_type)
            counts = program.verdicts() if mode is not None else None
            if mode is not None and counts is not None:
                places = self._where(program) if any(counts.values()) else ()
                found[program.maps["verdicts"].id] = Tally(program.name, places, mode, counts)
        return found

    def silent(self, programs: Iterable[Program], kind: AttachType) -> bool:
        """Whether one of the programs for a slot keeps no count."""
        return any(p.expected_attach_type == kind and "verdicts" not in p.maps for p in programs)

    def cpus_counted(self, programs: Iterable[Program]) -> bool:
        """Whether every slot of the CPU maps in use has a program that counts."""
        counting = {program.id for program in programs if "verdicts" in program.maps}
        found: set[int] = set()
        for each, _ in self._reach.values():
            if each.spec.type == MapType.CPUMAP:
                with contextlib.suppress(LabError):
                    found.update(value["id"] for _, value in each.items() if value["qsize"])
        return bool(found) and found <= counting

    def _where(self, program: Program) -> tuple[str, ...]:
        """The interfaces or CPUs in whose slots it is: looked for once, when it has run."""
        if program.id not in self._places:
            found: list[str] = []
            for each, reach in self._reach.values():
                with contextlib.suppress(LabError):  # closed, or read while somebody writes
                    found += [_name(key, value, reach) for key, value in each.read().items() if _holds(value, program)]
            if not found:
                return (program.name,)
            self._places[program.id] = tuple(dict.fromkeys(found))
        return self._places[program.id]


def _holds(value: Any, program: Program) -> bool:
    return isinstance(value, Mapping) and value.get("id") == program.id


def _name(slot: int, value: Mapping[str, int], reach: Mapping[Any, str]) -> str:
    if "host" in reach:
        return f"{reach['host']} CPU {slot}"
    return reach.get(value["ifindex"], f"ifindex {value['ifindex']}")
