"""The lab: makes a topology real, owns everything it made, and takes it down again."""

from __future__ import annotations

import atexit
import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from labkit import loading, registry
from labkit.errors import LabError, StateError, TopologyError, resources
from labkit.host import Host
from labkit.interface import Interface
from labkit.loading import Event, Level
from labkit.observe.ledger import Ledger
from labkit.observe.observer import Observer
from labkit.observe.sample import Sample
from labkit.program.link import Link, Mode
from labkit.program.map import Map
from labkit.program.program import Program
from labkit.program.spec import ProgramSpec
from labkit.settling import check_settling_time, settled_ledger, wait_for_rest
from labkit.topology import Topology, check_name
from labkit.traffic.board import Sink, TrafficBoard
from labkit.uapi import ProgFlag, ProgType

__all__ = ["Event", "Lab", "open_labs"]

_open: dict[str, Lab] = {}
_open_lock = threading.RLock()


class Lab:
    """A topology in the kernel: each host a network namespace, each link a veth pair.

    ``lab["client"]`` is a Host. Making a lab of the same name in the same process closes the old one first; labs of
    other names and of other processes are not touched. Everything ends with the process, however it ends.
    Raises PrivilegeError, TopologyError.
    """

    def __init__(self, topology: Topology, name: str = "lab") -> None:
        check_name(name, "a lab")
        if not isinstance(topology, Topology):
            raise TopologyError(
                f"{topology!r} is not a topology.",
                tried="to make a lab",
                on=name,
                remedy="give one, as in lk.Lab(lk.Topology.pair())",
            )
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
                with resources("to make a lab", name):
                    self._realise()
            except BaseException:
                with contextlib.suppress(LabError):  # what went wrong first is what matters
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
            hosts[link.a.host].connect(link, hosts[link.b.host])
        for each in hosts.values():
            each.configure()
        for link in self.topology.links:
            a, b = hosts[link.a.host][link.a.interface], hosts[link.b.host][link.b.interface]
            a._peer, b._peer = b, a
            for end in (a, b):
                end.await_carrier()
        for end in self.interfaces:
            end.await_carrier()
        records = (registry.HostRecord(h.name, h.thread.tid, h.inode, h.thread.cookie) for h in hosts.values())
        registry.sweep()
        registry.remember(self.name, tuple(records))
        self.observer = Observer(self)
        self.baseline = self.observer.sample()

    def __getitem__(self, name: str) -> Host:
        try:
            return self.hosts[name]
        except (KeyError, TypeError):
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

    def tell(self, level: Level, text: str, *, once: bool = False) -> None:
        """Add a sentence to the lab's events (the panel shows them); ``once``: unless it is there already."""
        if once and any(event.text == text for event in self.events):
            return
        self.events.append(Event(time.monotonic() - self._born, level, text))

    def load(
        self,
        spec: ProgramSpec,
        function: str | None = None,
        *,
        replaces: Program | None = None,
        maps: Mapping[str, Map] | None = None,
        device: Interface | None = None,
        frags: bool = False,
        type: ProgType = ProgType.XDP,
        expected_attach_type: int = 0,
    ) -> Program:
        """Load one function of ``spec`` into the kernel.

        ``replaces`` hands over the maps of a program that have the same name and shape, so that counters go on.
        ``maps`` shares those of another program with this one, as ``maps=program.maps`` for two functions of one C
        text that work together; each still counts its own verdicts. ``device`` binds the program to an interface
        (needed for metadata hints). ``frags`` lets it see frames of more than one buffer.
        Raises VerifierError with the C line, MapError, PrivilegeError.
        """
        with self._while_open("to load a program"):
            return loading.load(
                self,
                spec,
                function,
                replaces=replaces,
                maps=maps,
                device=device,
                flags=ProgFlag.XDP_HAS_FRAGS if frags else ProgFlag(0),
                type=type,
                expected_attach_type=expected_attach_type,
            )

    def _attach(self, program: Program, interface: Interface, mode: Mode) -> Link:
        with self._while_open("to attach a program"):
            return loading.attach(self, program, interface, mode)

    def link_replacing(self, link: Link, new: Program) -> None:
        """Note that a swap is about to happen (links call this)."""
        self.observer.prepare(new, link.mode)

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
            self.tell("info", f"{link.program.name} detached from {link.interface.where}.")

    def count_bulks(self) -> None:
        """Count redirected frames bulk by bulk from now on: needed where several threads send at once."""
        with self._while_open("to count bulks"), self.traffic.hold_still():
            self.observer.watch_bulks()

    def sample(self) -> Sample:
        """One reading of every counter of the lab, taken while the lab's own generators hold still.

        Raises StateError where the lab is closed, also where another thread closes it meanwhile.
        """
        with self._while_open("to read its counters"), self.traffic.hold_still():
            return self.observer.sample()

    def glance(self) -> Sample:
        """One reading while the traffic goes on: good for rates, off by what is on its way as a ledger.

        Raises StateError as ``sample`` does.
        """
        with self._while_open("to read its counters"):
            return self.observer.sample(at_rest=False)

    def ledger(self, settle_s: float = 2.0) -> Ledger:
        """What became of every packet since the lab came up or was reset.

        Packets may still be on their way through a ring, or to a sink that reads, when traffic has just ended; the
        counters are read again until every packet has arrived, ``settle_s`` (0 to 60) at the longest. What is left then
        is shown as it is. Raises LabError.
        """
        check_settling_time(settle_s, self.name)
        return settled_ledger(self, settle_s)

    def reset(self) -> None:
        """Stop the traffic and count from zero; programs stay attached, their maps keep what they hold."""
        self._check_open("to reset it")
        self.traffic.stop()
        wait_for_rest(self)
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
            raise self.closed_error(what, "is closed")

    @contextlib.contextmanager
    def _while_open(self, what: str) -> Iterator[None]:
        """Raise StateError where the lab is closed, or is closed by another thread before the end of the block."""
        self._check_open(what)
        try:
            with resources(what, self.name):
                yield
        except Exception as error:  # a counter, a map or a host that went first: each says it in its own way
            if self.closed:
                raise self.closed_error(what, "was closed meanwhile") from error
            raise
        if self.closed:
            raise self.closed_error(what, "was closed meanwhile")

    def closed_error(self, what: str, how: str) -> StateError:
        """The error for ``what`` was tried with a lab that "is closed" or "was closed meanwhile"."""
        return StateError(
            f"The lab {self.name} {how}.",
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


def open_labs() -> list[Lab]:
    """The labs of this process that are up."""
    return list(_open.values())


def _close_all() -> None:
    for lab in open_labs():
        with contextlib.suppress(Exception):
            lab.close()


atexit.register(_close_all)
