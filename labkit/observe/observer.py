"""The observer of a lab: holds the probes, and reads every counter into a Sample."""

from __future__ import annotations

import contextlib
import errno
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, TypeVar

from labkit.errors import LabError
from labkit.kernel.gate import in_sandbox
from labkit.observe.arp import ArpWitness
from labkit.observe.bulk import Bulks, BulkWatch
from labkit.observe.classifiers import ClassifierBook
from labkit.observe.drops import DropWatch
from labkit.observe.firewall import FirewallWitness
from labkit.observe.protocols import ipv6_is_off, read_protocols, read_socket_use, read_waiting_bytes
from labkit.observe.redirects import RedirectWatch
from labkit.observe.sample import HostCounters, InterfaceCounters, Sample, driver_bulks
from labkit.observe.verdicts import VerdictBook
from labkit.program.link import Link
from labkit.program.program import Program

if TYPE_CHECKING:
    from labkit.host import Host
    from labkit.lab import Lab

__all__ = ["Observer"]

W = TypeVar("W")
_MODES = {0: "", 1: "native", 2: "generic"}  # XDP_ATTACHED_*, include/uapi/linux/if_link.h


class Observer:
    """Reads the counters of a lab. Cheap to keep; what it can't watch is named in ``notes``."""

    def __init__(self, lab: Lab) -> None:
        self._lab = lab
        self.verdicts = VerdictBook()
        self._classifiers = ClassifierBook()
        self.notes: list[str] = []
        namespaces = [host.inode for host in lab.hosts.values()]
        self._drops = self._watch(
            lambda: DropWatch(namespaces),
            "Losses inside the stack are named where a counter names them. Unaccounted stays what firewall rules, TC and "
            "generic XDP programs drop without a count, impossible addresses, and silent neighbours; what TCP or ICMP "
            "refuses shows as delivered to them.",
        )
        self._redirects = self._watch(
            lambda: RedirectWatch(namespaces),
            "A refused redirect has no reason in the ledger, and one of a generic XDP program shows as unaccounted.",
        )
        self._bulks: BulkWatch | None = None
        self._several_senders = False
        self._arp: dict[str, ArpWitness] = {}
        self._firewalls: dict[str, FirewallWitness] = {}
        self._last: dict[str, InterfaceCounters] = {}
        self._gone: dict[str, InterfaceCounters] = {}
        try:
            for host in lab.hosts.values():
                self._arp[host.name] = host.run(ArpWitness)
                if self._drops is None:
                    self._firewalls[host.name] = host.run(FirewallWitness)
        except BaseException:
            self.close()
            raise

    def _watch(self, start: Callable[[], W], without: str) -> W | None:
        """The probe, or None and a note where this kernel refuses it: a missing probe never fails a lesson."""
        try:
            return start()
        except LabError as error:
            withheld = error.errno == errno.EPERM and in_sandbox()
            instead = f"The instructor withheld tracing programs: {without[0].lower()}{without[1:]}"
            self.notes.append(instead if withheld else f"{error.message} {without}")
            return None

    def prepare(self, program: Program, mode: str) -> None:
        """Note that a program is about to run."""
        self.verdicts.prepare(program, mode)

    def attached(self, link: Link) -> None:
        """Note a link, so that its program's count stays in the ledger after it is gone."""
        self.verdicts.attached(link)

    def without_drop_reasons(self) -> AbstractContextManager[None]:
        """While it lasts, a packet dropped in the stack costs what it costs without the lab (some hundred ns less).

        For measuring rates: a ledger over that time shows such packets as unaccounted, as nobody noted their names.
        """
        return self._drops.paused() if self._drops is not None else contextlib.nullcontext()

    def watch_bulks(self) -> None:
        """Count redirected frames exactly though several CPUs send them; call it while traffic holds still."""
        if not self._several_senders:
            self._several_senders = True
            namespaces = [host.inode for host in self._lab.hosts.values()]
            before = {(i.host.inode, i.ifindex): driver_bulks(i.driver_statistics()) for i in self._lab.interfaces}
            self._bulks = self._watch(
                lambda: BulkWatch(namespaces, before),
                "With several senders a few of many frames may be miscounted, "
                "unless the topology has a queue for each CPU.",
            )

    def sample(self) -> Sample:
        """Read everything now. The reading is consistent where traffic holds still (``Lab.sample`` sees to that)."""
        interfaces: dict[str, InterfaceCounters] = {}
        bulks = self._bulks.read() if self._bulks is not None else {}
        hosts: dict[str, HostCounters] = {}
        for host in self._lab.hosts.values():
            hosts[host.name], found = host.run(self._read_host, host, bulks)
            interfaces.update(found)
        return Sample(
            time.monotonic(),
            interfaces,
            hosts,
            self.verdicts.read(),
            self._classifiers.read(list(self._lab.programs)) if self._drops is None else {},
            self._drops.read() if self._drops is not None else None,
            self._redirects.read() if self._redirects is not None else None,
            self._lab.traffic.totals(),
            self._lab.traffic.discards(),
            self._several_senders and self._bulks is None,
            (*self.notes, *self._gone_notes(), *self._strangers(hosts)),
        )

    def _read_host(
        self, host: Host, bulks: Mapping[tuple[int, int], Bulks]
    ) -> tuple[HostCounters, dict[str, InterfaceCounters]]:
        """Runs on the host's thread: one hop for all its counters."""
        interfaces = {}
        for each in host.interfaces.values():
            try:
                driver = host.ethtool.statistics(each.name)
                interfaces[each.where] = InterfaceCounters(
                    host.name,
                    each.peer.where,
                    host.inode,
                    each.ifindex,
                    host.rtnl.statistics(each.ifindex),
                    driver,
                    _MODES.get(host.rtnl.link(each.ifindex).xdp_mode, "native"),
                    bulks.get((host.inode, each.ifindex)) or driver_bulks(driver),
                )
                self._last[each.where] = interfaces[each.where]
            except OSError:  # somebody deleted it: what it had counted stays in the ledger
                if each.where not in self._last:
                    raise
                interfaces[each.where] = self._gone[each.where] = self._last[each.where]
        queued = {sink.where: sink.queued() for sink in self._lab.sinks if sink.host is host}
        use = read_socket_use()
        counters = HostCounters(
            host.inode,
            read_protocols(losses=self._drops is None),
            self._arp[host.name].read(),
            queued,
            read_waiting_bytes() if use.udp > len(queued) else {},
            use.reassembling,
            use.tcp,
            self._drops is None and ipv6_is_off(host.interfaces),
            self._firewalls[host.name].read() if host.name in self._firewalls else 0,
        )
        return counters, interfaces

    def _gone_notes(self) -> list[str]:
        return [f"{where} is gone: its counters are those of the last reading." for where in self._gone]

    def _strangers(self, hosts: Mapping[str, HostCounters]) -> list[str]:
        """What the ledger can't count: datagrams that wait in sockets the lab didn't open."""
        known = {(sink.host.name, getattr(sink, "port", None)) for sink in self._lab.sinks}
        return [
            f"Datagrams wait in a socket the lab didn't open ({name} UDP port {port}, {size:,} bytes with the kernel's "
            "overhead): read them, or use lk.UdpSink, which the ledger can count."
            for name, counters in hosts.items()
            for port, size in counters.waiting_bytes.items()
            if size and (name, port) not in known
        ]

    def close(self) -> None:
        """Let go of the probes. Safe to call again."""
        for watch in (self._drops, self._redirects, self._bulks):
            if watch is not None:
                watch.close()
        for arp in self._arp.values():
            arp.close()
        for firewall in self._firewalls.values():
            firewall.close()
        self._classifiers.close()
