"""The observer of a lab: holds the probes, and reads every counter into a Sample."""

from __future__ import annotations

import contextlib
import errno
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from labkit.errors import LabError
from labkit.kernel.gate import tracing_withheld
from labkit.observe.arp import ArpWitness
from labkit.observe.bulk import Bulks, BulkWatch
from labkit.observe.classifiers import ClassifierBook
from labkit.observe.drops import DropWatch
from labkit.observe.firewall import FirewallWitness
from labkit.observe.protocols import ipv6_is_off, read_protocols, read_socket_use, read_waiting_bytes
from labkit.observe.queues import QueueWatch
from labkit.observe.redirects import RedirectWatch, TransmitWatch
from labkit.observe.sample import HostCounters, InterfaceCounters, Sample, Ways, driver_bulks
from labkit.observe.slots import SlotBook
from labkit.observe.sockets import SocketBook
from labkit.observe.verdicts import VerdictBook
from labkit.observe.ways import broadcasts, has_map
from labkit.program.link import Link
from labkit.program.program import Program
from labkit.uapi import AttachType, MapType

if TYPE_CHECKING:
    from labkit.host import Host
    from labkit.lab import Lab

__all__ = ["Observer"]

W = TypeVar("W")
_REST_S = 0.1  # frames leave a ring or a CPU's queue within milliseconds when nobody sends
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
            "A refused redirect has no reason in the ledger, nor always has XDP_TX that fails; a redirect of a generic XDP "
            "program that fails shows as unaccounted.",
        )
        self._unsent: TransmitWatch | None = None
        if self._redirects is not None:  # else the reason is the same, and said
            self._unsent = self._watch(
                lambda: TransmitWatch(namespaces), "Why XDP_TX could not send a frame back is not always known."
            )
        self._queues: QueueWatch | None = None
        self._queues_refused = False
        self._slots = SlotBook()
        self.sockets = SocketBook()
        self._ways = Ways()
        self._bulks: BulkWatch | None = None
        self._bulks_refused = self._several_senders = False
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
            withheld = error.errno in (errno.EPERM, errno.EACCES) and tracing_withheld()
            instead = f"The instructor withheld tracing programs: {without[0].lower()}{without[1:]}"
            self.notes.append(instead if withheld else f"{error.message} {without}")
            return None

    def prepare(self, program: Program, mode: str) -> None:
        """Note that a program is about to run, and watch where it may send packets that nothing else counts."""
        self.verdicts.prepare(program, mode)
        if has_map(program, MapType.CPUMAP):
            self._ways = replace(self._ways, cpus=True)
            self._watch_queues(program, "")
        if has_map(program, MapType.XSKMAP):
            self._ways = replace(self._ways, sockets=True)

    def attached(self, link: Link) -> None:
        """Note a link, so that its program's count stays in the ledger after it is gone."""
        self.verdicts.attached(link)
        host = self._lab.hosts[link.interface.where.partition(" ")[0]]
        self._slots.attached(link.program, host)
        if has_map(link.program, MapType.CPUMAP):
            self._watch_queues(link.program, host.name)
        if broadcasts(link.program):
            self._ways = replace(self._ways, broadcasts=self._ways.broadcasts | {(host.name, link.mode)})
            with self._lab.traffic.hold_still():
                self._count_bulks("What a peer refuses of a broadcast is taken for a full ring.")

    def _watch_queues(self, program: Program, host: str) -> None:
        if self._queues is None and not self._queues_refused:
            self._queues = self._watch(
                QueueWatch,
                "What a CPU map's queues lose is known where the slot's program counts, and else unaccounted.",
            )
            self._queues_refused = self._queues is None
        if self._queues is not None:
            for each in program.maps.values():
                if each.spec.type == MapType.CPUMAP:
                    self._queues.watch(each, host)

    def without_drop_reasons(self) -> AbstractContextManager[None]:
        """While it lasts, a packet dropped in the stack costs what it costs without the lab (some hundred ns less).

        For measuring rates: a ledger over that time shows such packets as unaccounted, as nobody noted their names.
        """
        return self._drops.paused() if self._drops is not None else contextlib.nullcontext()

    def watch_bulks(self) -> None:
        """Count redirected frames exactly though several CPUs send them; call it while traffic holds still."""
        self._several_senders = True
        self._count_bulks(
            "With several senders a few of many frames may be miscounted, unless the topology has a queue for each CPU."
        )

    def _count_bulks(self, without: str) -> None:
        if self._bulks is None and not self._bulks_refused:
            namespaces = [host.inode for host in self._lab.hosts.values()]
            before = {(i.host.inode, i.ifindex): driver_bulks(i.driver_statistics()) for i in self._lab.interfaces}
            self._bulks = self._watch(lambda: BulkWatch(namespaces, before), without)
            self._bulks_refused = self._bulks is None

    def sample(self, *, at_rest: bool = True) -> Sample:
        """Read everything now. The reading is consistent where traffic holds still (``Lab.sample`` sees to that).

        ``at_rest=False`` does not wait for frames that are between two counters.
        """
        if at_rest:
            self._await_rest()
        programs = list(self._lab.programs)
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
            self._classifiers.read(programs) if self._drops is None else {},
            self._slots.read(programs),
            self._ways_now(programs),
            self._queues.read() if self._queues is not None else None,
            self._drops.read() if self._drops is not None else None,
            self._redirects.read() if self._redirects is not None else None,
            self._unsent.read() if self._unsent is not None else None,
            self._lab.traffic.totals(),
            self._lab.traffic.hands(),
            self._lab.traffic.discards(),
            self.sockets.read(),
            self._bulks is not None,
            self._several_senders and self._bulks is None,
            (*self.notes, *self._gone_notes(), *self._strangers(hosts)),
        )

    def _ways_now(self, programs: Sequence[Program]) -> Ways:
        return replace(
            self._ways,
            sockets=self._ways.sockets and not self.sockets.known,
            silent_egress=self._slots.silent(programs, AttachType.XDP_DEVMAP),
            cpus_counted=self._queues_refused and self._slots.cpus_counted(programs),
        )

    def _await_rest(self) -> None:
        """Wait for frames between two counters: in a CPU's queue, or on their way to be copied, they are in neither.

        The lab's generators hold still meanwhile; other traffic is not waited for longer than ``_REST_S``.
        """
        if self._queues is None and not self._ways.broadcasts:
            return
        until, last = time.monotonic() + _REST_S, None
        while time.monotonic() < until:
            queues = self._queues.read() if self._queues is not None else {}
            received = (
                [i.statistics().get("rx_packets", 0) for i in self._lab.interfaces] if self._ways.broadcasts else []
            )
            now = (queues, received)
            if now == last and not any(queue.waiting for queue in queues.values()):
                return
            last = now
            time.sleep(0.0005)

    def _read_host(
        self, host: Host, bulks: Mapping[tuple[int, int], Bulks]
    ) -> tuple[HostCounters, dict[str, InterfaceCounters]]:
        """Runs on the host's thread: one hop for all its counters."""
        interfaces = {}
        for each in host.interfaces.values():
            try:
                driver = host.ethtool.statistics(each.name)
                state = host.rtnl.link(each.ifindex)
                interfaces[each.where] = InterfaceCounters(
                    host.name,
                    each.peer.where,
                    host.inode,
                    each.ifindex,
                    host.rtnl.statistics(each.ifindex),
                    driver,
                    _MODES.get(state.xdp_mode, "native"),
                    state.up,
                    state.mtu,
                    host.ethtool.leaves_segments_together(each.name),
                    driver_bulks(driver).at_least(bulks.get((host.inode, each.ifindex), Bulks())),
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
        for watch in (self._drops, self._redirects, self._unsent, self._queues, self._bulks):
            if watch is not None:
                watch.close()
        for arp in self._arp.values():
            arp.close()
        for firewall in self._firewalls.values():
            firewall.close()
        self._classifiers.close()
