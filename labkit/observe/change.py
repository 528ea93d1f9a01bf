"""What the counters of a lab gained between two samples: by interface, by host, and what XDP sent from one to another."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import cached_property

from labkit.observe.counted import gained
from labkit.observe.drops import DropKey
from labkit.observe.flow import Flow, lost_in_slots
from labkit.observe.host_change import HostChange
from labkit.observe.interface_change import InterfaceChange
from labkit.observe.queues import CpuQueue
from labkit.observe.redirects import FailureKey
from labkit.observe.sample import Sample
from labkit.observe.sockets import SocketCounters, interface_of
from labkit.observe.verdicts import Tally

__all__ = ["Change"]


class Change:
    """The difference of two samples of the same lab."""

    def __init__(self, before: Sample, after: Sample) -> None:
        self.before, self.after = before, after
        generated = gained(after.generated, before.generated)
        self.handed: dict[str, int] = gained(after.handed, before.handed)
        self.interfaces = {
            where: InterfaceChange.between(
                where, generated.get(where, 0), before.interfaces[where], new, after.interfaces.get(new.peer)
            )
            for where, new in after.interfaces.items()
        }
        self.tallies = [
            *_gains(before.verdicts, after.verdicts),
            *_gains(before.classifiers, after.classifiers),
        ]
        self.slots = _gains(before.slots, after.slots)
        self.failures: dict[FailureKey, int] = gained(after.failures or {}, before.failures or {})
        self.unsent: dict[FailureKey, int] = gained(after.unsent or {}, before.unsent or {})
        old = before.queues or {}
        self.queues = {where: queue - old.get(where, CpuQueue()) for where, queue in (after.queues or {}).items()}
        if after.queues is None and after.ways.cpus_counted:
            self.queues = {", ".join(t.places): _told_queue(gain) for t, gain in self.slots if t.mode == "cpumap"}
        self.sockets = {w: new - before.sockets.get(w, SocketCounters()) for w, new in after.sockets.items()}
        self.places = {(i.netns, i.ifindex): where for where, i in self.interfaces.items()}
        self.hosts = {name: HostChange(name, self) for name in after.hosts}
        self._tell_egress_from_full_rings()
        self.flow = self._flow()
        self.sent_on = self._sent_on()
        self.drops: Counter[DropKey] = Counter()
        for host in self.hosts.values():
            self.drops.update(host.drops)

    @cached_property
    def generic(self) -> int:
        """Packets that programs sent on in generic mode: XDP_TX, and redirects that did not fail."""
        return sum(max(0, self._generic_part(tally, gain)) for tally, gain in self.tallies)

    def _generic_part(self, tally: Tally, gain: Mapping[str, int]) -> int:
        if not tally.generic_places:
            return 0
        wanted = gain.get("XDP_TX", 0) + gain.get("XDP_REDIRECT", 0)
        for where in tally.native:  # in both modes: the driver tells what was native
            each = self.interfaces[where]
            wanted -= each.xdp_tx + each.xdp_tx_errors + each.xdp_redirect + each.rx_drops
        return wanted - min(wanted, sum(self.failed_generic(self.interfaces[w]) for w in tally.generic_places))

    @property
    def redirected(self) -> int:
        """Frames that native programs redirected."""
        return sum(each.xdp_redirect for each in self.interfaces.values())

    @property
    def _received(self) -> int:
        """Packets that AF_XDP sockets got, in either mode."""
        return sum(each.arrived for each in self.sockets.values())

    @cached_property
    def refused_by_sockets(self) -> Counter[str]:
        """Packets that were redirected to AF_XDP sockets in vain, by interface."""
        found: Counter[str] = Counter()
        for where, each in self.sockets.items():
            found[interface_of(where)] += each.refused
        return found

    @property
    def failed_on_cpus(self) -> int:
        """Redirects that failed on another CPU: the driver that received has them not, and generic XDP neither."""
        if not self.queues:
            return 0
        failed = sum(host.failed.total() for host in self.hosts.values())
        wanted = sum(gain.get("XDP_REDIRECT", 0) for tally, gain in self.slots if tally.mode == "cpumap")
        sent = sum(queue.redirected for queue in self.queues.values())
        return max(0, min(failed, wanted - sent))

    @property
    def queues_full(self) -> int:
        """Frames that found a CPU's queue full, where no probe tells: what went there, and the program there never saw."""
        if self.after.queues is not None or not self.after.ways.cpus_counted:
            return 0
        return max(0, self.flow.left) if not any(queue.redirected for queue in self.queues.values()) else 0

    @property
    def knows_failures(self) -> bool:
        """Whether each redirect that failed was seen, and each frame counted where it went."""
        return self.after.failures is not None and (self.after.queues is not None or not self.after.ways.cpus)

    def refused_unseen(self, host: HostChange) -> int:
        """Generated frames that a redirect refused, where no probe tells why: no driver has taken or refused them.

        Where the drivers miscount (``Sample.miscounted``) nothing is told.
        """
        if self.after.failures is not None or self.after.miscounted:
            return 0
        missing = sum(max(0, i.made - i.taken - self.flow.refused[i.where]) for i in host.interfaces if i.made)
        return min(missing, max(0, self.flow.left))

    def sends_generically(self, each: InterfaceChange) -> bool:
        """Whether a program sent packets on from an interface in generic mode, maybe out of the same one."""
        return any(
            each.where in tally.generic_places and gain.get("XDP_TX", 0) + gain.get("XDP_REDIRECT", 0) > 0
            for tally, gain in self.tallies
        )

    def failed_generic(self, each: InterfaceChange) -> int:
        """Redirects that failed in generic mode: the driver counts the others."""
        return max(0, self.hosts[each.host].failed_at(each) - each.rx_drops)

    def _tell_egress_from_full_rings(self) -> None:
        """The watch on bulks counts both as dropped, the driver full rings only. A generator's frames meet no program."""
        if self.after.ways.silent_egress or lost_in_slots(self.slots, "devmap"):
            for each in self.interfaces.values():
                if not each.made:
                    each.egress_dropped = max(0, each.bulks.dropped - each.driver_xmit_errors)

    def _flow(self) -> Flow:
        into = sum(each.made + each.xdp_redirect for each in self.interfaces.values())
        into -= sum(host.failures.total() for host in self.hosts.values())
        native = not self.generic or self.redirected > 0
        if native:
            into += sum(queue.redirected for queue in self.queues.values())
        return Flow.between(
            self.interfaces.values(),
            into,
            lost_in_slots(self.slots, "devmap"),
            self.queues.values(),
            self._received,
            self.after.ways,
            generic=bool(self.generic),
            bulks_watched=self.after.bulks_watched,
        )

    def _sent_on(self) -> dict[str, int]:
        """Packets that generic XDP sent on as packets of the stack, by the host that sent them.

        Less what went into CPUs' queues, plus what came out of them by a redirect, less what a devmap's program dropped,
        and what AF_XDP sockets got.
        """
        total = self.generic
        if not total:
            return {}
        total -= sum(queue.queued + queue.full for queue in self.queues.values()) - self.flow.queued
        total -= lost_in_slots(self.slots, "devmap") - self.flow.egress
        total -= self._received - self.flow.received
        if not self.redirected:
            total += sum(queue.redirected for queue in self.queues.values())
        near = [
            self.interfaces[where].host
            for tally, gain in self.tallies
            if self._generic_part(tally, gain) > 0
            for where in tally.generic_places
        ]
        if self.after.queues is None and self.after.ways.cpus and not any(q.queued for q in self.queues.values()):
            # What went to CPUs nobody has seen. Sent on is what these hosts sent and their own stack did not make.
            return {name: self._of_others(name, total) for name in near}
        found: dict[str, int] = {}
        for name in dict.fromkeys(near):
            found[name] = min(total, max(0, self.hosts[name].stack))
            total -= found[name]
        for name in [
            each for each in self.hosts if each not in found
        ]:  # a devmap may hold an interface of another host
            found[name] = self._of_others(name, total)
            total -= found[name]
        found[near[0]] += total
        return found

    def _of_others(self, name: str, most: int) -> int:
        """Packets that a host sent, ``most`` at the most, and that it had not made itself."""
        host = self.hosts[name]
        own = host.protocol("IpOutRequests") + host.handed
        return min(most, max(0, host.stack - own))

    def place(self, key: DropKey) -> str:
        """Where a packet was dropped: its interface, else its host."""
        host = next((host.name for host in self.hosts.values() if host.netns == key.netns), "?")
        return self.places.get((key.netns, key.ifindex), host)


def _told_queue(gain: Mapping[str, int]) -> CpuQueue:
    """What went through a CPU's queue as far as the program there tells."""
    seen, redirected, passed = sum(gain.values()), gain.get("XDP_REDIRECT", 0), gain.get("XDP_PASS", 0)
    return CpuQueue(seen, 0, seen, 0, redirected, passed, seen - redirected - passed)


def _gains(before: Mapping[int, Tally], after: Mapping[int, Tally]) -> list[tuple[Tally, dict[str, int]]]:
    """Each counting map, and by how much its counts grew."""
    return [
        (tally, gained(tally.counts, before[ident].counts if ident in before else {})) for ident, tally in after.items()
    ]
