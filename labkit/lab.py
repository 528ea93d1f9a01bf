"""The lab: makes a topology real, owns everything it made, and takes it down again."""

from __future__ import annotations

import atexit
import contextlib
import os
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, Protocol

from labkit import registry
from labkit.compile.diagnose import verifier_error
from labkit.errors import LabError, StateError, TopologyError
from labkit.host import Host
from labkit.interface import Interface
from labkit.kernel import rtnl
from labkit.observe.balance import balance
from labkit.observe.ledger import Ledger
from labkit.observe.sample import Observer, Sample
from labkit.program.link import Link, Mode
from labkit.program.program import Program, load_program
from labkit.program.spec import ProgramSpec
from labkit.topology import Topology, check_name
from labkit.traffic.board import TrafficBoard
from labkit.uapi import ProgFlag, ProgType

__all__ = ["Event", "Lab", "open_labs"]

Level = Literal["info", "warning", "error"]
_open: dict[str, Lab] = {}
_open_lock = threading.RLock()


class Sink(Protocol):
    """A receiving socket the lab knows, so that packets waiting in it are in the ledger."""

    host: Host

    @property
    def where(self) -> str: ...
    def queued(self) -> int: ...


@dataclass(frozen=True)
class Event:
    """Something worth telling: ``time_s`` since the lab came up, a level, a sentence."""

    time_s: float
    level: Level
    text: str


