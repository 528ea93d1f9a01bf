"""A sample: one reading of every counter of a lab."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from labkit.observe.bulk import Bulks
from labkit.observe.drops import DropKey
from labkit.observe.redirects import FailureKey
from labkit.observe.verdicts import Tally

__all__ = ["HostCounters", "InterfaceCounters", "Sample", "driver_bulks"]


@dataclass(frozen=True)
class InterfaceCounters:
    """``peer``: the link's other end (``server eth0``); ``link``: rtnetlink's statistics; ``driver``: the driver's own;
    ``mode``: of the XDP program there, "" for none.

    ``bulks`` is what the driver took and refused of redirected frames, exact also where its own counters are not.
    """

    host: str
    peer: str
    netns: int
    ifindex: int
    link: Mapping[str, int]
    driver: Mapping[str, int]
    mode: str
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
class Sample:
    """All counters at ``time_s`` (monotonic). Interfaces by ``host name``, tallies by a number of their own.

    ``verdicts`` are of XDP programs, ``classifiers`` of programs in TC (read only where no probe watches the stack).
    ``drops`` and ``failures`` are None where no probe may watch; ``miscounted``: whether several threads send while
    only the drivers count, which lose some then (labkit.observe.bulk).
    """

    time_s: float
    interfaces: Mapping[str, InterfaceCounters]
    hosts: Mapping[str, HostCounters]
    verdicts: Mapping[int, Tally]
    classifiers: Mapping[int, Tally]
    drops: Mapping[DropKey, int] | None
    failures: Mapping[FailureKey, int] | None
    generated: Mapping[str, int]
    discarded: Mapping[str, int]
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
