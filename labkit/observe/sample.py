"""A sample: one reading of every counter of a lab."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from labkit.observe.bulk import Bulks
from labkit.observe.drops import DropKey
from labkit.observe.queues import CpuQueue
from labkit.observe.redirects import FailureKey
from labkit.observe.sockets import SocketCounters
from labkit.observe.verdicts import Tally

__all__ = ["HostCounters", "InterfaceCounters", "Sample", "Ways", "driver_bulks"]


@dataclass(frozen=True)
class InterfaceCounters:
    """``peer``: the link's other end (``server eth0``); ``link``: rtnetlink's statistics; ``driver``: the driver's own;
    ``mode``: of the XDP program there, "" for none; ``up``: whether it is; ``mtu`` in bytes without the Ethernet header;
    ``tso``: whether TCP's segments leave it together, as one packet.

    ``bulks`` is what the driver took and refused of redirected frames, exact also where its own counters are not.
    """

    host: str
    peer: str
    netns: int
    ifindex: int
    link: Mapping[str, int]
    driver: Mapping[str, int]
    mode: str
    up: bool
    mtu: int
    tso: bool
    bulks: Bulks

    def queues(self, counter: str) -> int:
        """A per-queue counter of the driver summed over queues: ``rx xdp_drops`` sums ``rx_queue_*_xdp_drops``."""
        return _queues(self.driver, counter)


@dataclass(frozen=True)
class HostCounters:
    """``protocols``: SNMP counters; ``arp``: ARP packets that arrived; ``queued``: datagrams waiting in the lab's own
    sockets, by socket; ``waiting_bytes``: memory of what waits in UDP sockets, by port, where there are others than
    the lab's; ``reassembling``: IPv4 datagrams of which fragments wait for the rest; ``tcp_sockets``: TCP sockets that
    could take a segment; ``ipv6_off``: whether every interface has IPv6 switched off; ``firewall``: packets that rules
    with a counter dropped. The last two are read only where no probe watches the stack.
    """

    netns: int
    protocols: Mapping[str, int]
    arp: int
    queued: Mapping[str, int]
    waiting_bytes: Mapping[int, int]
    reassembling: int
    tcp_sockets: int
    ipv6_off: bool
    firewall: int


@dataclass(frozen=True)
class Ways:
    """What the lab's programs can do with a packet that no counter of one packet in, one out, would show.

    ``broadcasts``: hosts and modes of programs that copy to every slot of a devmap; ``silent_egress``: whether a program
    in a devmap keeps no count; ``sockets`` and ``cpus``: whether programs redirect to AF_XDP sockets that the
    lab doesn't know, or to CPUs; ``cpus_counted``: whether a program counts at each of these (looked for only
    where no probe watches their queues).
    """

    broadcasts: frozenset[tuple[str, str]] = frozenset()
    silent_egress: bool = False
    sockets: bool = False
    cpus: bool = False
    cpus_counted: bool = False


@dataclass(frozen=True)
class Sample:
    """All counters at ``time_s`` (monotonic). Interfaces by ``host name``, tallies by a number of their own.

    ``verdicts`` are of XDP programs, ``classifiers`` of programs in TC (read only where no probe watches the stack),
    ``slots`` of programs in the slots of devmaps and CPU maps; ``queues`` of CPU maps by place (``server CPU 1``),
    ``sockets`` of AF_XDP likewise (``server eth0 queue 0``).
    ``drops``, ``failures``, ``unsent`` (by XDP_TX) and ``queues`` are None where no probe may watch; ``bulks_watched``:
    whether one counts the frames that drivers take (InterfaceCounters.bulks), ``miscounted``: whether several threads send while
    only the drivers count, which lose some then (labkit.observe.bulk).
    """

    time_s: float
    interfaces: Mapping[str, InterfaceCounters]
    hosts: Mapping[str, HostCounters]
    verdicts: Mapping[int, Tally]
    classifiers: Mapping[int, Tally]
    slots: Mapping[int, Tally]
    ways: Ways
    queues: Mapping[str, CpuQueue] | None
    drops: Mapping[DropKey, int] | None
    failures: Mapping[FailureKey, int] | None
    unsent: Mapping[FailureKey, int] | None
    generated: Mapping[str, int]
    handed: Mapping[str, int]
    discarded: Mapping[str, int]
    sockets: Mapping[str, SocketCounters]
    bulks_watched: bool
    miscounted: bool
    notes: tuple[str, ...] = field(default_factory=tuple)


def driver_bulks(driver: Mapping[str, int]) -> Bulks:
    """What the driver itself counted of redirected frames: right where one CPU sends."""
    return Bulks(_queues(driver, "tx xdp_xmit"), _queues(driver, "tx xdp_xmit_errors"))


def _queues(driver: Mapping[str, int], counter: str) -> int:
    side, _, name = counter.partition(" ")
    # Names are <side>_queue_<number>_<name>.
    return sum(
        value for key, value in driver.items() if key.startswith(f"{side}_queue_") and key.split("_", 3)[3] == name
    )