class Lab:
    """A topology in the kernel: each host a network namespace, each link a veth pair.

    ``lab["client"]`` is a Host. Making a lab of the same name in the same process closes the old one first; labs of
    other names and of other processes are not touched. Everything ends with the process, however it ends.
    Raises PrivilegeError, TopologyError.
    """

    def __init__(self, topology: Topology, name: str = "lab") -> None:
        check_name(name, "a lab")
        self.topology = topology
        self.name = name
        self.events: list[Event] = []
        self.programs: list[Program] = []
        self.attached: list[Link] = []
        self.sinks: list[Sink] = []
        self.traffic = TrafficBoard()
        self.hosts: Mapping[str, Host] = {}
        self.closed = False
        self._born = time.monotonic()
        self._on_close: list[Callable[[], None]] = []
        with _open_lock:
            if name in _open:
                _open[name].close()
            try:
                self._realise()
            except BaseException:
                self._tear_down()
                raise
            _open[name] = self
        self.tell("info", f"The lab is up: {' – '.join(topology.hosts)}.")

    def _realise(self) -> None:
        hosts: dict[str, Host] = {}
        self.hosts = hosts
        for host in self.topology.hosts:
            hosts[host] = Host(self, host)
        for link in self.topology.links:
            near, far = hosts[link.a.host], hosts[link.b.host]
            try:
                near.rtnl.send([rtnl.add_veth(link.a, link.b, far.thread.fd)])
            except OSError as error:
                raise TopologyError(
                    f"The veth pair {link.a.host} {link.a.interface} – {link.b.host} {link.b.interface} "
                    "could not be made.",
                    tried="to make a link",
                    on=self.name,
                    errno=error.errno,
                    remedy="run labkit doctor: it tells whether this kernel has veth",
                ) from error
        for each in hosts.values():
            each.configure()
        for link in self.topology.links:
            a, b = hosts[link.a.host][link.a.interface], hosts[link.b.host][link.b.interface]
            a._peer, b._peer = b, a
            for end in (a, b):
                end.await_carrier()
        for end in self.interfaces:
            end.await_carrier()
        registry.remember(
            self.name,
            tuple(registry.HostRecord(h.name, h.thread.tid, h.inode, h.thread.cookie) for h in hosts.values()),
        )
        self.observer = Observer(self)
        self.baseline = self.observer.sample()

    def __getitem__(self, name: str) -> Host:
        try:
            return self.hosts[name]
        except KeyError:
            raise TopologyError(
                f"The lab {self.name} has no host {name!r}.",
                tried="to look a host up",
                on=self.name,
                remedy="its hosts are " + ", ".join(self.hosts),
            ) from None

    @property
    def interfaces(self) -> list[Interface]:
        """Every interface of every host, in the topology's order."""
        return [each for host in self.hosts.values() for each in host.interfaces.values()]

    def tell(self, level: Level, text: str) -> None:
        """Add a sentence to the lab's events (the panel shows them)."""
        self.events.append(Event(time.monotonic() - self._born, level, text))

    def load(
        self,
        spec: ProgramSpec,
        function: str | None = None,
        *,
        replaces: Program | None = None,
        device: Interface | None = None,
        frags: bool = False,
        type: ProgType = ProgType.XDP,
        expected_attach_type: int = 0,
    ) -> Program:
        """Load one function of ``spec`` into the kernel.

        ``replaces`` hands over the maps of a program that have the same name and shape, so that counters go on.
        ``device`` binds the program to an interface (needed for metadata hints). ``frags`` lets it see frames of
        more than one buffer. Raises VerifierError with the C line, MapError, PrivilegeError.
        """
        self._check_open("to load a program")
        flags = ProgFlag(0)
        if frags:
            flags |= ProgFlag.XDP_HAS_FRAGS
        if device is not None:
            flags |= ProgFlag.XDP_DEV_BOUND_ONLY
        run = device.host.run if device is not None else _here
        program = run(
            lambda: load_program(
                spec,
                function,
                explain=verifier_error,
                type=type,
                flags=flags,
                ifindex=device.ifindex if device is not None else 0,
                expected_attach_type=expected_attach_type,
                reuse=_reusable(replaces, spec) if replaces is not None else None,
            )
        )
        program.attacher = self._attach
        self.programs.append(program)
        return program

    def _attach(self, program: Program, interface: Interface, mode: Mode) -> Link:
        """What ``program.attach`` does: a program of this lab already there is swapped out, anyone else's is not."""
        self._check_open("to attach a program")
        if not isinstance(interface, Interface) or interface.host.lab is not self:
            raise TopologyError(
                f"{interface!r} is not an interface of the lab {self.name}.",
                tried=f"to attach {program.name}",
                remedy='give one of its own, as in program.attach(lab["server"]["eth0"])',
            )
        ours = next((link for link in self.attached if link.interface.where == interface.where), None)
        if ours is not None:
            self.tell("info", f"{ours.program.name} taken off {interface.where} for {program.name}.")
            ours.close()
        link = Link.attach(program, interface, mode, self)
        self.attached.append(link)
        self.observer.attached(link)
        self.tell("info", f"{program.name} attached to {interface.where}, {mode} mode, id {program.id}.")
        return link

    def link_replaced(self, link: Link, old: Program) -> None:
        """Note a swap (links call this)."""
        self.observer.attached(link)
        kept = link.program.shares_counters_with(old)
        self.tell(
            "info",
            f"{old.name} replaced by {link.program.name} at {link.interface.where}"
            + (", counters kept." if kept else "."),
        )

    def link_closed(self, link: Link) -> None:
        """Note that a program is off (links call this)."""
        if link in self.attached:
            self.attached.remove(link)
            self.observer.detached(link)
            self.tell("info", f"{link.program.name} detached from {link.interface.where}.")

    def count_bulks(self) -> None:
        """Count redirected frames bulk by bulk from now on: needed where several threads send at once."""
        with self.traffic.hold_still():
            self.observer.watch_bulks()

    def sample(self) -> Sample:
        """One reading of every counter of the lab, taken while the lab's own generators hold still."""
        self._check_open("to read its counters")
        with self.traffic.hold_still():
            return self.observer.sample()

    def ledger(self, settle_s: float = 0.5) -> Ledger:
        """What became of every packet since the lab came up or was reset.

        Packets may still be on their way through a ring when traffic has just ended; the counters are read again
        until every packet is accounted for, ``settle_s`` at the longest. What is left then is shown as it is.
        """
        deadline = time.monotonic() + settle_s
        while True:
            ledger = balance(self.baseline, self.sample())
            if ledger.unaccounted == 0 or time.monotonic() >= deadline:
                return ledger
            time.sleep(0.002)

    def reset(self) -> None:
        """Stop the traffic and count from zero; programs stay attached, their maps keep what they hold."""
        self._check_open("to reset it")
        self.traffic.stop()
        deadline, last = time.monotonic() + 0.5, -1
        while time.monotonic() < deadline:  # let packets on their way arrive, else they would open the new ledger
            ledger = balance(self.baseline, self.sample())
            if ledger.unaccounted in (0, last):
                break
            last = ledger.unaccounted
            time.sleep(0.005)
        self.baseline = self.sample()
        self._born = time.monotonic()
        self.events.clear()
        self.tell("info", "Reset: the ledger counts from zero.")

    def on_close(self, function: Callable[[], None]) -> None:
        """Call ``function`` before the lab is taken down (the panel and traffic stop themselves this way)."""
        self._on_close.append(function)

    def close(self) -> None:
        """Take everything down: traffic, links, programs, interfaces, namespaces, threads. Safe to call again."""
        with _open_lock:
            if self.closed:
                return
            self.closed = True
            if _open.get(self.name) is self:
                del _open[self.name]
            self._tear_down()

    def _tear_down(self) -> None:
        """Last made, first gone; every step is tried even where an earlier one failed."""
        steps: list[Callable[[], Any]] = [partial(registry.forget, self.name)]
        steps += [host.close for host in self.hosts.values()]
        if hasattr(self, "observer"):
            steps.append(self.observer.close)
        steps += [program.close for program in self.programs]
        steps += [link.close for link in list(self.attached)]
        steps.append(self.traffic.stop)
        steps += self._on_close
        self.closed = True
        failed: list[BaseException] = []
        for step in reversed(steps):
            try:
                step()
            except Exception as error:
                failed.append(error)
        if failed:
            raise LabError(
                f"The lab {self.name} was taken down, but {len(failed)} step(s) complained.",
                tried="to close the lab",
                detail="\n".join(str(error) for error in failed),
                remedy="labkit doctor shows whether anything was left; restarting the notebook's kernel removes it all",
            ) from failed[0]

    def _check_open(self, what: str) -> None:
        if self.closed:
            raise StateError(
                f"The lab {self.name} is closed.",
                tried=what,
                on=self.name,
                remedy="make it again: run the cell that calls lk.Lab(…)",
            )

    def __enter__(self) -> Lab:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "closed" if self.closed else ", ".join(f"{h.name} {h.ip}" for h in self.hosts.values() if h.interfaces)
        return f"<lab {self.name}: {state}>"


def _here(function: Callable[[], Program]) -> Program:
    return function()


def _reusable(old: Program, spec: ProgramSpec) -> Mapping[str, Callable[[], int]]:
    """For each map of ``old`` that ``spec`` declares alike: a function that gives another descriptor of it."""
    return {
        name: partial(os.dup, each.fd)
        for name, each in old.maps.items()
        if name in spec.maps and _shape(each.spec) == _shape(spec.maps[name])
    }


def _shape(spec: Any) -> tuple[object, ...]:
    return (spec.type, spec.key_size, spec.value_size, spec.max_entries, spec.flags)


def open_labs() -> list[Lab]:
    """The labs of this process that are up."""
    return list(_open.values())


def _close_all() -> None:
    for lab in open_labs():
        with contextlib.suppress(Exception):
            lab.close()


atexit.register(_close_all)
