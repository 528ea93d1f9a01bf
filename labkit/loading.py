"""Programs of a lab: what was asked for is checked, then loaded, attached, and told of in the lab's events."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from labkit.compile.diagnose import verifier_error
from labkit.errors import LabError, TopologyError
from labkit.interface import Interface
from labkit.program.link import Link, Mode
from labkit.program.map import Map
from labkit.program.program import Program, load_program
from labkit.program.reuse import difference
from labkit.program.spec import MapSpec, ProgramSpec
from labkit.uapi import ProgFlag, ProgType

if TYPE_CHECKING:
    from labkit.lab import Lab

__all__ = ["Event", "Level", "attach", "load"]

Level = Literal["info", "warning", "error"]


@dataclass(frozen=True)
class Event:
    """Something worth telling: ``time_s`` since the lab came up, a level, a sentence."""

    time_s: float
    level: Level
    text: str


def load(
    lab: Lab,
    spec: ProgramSpec,
    function: str | None,
    *,
    replaces: Program | None,
    maps: Mapping[str, Map] | None,
    device: Interface | None,
    flags: ProgFlag,
    type: ProgType,
    expected_attach_type: int,
) -> Program:
    """What ``Lab.load`` does. Raises LabError for what can't be meant, else what ``load_program`` raises."""
    _check(isinstance(spec, ProgramSpec), "a compiled program", spec, "give what lk.compile(…) returned")
    _check(type in list(ProgType), "a type of program", type, "use one of labkit.uapi.ProgType")
    _check(
        isinstance(expected_attach_type, int) and 0 <= expected_attach_type < 1 << 32,
        "an attach type",
        expected_attach_type,
        "use one of labkit.uapi.AttachType",
    )
    _check(maps is None or isinstance(maps, Mapping), "a program's maps", maps, "give maps=program.maps")
    _check(
        replaces is None or (isinstance(replaces, Program) and replaces in lab.programs),
        f"a program of the lab {lab.name}",
        replaces,
        "replaces= takes what lab.load(…) of the same lab returned",
    )
    if device is not None:
        _check_interface(lab, device, "to load a program for a device")
        _check(
            type == ProgType.XDP,
            "a type of program that can be bound to a device",
            ProgType(type).name,
            "only XDP programs can ask a driver for hints: leave type= out, or device=",
        )
        flags |= ProgFlag.XDP_DEV_BOUND_ONLY
    job: Callable[[], Program] = partial(
        load_program,
        spec,
        function,
        explain=verifier_error,
        type=ProgType(type),
        flags=flags,
        ifindex=device.ifindex if device is not None else 0,
        expected_attach_type=expected_attach_type,
        reuse={**_reusable(replaces, spec), **_shared(maps, spec)},
    )
    program = device.run(job) if device is not None else job()
    program.attacher = lab._attach
    program.device = device
    lab.programs.append(program)
    if lab.closed:  # by another thread, which may have gone through the programs already
        program.close()
    return program


def attach(lab: Lab, program: Program, interface: Interface, mode: Mode) -> Link:
    """What ``program.attach`` does: a program of this lab already there is swapped out, anyone else's is not."""
    _check_interface(lab, interface, f"to attach {program.name}")
    ours = next((link for link in lab.attached if link.interface.where == interface.where), None)
    if ours is not None:
        lab.tell("info", f"{ours.program.name} taken off {interface.where} for {program.name}.")
        ours.close()
    lab.observer.prepare(program, mode)
    link = Link.attach(program, interface, mode, lab)
    lab.attached.append(link)
    lab.observer.attached(link)
    lab.tell("info", f"{program.name} attached to {interface.where}, {mode} mode, id {program.id}.")
    return link


def _check(fits: bool, wanted: str, given: object, remedy: str) -> None:
    if not fits:
        raise LabError(f"{_short(given)} is not {wanted}.", tried="to load a program", remedy=remedy)


def _check_interface(lab: Lab, interface: object, tried: str) -> None:
    if not isinstance(interface, Interface) or interface.host.lab is not lab:
        raise TopologyError(
            f"{_short(interface)} is not an interface of the lab {lab.name}.",
            tried=tried,
            remedy='give one of its own, as lab["server"]["eth0"]',
        )


def _short(given: object) -> str:
    """What was given, for people: a whole C text would bury the message."""
    text = repr(given)
    return text if len(text) <= 80 else text[:79] + "…"


def _reusable(old: Program | None, spec: ProgramSpec) -> Mapping[str, Callable[[], int]]:
    """For each map of ``old`` that ``spec`` declares alike: a function that gives another descriptor of it."""
    if old is None:
        return {}
    return {
        name: partial(os.dup, each.fd)
        for name, each in old.maps.items()
        if name in spec.maps and not difference(each.spec, old.spec, spec.maps[name], spec)
    }


def _shared(maps: Mapping[str, Map] | None, spec: ProgramSpec) -> Mapping[str, Callable[[], int]]:
    """The same for maps that are to be shared by name; a program's count of its verdicts stays its own.

    Raises LabError where ``spec`` has a map of the same name that is another kind or size.
    """
    taken = {name: each for name, each in (maps or {}).items() if name in spec.maps and name != "verdicts"}
    for name, each in taken.items():
        _check(
            isinstance(each, Map) and _shape(each.spec) == _shape(spec.maps[name]),
            f"the map {name} that {spec.name} declares",
            each,
            "share maps between functions of one C text, as maps=program.maps",
        )
    return {name: partial(os.dup, each.fd) for name, each in taken.items()}


def _shape(spec: MapSpec) -> tuple[Any, ...]:
    return (spec.type, spec.key_size, spec.value_size, spec.max_entries, spec.flags)
