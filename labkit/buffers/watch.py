"""Watching a lab's page pools: every page counted from the moment the watch begins."""

from __future__ import annotations

import threading
import time
from typing import Any

from labkit.buffers.buffers import Buffers, Ended
from labkit.buffers.names import PoolNames
from labkit.buffers.places import Places, places_of
from labkit.buffers.probes import PoolProbes
from labkit.errors import FeatureError, LabError, StateError
from labkit.kernel.netdev_pools import ListedPool, PagePoolSocket
from labkit.lab import Lab
from labkit.traffic.lifetime import close_with

__all__ = ["BufferWatch", "watch"]

_TRIED = "to watch page pools"
_RUN = 2  # enum pool_owner, bpf/lab/page_pools.h
_TIMES = 5  # to read again while packets of other senders move
_CUT = "A ring has more than 1,024 places: what waits at home in it is counted as out."


def watch(lab: Lab) -> BufferWatch:
    """Count the pages of all page pools of ``lab`` from now on; use it in a ``with``, it ends with the lab at the latest.

    Of other labs on the machine it sees nothing. A pool that was asked to end before the watch began can't be told to be
    the lab's, and isn't shown. Raises LabError, and FeatureError where no tracing program may run.
    """
    if not isinstance(lab, Lab):
        raise LabError(f"{lab!r} is no lab.", tried=_TRIED, remedy="give one, as in lk.buffers.watch(lab)")
    if lab.closed:
        raise lab.closed_error(_TRIED, "is closed")
    return BufferWatch(lab)


class BufferWatch:
    """``read()`` gives the pools' counts, ``where()`` the places where their pages are; ``close()`` ends it."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self._names = PoolNames(lab)
        self._closed = False
        self._lock = threading.RLock()
        with lab.traffic.hold_still():
            self._frames = sum(lab.traffic.totals().values())
            self._probes = PoolProbes(host.inode for host in lab.hosts.values())
            try:
                self._survey()
            except BaseException:
                self._probes.close()
                raise
        close_with(lab, self)

    def read(self) -> Buffers:
        """The counts of one moment; the lab's generators hold still for it. Raises StateError after ``close()``."""
        return self._read()[0]

    def where(self, buffers: Buffers | None = None) -> Places:
        """Where every page in flight is now, as far as counts tell. Raises StateError after ``close()``.

        The places share out the pages of ``buffers``, a reading of just now, so that both have the same sums (None: of a
        reading of their own).
        """
        now, waiting = self._read()
        return places_of(buffers or now, waiting, self.lab.sample())

    def listed(self) -> dict[str, tuple[ListedPool, ...]]:
        """What netlink's page-pool-get lists, by host: pools whose driver registers them. A veth's doesn't, nor does the
        generator, so a lab's hosts usually list none. Raises FeatureError where the kernel can't tell.
        """
        try:
            return {host.name: tuple(host.run(_listed)) for host in self.lab.hosts.values()}
        except OSError as error:
            raise FeatureError(
                "This kernel lists no page pools.",
                tried="to ask netlink's netdev family, page-pool-get",
                errno=error.errno,
                remedy="Linux 6.8 or later has it; read() needs none of it",
            ) from error

    def _read(self) -> tuple[Buffers, int]:
        """The buffers, and how many frames wait in the receive rings; read again where something moved meanwhile."""
        with self._lock, self.lab.traffic.hold_still():
            for _ in range(_TIMES):
                if self._closed:
                    raise StateError(
                        "This watch is closed.", tried="to read it", remedy="make a new one: lk.buffers.watch(lab)"
                    )
                found = self._once()
                if found[0].agrees:
                    break
        return found

    def _once(self) -> tuple[Buffers, int]:
        waiting, cut = self._survey()
        alive, gone, sums = self._probes.rows()
        own = {ident: peek for ident in alive if (peek := self._probes.pool(ident))}
        cut = cut or any(peek["cut"] for peek in own.values())
        now = time.monotonic_ns()
        runs = sum(row["held"] for row in alive.values() if row["owner"] == _RUN)
        runs += sum(each["held"] for key, each in sums if key["owner"] == _RUN)
        buffers = Buffers(
            pools=tuple(self._names.named({ident: alive[ident] for ident in own}, own, now)),
            gone=tuple(self._names.named(gone, {}, now)),
            ended=_ended(sums),
            frames=sum(self.lab.traffic.totals().values()) - self._frames,
            run_taken=runs,
            unattributed=self._probes.unattributed,
            missed_runs=self._probes.missed_runs,
            notes=(_CUT,) if cut else (),
        )
        return buffers, waiting

    def _survey(self) -> tuple[int, bool]:
        """How many frames wait in the rings of the lab's receive queues, and whether a ring was too long to count.

        The pools of these queues have rows from now on, also without an event.
        """
        waiting, cut = 0, False
        for interface in self.lab.interfaces:
            for queue in range(interface.queues):
                peek = self._probes.queue(interface, queue)
                if not peek:
                    continue
                waiting, cut = waiting + peek["waiting"], cut or bool(peek["cut"])
                if peek["id"]:
                    self._names.is_queue(peek["id"], interface, queue)
        return waiting, cut

    def close(self) -> None:
        """Detach the counting programs. Safe to call again."""
        with self._lock:
            self._closed = True
            self._probes.close()

    def __enter__(self) -> BufferWatch:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _listed() -> list[ListedPool]:
    with PagePoolSocket() as netlink:
        return netlink.pools()


def _ended(sums: list[tuple[Any, dict[str, int]]]) -> Ended:
    def total(*names: str) -> int:
        return sum(each[name] for _, each in sums for name in names)

    held, released = total("own_held"), total("own_released")
    return Ended(
        total("pools"),
        held,
        released,
        total("held"),
        total("tries"),
        total("stalled"),
        total("disconnected"),
        held - total("held", "held_before") + released - total("released", "released_before"),
    )
