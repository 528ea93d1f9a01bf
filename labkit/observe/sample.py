"""A sample: one reading of every counter of a lab."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from labkit.errors import LabError
from labkit.observe.bulk import Bulks, BulkWatch
from labkit.observe.drops import DropKey, DropWatch
from labkit.observe.protocols import read_protocols, read_waiting_bytes
from labkit.observe.verdicts import Tally, VerdictBook
from labkit.program.link import Link

if TYPE_CHECKING:
    from labkit.host import Host
    from labkit.lab import Lab

__all__ = ["HostCounters", "InterfaceCounters", "Observer", "Sample"]


@dataclass(frozen=True)
class InterfaceCounters:
    """``link``: rtnetlink's statistics; ``driver``: the driver's own; ``mode``: of the XDP program there, "" for none.

    ``bulks`` is what the driver took and refused of redirected frames, exact also where its own counters are not.
    """

    host: str
    netns: int
    ifindex: int
    link: Mapping[str, int]
    driver: Mapping[str, int]
    mode: str
    bulks: Bulks

    def queues(self, counter: str) -> int:
        """A per-queue counter of the driver summed over queues: ``rx xdp_drops`` sums ``rx_queue_*_xdp_drops``."""
        side, _, name = counter.partition(" ")
        return sum(
            value for key, value in self.driver.items() if key.startswith(f"{side}_queue_") and _tail(key) == name
        )


def _queues(driver: Mapping[str, int], counter: str) -> int:
    side, _, name = counter.partition(" ")
    return sum(value for key, value in driver.items() if key.startswith(f"{side}_queue_") and _tail(key) == name)


def _driver_bulks(driver: Mapping[str, int]) -> Bulks:
    return Bulks(_queues(driver, "tx xdp_xmit"), _queues(driver, "tx xdp_xmit_errors"))


def _tail(key: str) -> str:
    """``xdp_drops`` of ``rx_queue_0_xdp_drops``."""
    return key.split("_", 3)[3]


@dataclass(frozen=True)
class HostCounters:
    """``protocols``: SNMP counters; ``queued``: datagrams waiting in the lab's own sockets, by socket;
    ``waiting_bytes``: memory of what waits in any UDP socket, by port."""

    protocols: Mapping[str, int]
    queued: Mapping[str, int]
    waiting_bytes: Mapping[int, int]


@dataclass(frozen=True)
class Sample:
    """All counters at ``time_s`` (monotonic). Interfaces by ``host name``, tallies by their number."""

    time_s: float
    interfaces: Mapping[str, InterfaceCounters]
    hosts: Mapping[str, HostCounters]
    verdicts: Mapping[int, Tally]
    drops: Mapping[DropKey, int]
    generated: Mapping[str, int]
    discarded: Mapping[str, int]
    notes: tuple[str, ...] = field(default_factory=tuple)


class Observer:
    """Reads the counters of a lab. Cheap to keep; what it can't watch is named in ``notes``."""

    def __init__(self, lab: Lab) -> None:
        self._lab = lab
        self.verdicts = VerdictBook()
        self.notes: list[str] = []
        self._drops: DropWatch | None = None
        self._bulks: BulkWatch | None = None
        try:
            self._drops = DropWatch([host.inode for host in lab.hosts.values()])
        except LabError as error:
            self.notes.append(
                f"No drop reasons: {error.message} Losses inside the stack are named by protocol counters."
            )

    def attached(self, link: Link) -> None:
        """Note a link, so that its program's count stays in the ledger after it is gone."""
        self.verdicts.attached(link)

    def without_drop_reasons(self) -> AbstractContextManager[None]:
        """While it lasts, a packet dropped in the stack costs what it costs without the lab (some 400 ns less).

        For measuring rates: a ledger over that time shows such packets as unaccounted, as nobody noted their names.
        """
        return self._drops.paused() if self._drops is not None else contextlib.nullcontext()

    def detached(self, link: Link) -> None:
        """Note that a link is closed."""
        self.verdicts.detached(link)

    def watch_bulks(self) -> None:
        """Count redirected frames exactly though several CPUs send them; call it while traffic holds still."""
        if self._bulks is not None:
            return
        before = {}
        for each in self._lab.interfaces:
            before[(each.host.inode, each.ifindex)] = _driver_bulks(each.driver_statistics())
        try:
            self._bulks = BulkWatch([host.inode for host in self._lab.hosts.values()], before)
        except LabError as error:
            self.notes.append(
                f"{error.message} With several senders a few frames may be missing from a full ring's count."
            )

    def sample(self) -> Sample:
        """Read everything now. The reading is consistent where traffic holds still (``Lab.sample`` sees to that)."""
        interfaces: dict[str, InterfaceCounters] = {}
        bulks = self._bulks.read() if self._bulks is not None else {}
        hosts: dict[str, HostCounters] = {}
        for host in self._lab.hosts.values():
            hosts[host.name], found = host.run(self._read_host, host, bulks)
            interfaces.update(found)
        strangers = [note for host in self._lab.hosts.values() for note in self._strangers(host, hosts[host.name])]
        return Sample(
            time.monotonic(),
            interfaces,
            hosts,
            self.verdicts.read(),
            self._drops.read() if self._drops is not None else {},
            self._lab.traffic.totals(),
            self._lab.traffic.discards(),
            tuple(self.notes + strangers),
        )

    def _read_host(
        self, host: Host, bulks: Mapping[tuple[int, int], Bulks]
    ) -> tuple[HostCounters, dict[str, InterfaceCounters]]:
        """Runs on the host's thread: one hop for all its counters."""
        interfaces = {}
        for each in host.interfaces.values():
            link = next((link for link in self._lab.attached if link.interface.where == each.where), None)
            driver = host.ethtool.statistics(each.name)
            interfaces[each.where] = InterfaceCounters(
                host.name,
                host.inode,
                each.ifindex,
                host.rtnl.statistics(each.ifindex),
                driver,
                link.mode if link is not None else "",
                bulks.get((host.inode, each.ifindex)) or _driver_bulks(driver),
            )
        queued = {sink.where: sink.queued() for sink in self._lab.sinks if sink.host is host}
        return HostCounters(read_protocols(), queued, read_waiting_bytes()), interfaces

    def _strangers(self, host: Host, counters: HostCounters) -> list[str]:
        """What the ledger can't count: datagrams that wait in sockets the lab didn't open."""
        known = {getattr(sink, "port", None) for sink in self._lab.sinks if sink.host is host}
        return [
            f"Datagrams wait in a socket the lab didn't open ({host.name} UDP port {port}, {size:,} bytes with the kernel's "
            "overhead): read them, or use lk.UdpSink, which the ledger can count."
            for port, size in counters.waiting_bytes.items()
            if size and port not in known
        ]

    def close(self) -> None:
        """Let go of the probes. Safe to call again."""
        for watch in (self._drops, self._bulks):
            if watch is not None:
                watch.close()
