"""A way on which metadata can save the stack some work, and a clock at both ends of it.

The generator's frames meet an XDP program at the server, ``bpf/cost_metadata.c``, that plays a network card: it says before
the frame that the UDP checksum is right. A CPU's thread makes the skb; a program in TC behind it reads the metadata and
tells the stack, which then need not add up the payload. The way ends at a socket whose filter wants nothing: the
kernel makes sure of the checksum before it asks such a filter, so every packet that comes there was added up, or believed.
"""

from __future__ import annotations

import contextlib
import socket
import time
from dataclasses import dataclass
from enum import Enum

from labkit.compile import compile_source
from labkit.compile.source import lesson_directory
from labkit.errors import TrafficError
from labkit.hints.formats import Formats
from labkit.hints.generic import CSUM_VERIFIED
from labkit.kernel.socket_filter import keep_of_each
from labkit.lab import Lab
from labkit.lesson.turns import must_balance
from labkit.lesson.workshop import LONGEST_QUEUE, usable_cpus
from labkit.observe.ledger import Ledger
from labkit.program.classifier import at_tc
from labkit.topology import Topology
from labkit.traffic.frames import udp
from labkit.traffic.sink import drops_at
from labkit.traffic.volleys import Volleys
from labkit.uapi import AttachType, ProgType

__all__ = ["NEVER", "SIZES", "Burst", "Composer", "TimedWay"]

SIZES = (64, 128, 256, 512, 1024, 1532)  # bytes of the whole frame, as in the thread of 2022
NEVER = 1 << 16  # bytes: a threshold that no frame reaches
_PORT = 9999
_QUIET_S = 20.0  # a thread that got no CPU for so long will get none
_LOOK_S = 0.0002
_MOST_BYTES = 3_400  # of a frame: more than that the generator has no room for
_NOTHING = {"last_ns": 0, "packets": 0, "gaps": 0, "gaps_ns": 0}


class Composer(Enum):
    """Who writes the metadata, and what it takes him. All but the first and the last are the server's XDP program."""

    NOBODY = "no metadata"
    GIVEN = "writes what it was given"
    HASH = "finds the hash in the headers"
    TIME = "finds the hash, and the time"
    CHECKSUM = "finds the hash, and adds up the packet"
    CARD = "came with the frame"

    @property
    def find_out(self) -> int:
        """The bits of ``struct plan`` in bpf/cost_metadata.c."""
        return {Composer.HASH: 1, Composer.TIME: 3, Composer.CHECKSUM: 5}.get(self, 0)

    @property
    def here(self) -> bool:
        """Whether the server's program does it."""
        return self not in (Composer.NOBODY, Composer.CARD)


@dataclass(frozen=True)
class Burst:
    """One run: so many packets of ``size`` bytes, how they come by metadata, where the skb is made, GRO there or not.

    The server's program composes metadata for frames of ``threshold`` bytes and more.
    """

    packets: int
    size: int
    composer: Composer = Composer.NOBODY
    other_cpu: bool = False
    gro: bool = False
    threshold: int = 0

    @property
    def with_metadata(self) -> int:
        """How many of the packets come to TC with metadata."""
        composed = self.composer.here and self.size >= self.threshold
        return self.packets if composed or self.composer is Composer.CARD else 0

    def __str__(self) -> str:
        return f"{self.size} bytes, {self.composer.value}, {'another' if self.other_cpu else 'the same'} CPU"


