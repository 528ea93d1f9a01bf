"""The queues of CPU maps: what was put in, what found no place, and what the CPU's thread made of the rest."""

from __future__ import annotations

from dataclasses import dataclass

from labkit.kernel.cpus import possible_cpus
from labkit.observe.sums import Sums
from labkit.observe.tracepoint import TracepointCounter
from labkit.program.map import Map

__all__ = ["CpuQueue", "QueueWatch"]

_ARRIVED = ("queued", "full")
_TAKEN = ("frames", "no_memory", "redirected", "passed", "dropped")
_OFFSETS: dict[str, tuple[str, ...]] = {name: ("xdp_cpumap_stats", name) for name in ("redirect", "pass", "drop")}


@dataclass(frozen=True)
class CpuQueue(Sums):
    """Frames at one CPU's queue: ``queued`` went in, ``full`` found no place, ``taken`` came out.

    Of those ``no_memory`` got no skb, and the slot's program ``redirected``, ``passed`` or ``dropped`` them: 0 where
    there is none. ``dropped`` includes redirects that failed.
    """

    queued: int = 0
    full: int = 0
    taken: int = 0
    no_memory: int = 0
    redirected: int = 0
    passed: int = 0
    dropped: int = 0

    @property
    def waiting(self) -> int:
        """Frames in the queue."""
        return self.queued - self.taken


class QueueWatch:
    """Counts at the queues of the CPU maps it is told of; raises LabError where the kernel refuses the probes."""

    def __init__(self) -> None:
        self._arrived = TracepointCounter("xdp_cpumap_enqueue", "cpu_queues.c", "count_arrived", {}, ())
        try:
            self._taken = TracepointCounter("xdp_cpumap_kthread", "cpu_queues.c", "count_taken", _OFFSETS, ())
        except BaseException:
            self._arrived.close()
            raise
        self._hosts: dict[int, str] = {}

    def watch(self, queues: Map, host: str) -> None:
        """Count at the queues of the CPU map ``queues``, whose program runs at ``host`` ("": it isn't known yet)."""
        known = queues.id in self._hosts
        self._hosts[queues.id] = host or self._hosts.get(queues.id, "")
        if not known:
            for cpu in range(min(queues.spec.max_entries, possible_cpus())):
                key = {"map": queues.id, "cpu": cpu}
                self._arrived.map("arrived")[key] = dict.fromkeys(_ARRIVED, 0)
                self._taken.map("taken")[key] = dict.fromkeys(_TAKEN, 0)

    def read(self) -> dict[str, CpuQueue]:
        """Frames since the watch began, by place (``server CPU 1``)."""
        found: dict[str, CpuQueue] = {}
        taken = {tuple(key.values()): value for key, value in self._taken.map("taken").items()}
        for key, value in self._arrived.map("arrived").items():
            here = taken.get(tuple(key.values()), {})
            one = CpuQueue(*(value[name] for name in _ARRIVED), *(here.get(name, 0) for name in _TAKEN))
            where = f"{self._hosts[key['map']]} CPU {key['cpu']}".lstrip()
            found[where] = found.get(where, CpuQueue()) + one
        return found

    def close(self) -> None:
        """Detach. Safe to call again."""
        self._arrived.close()
        self._taken.close()
