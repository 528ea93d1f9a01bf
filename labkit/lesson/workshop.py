"""A bench for CPU maps: a client, and a server where each packet costs a fixed piece of work, done wherever one says."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator

from labkit.compile import compile_source
from labkit.compile.source import lesson_directory
from labkit.kernel import bpf
from labkit.lab import Lab
from labkit.observe.ledger import Ledger
from labkit.topology import Topology
from labkit.traffic.frames import udp
from labkit.traffic.generator import generate
from labkit.uapi import AttachType

__all__ = ["LONGEST_QUEUE", "ONE_CPU", "Workshop", "numbered_cpus", "staying_on", "usable_cpus"]

LONGEST_QUEUE = 16_384  # packets: the most that a CPU map takes, kernel/bpf/cpumap.c
ONE_CPU = "This process may use one CPU only: what another one would bring can't be shown here."
_MOST_ROUNDS = 512  # bpf/hand_out.c
_MOST_CPUS = 8
_SLOTS = 64  # of the CPU maps in bpf/; a kernel takes no more than it can have CPUs
_REST_S, _QUIET_S = 0.02, 1.0  # a thread that waits for its CPU a second has nothing to do


def usable_cpus() -> tuple[int, ...]:
    """CPUs that this process may run on, lowest first; eight at the most, of those that the lessons' maps have slots for."""
    mine = sorted(os.sched_getaffinity(0))
    return tuple(cpu for cpu in mine if cpu < _SLOTS)[:_MOST_CPUS] or (mine[0],)


def numbered_cpus() -> tuple[int, ...]:
    """CPUs 0, 1, 2 … of those, up to the first gap: what a program that counts from 0 can use. CPU 0 in any case."""
    mine = usable_cpus()
    return tuple(cpu for cpu in range(_MOST_CPUS) if mine[: cpu + 1] == tuple(range(cpu + 1))) or (0,)


@contextlib.contextmanager
def staying_on(cpu: int) -> Iterator[None]:
    """While it lasts, the calling thread runs on ``cpu`` alone, and so does a generator that it starts."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {cpu})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


class Workshop:
    """A client and a server whose program does a fixed piece of work for each packet: ``bpf/hand_out.c``.

    ``with Workshop() as shop: shop.run(packets, (0, 1))``. The traffic is made on ``shop.here``, the first CPU that
    this process may use. The lab is called ``name``.
    """

    def __init__(self, name: str, *, work_ns: float, queue: int = LONGEST_QUEUE) -> None:
        self.here, *self.others = usable_cpus()
        self.lab = Lab(Topology.pair(), name=name)
        try:
            spec = compile_source(path=lesson_directory() / "hand_out.c")
            self.program = self.lab.load(spec, "hand_out")
            self.on_cpu = self.lab.load(
                spec, "work", expected_attach_type=AttachType.XDP_CPUMAP, maps=self.program.maps
            )
            self.rounds = self._calibrate(work_ns)
            self.set_queue(queue)
            self.program.attach(self.lab["server"]["eth0"])
        except BaseException:
            self.lab.close()
            raise

    def _calibrate(self, work_ns: float) -> int:
        """How many rounds take ``work_ns`` here; the quickest of three tries counts, as others use the CPU too."""
        if not work_ns:
            return 0
        self.program.maps["plan"][0] = {"rounds": 100, "cpus": 0}
        frame = bytes(udp(self.lab["client"], self.lab["server"]))
        tries = [bpf.prog_test_run(self.program.fd, frame, repeat=200).duration_ns for _ in range(3)]
        return max(1, min(_MOST_ROUNDS, round(work_ns * 100 / max(1, min(tries)))))

    def set_queue(self, length: int) -> None:
        """Give each CPU a queue of ``length`` packets."""
        for cpu in (self.here, *self.others):
            self.program.maps["cpus"][cpu] = length, self.on_cpu

    def run(self, packets: int, cpus: tuple[int, ...]) -> Ledger:
        """Send ``packets``, the work to be done by ``cpus`` in turn (none: in the driver); what became of them."""
        maps = self.program.maps
        for number, cpu in enumerate(cpus):
            maps["turn"][number] = cpu
        maps["plan"][0] = {"rounds": self.rounds, "cpus": len(cpus)}
        self.lab.reset()
        for times in ("came", "done"):
            maps[times][0] = {"first_ns": 0, "last_ns": 0, "packets": 0}
        with staying_on(self.here):
            generate(self.lab["client"]["eth0"], udp(self.lab["client"], self.lab["server"]), packets)
        self._await_the_last(packets)
        return self.lab.ledger(settle_s=0.0 if sum(self.done.values()) < packets else 2.0)

    def _await_the_last(self, packets: int) -> None:
        """Return when all are done, or nothing more will be: what a queue had no place for never is."""
        done, changed = -1, time.monotonic()
        while done < packets and time.monotonic() - changed < _QUIET_S:
            before, done = done, sum(self.done.values())
            if done != before:
                changed = time.monotonic()
            elif time.monotonic() - changed > _REST_S and self._at_rest():
                return
            time.sleep(0.002)

    def _at_rest(self) -> bool:
        """Whether the ledger knows of every packet where it ended; where tracing is withheld it may never do."""
        ledger = self.lab.ledger(settle_s=0.0)
        return not ledger.unaccounted and not ledger.in_flight

    @property
    def seconds(self) -> float:
        """From the first packet's arrival to the end of the last one's work, in the last run."""
        came = [at["first_ns"] for at in self.program.maps["came"].per_cpu(0) if at["packets"]]
        done = [at["last_ns"] for at in self.program.maps["done"].per_cpu(0) if at["packets"]]
        return (max(done) - min(came)) / 1e9 if came and done else 0.0

    @property
    def done(self) -> dict[int, int]:
        """Packets that each CPU worked on in the last run."""
        return {cpu: at["packets"] for cpu, at in enumerate(self.program.maps["done"].per_cpu(0)) if at["packets"]}

    def __enter__(self) -> Workshop:
        return self

    def __exit__(self, *_: object) -> None:
        self.lab.close()