class TimedWay:
    """The lab ``name`` with the whole way in place, until ``close()``. The traffic is made on the CPU ``here``.

    ``other`` is another CPU, or the same where this process may use one only. Frames have ``largest_bytes`` at the most.
    """

    def __init__(self, name: str, *, largest_bytes: int = max(SIZES)) -> None:
        self.here, *others = usable_cpus()
        self.other = (others or [self.here])[0]
        self._ready: dict[tuple[int, bool], Volleys] = {}
        self._gro: bool | None = None
        with contextlib.ExitStack() as opened:
            self._open = opened
            mtu = max(1500, min(largest_bytes, _MOST_BYTES) - 14)
            self.lab = opened.enter_context(Lab(Topology.pair(mtu=mtu), name=name))
            self._set_up(opened)
            self.run(Burst(101, SIZES[0]))  # what the first run costs beside its packets is in no figure
            self._open = opened.pop_all()

    def _set_up(self, opened: contextlib.ExitStack) -> None:
        spec = compile_source(path=lesson_directory() / "cost_metadata.c")
        self._server = self.lab["server"]["eth0"]
        self.program = self.lab.load(spec, "cost_to_cpu")
        maps = self.program.maps
        tell = self.lab.load(
            spec, "cost_tell", type=ProgType.SCHED_CLS, expected_attach_type=AttachType.TCX_INGRESS, maps=maps
        )
        self._with, self._told = tell.maps["with_metadata"], tell.maps["told"]
        formats = opened.enter_context(Formats.load(spec))
        formats.tell(self.program)
        self._card = formats["meta_generic"].encode(hash=1, hash_type=1, queue=0, csum_status=CSUM_VERIFIED)
        for cpu in {self.here, self.other}:
            maps["cpus"][cpu] = LONGEST_QUEUE
        self.program.attach(self._server)
        opened.enter_context(at_tc(tell, self._server))
        self._end = opened.enter_context(self.lab["server"].socket(socket.AF_INET, socket.SOCK_DGRAM))
        keep_of_each(self._end, 0)
        self._end.bind(("0.0.0.0", _PORT))

    def run(self, burst: Burst) -> float:
        """Nanoseconds a packet: the pace at which the stack takes packets, or, where one CPU does everything, that and the
        pace at which they came to the driver, one after the other.

        Pauses of more than 50 µs, in which another program had the CPU, are left out. Without the lab's probe of drop
        reasons, which would cost more than what is measured. Raises TrafficError unless each packet came to the end, with
        metadata or without as it should.
        """
        with self.lab.observer.without_drop_reasons():
            return self._run(burst)

    def in_turn(self, pairs: int, one: Burst, other: Burst) -> list[tuple[float, float]]:
        """``pairs`` of runs of both, one right after the other, every other pair in reverse order: ns a packet of each."""
        found = []
        with self.lab.observer.without_drop_reasons():
            for number in range(pairs):
                if number % 2:
                    second = self._run(other)
                    found.append((self._run(one), second))
                else:
                    found.append((self._run(one), self._run(other)))
        return found

    def ledger(self, burst: Burst) -> Ledger:
        """What became of every packet of one more run, not timed. Raises TrafficError where one is unaccounted for."""
        self.lab.reset()
        self._run(burst)
        found = self.lab.ledger()
        must_balance(str(burst), found, burst.packets)
        return found

    @property
    def seen(self) -> tuple[int, int]:
        """Packets that have come to TC so far: (without metadata, with it)."""
        return self._with[0], self._with[1]

    @property
    def done(self) -> int:
        """Packets that came to the end of their way so far: the socket's own count of what it did not take."""
        return drops_at(self._end)

    def open_for(self, threshold: int) -> None:
        """From now on, metadata for frames of ``threshold`` bytes and more; may be called under traffic."""
        self.program.maps["meta_threshold"][0] = threshold

    def _run(self, burst: Burst) -> float:
        self._arrange(burst)
        self._volleys(burst).send(burst.packets)
        done, changed = self.done, time.monotonic()
        while done < self._done_before + burst.packets and time.monotonic() - changed < _QUIET_S:
            time.sleep(_LOOK_S)
            before, done = done, self.done
            if done != before:
                changed = time.monotonic()
        return self._checked(burst)

    def _arrange(self, burst: Burst) -> None:
        maps = self.program.maps
        if burst.gro != self._gro:
            self._server.set_feature("gro", burst.gro)
            self._gro = burst.gro
        cpu = self.other if burst.other_cpu else self.here
        maps["plan"][0] = {"cpu": cpu, "find_out": burst.composer.find_out}
        maps["meta_threshold"][0] = burst.threshold if burst.composer.here else NEVER
        for pace in (maps["came"], self._told):
            pace[0] = _NOTHING
        self._seen_before, self._done_before = self.seen, self.done

    def _volleys(self, burst: Burst) -> Volleys:
        """What sends frames of this size, with metadata before them or without; made when first asked for."""
        key = (burst.size, burst.composer is Composer.CARD)
        if key not in self._ready:
            frame = udp(self.lab["client"], self.lab["server"], size=burst.size, dport=_PORT)
            metadata = self._card if burst.composer is Composer.CARD else b""
            made = Volleys(self.lab["client"]["eth0"], frame, cpu=self.here, metadata=metadata, prepare=False)
            self._ready[key] = self._open.enter_context(made)
        return self._ready[key]

    def _checked(self, burst: Burst) -> float:
        came, told = self.program.maps["came"][0], self._told[0]
        without, with_it = (now - then for now, then in zip(self.seen, self._seen_before, strict=True))
        wanted = burst.with_metadata
        counts = (came["packets"], self.done - self._done_before, with_it, without)
        if counts != (burst.packets, burst.packets, wanted, burst.packets - wanted):
            raise TrafficError(
                f"Of {burst.packets:,} packets {counts[0]:,} came, {counts[1]:,} got to the end, "
                f"{counts[2]:,} with metadata and {counts[3]:,} without.",
                tried=f"to time {burst}",
                detail=str(self.lab.ledger(settle_s=0.0)),
                remedy="a time for less than all would mislead: run it again, and report it if it repeats",
            )
        stack_ns, driver_ns = (at["gaps_ns"] / max(1, at["gaps"]) for at in (told, came))
        return float(stack_ns if burst.other_cpu else driver_ns + stack_ns)

    def close(self) -> None:
        """Take everything down. Safe to call again."""
        self._open.close()

    def __enter__(self) -> TimedWay:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
