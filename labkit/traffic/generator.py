"""The in-kernel generator: frames made by BPF_PROG_TEST_RUN, millions a second from Python.

How a burst of them is made is a sender's matter: live frames, or packets of the stack where the kernel has none.
"""

from __future__ import annotations

import os
import threading
import time
from bisect import bisect_left
from collections import Counter
from functools import partial

from labkit.errors import TrafficError
from labkit.interface import Interface
from labkit.kernel import features
from labkit.kernel.cpus import current_cpu
from labkit.traffic.generated import (
    LARGEST_FRAME,
    MOST_PACKETS,
    SMALLEST_FRAME,
    check_generator,
    metadata_before,
    refused,
    sized,
)
from labkit.traffic.live_sender import LiveSender
from labkit.traffic.report import TrafficReport
from labkit.traffic.stack_sender import NOTE, StackSender

__all__ = ["LARGEST_FRAME", "SMALLEST_FRAME", "Generator", "generate"]

# Bytes a frame may be longer than the MTU: the Ethernet header, and a VLAN tag. A redirect doesn't look whether there is one
# (xdp_ok_fwd_dev, include/net/xdp.h), a packet socket does (packet_snd, net/packet/af_packet.c).
_HEADER, _TAG, _TAGGED = 14, 4, b"\x81\x00"
_CHUNK_S = 0.005  # how long one burst should take: short, so that readers of counters wait little
_FEWEST, _MOST = 4096, 1 << 20  # frames a burst at full speed: a burst costs some 50 µs beside its frames
_FEWEST_BY_STACK = 256


def generate(
    interface: Interface,
    frame: bytes,
    packets: int = 1_000_000,
    *,
    rate_pps: float | None = None,
    flows: int = 1,
    threads: int = 1,
    batch: int = 64,
    size: int | None = None,
    metadata: bytes = b"",
    prepare: bool = True,
) -> TrafficReport:
    """Send ``packets`` copies of ``frame`` out of ``interface`` and report; returns when all are sent.

    ``rate_pps`` limits the rate (None: as fast as it goes); ``flows`` varies the UDP or TCP source port over so many
    values; ``threads`` share the packets; ``batch`` frames are handled at a time (1 to 256); ``size`` pads or
    cuts the frame to so many bytes. ``metadata`` goes before each frame, where the receiver's XDP program finds it, as
    from a card that had written it there. With ``prepare=False`` the receiver is left as it is: then it wants a native
    program, or GRO, to take the frames at all. Raises TrafficError.
    """
    source = Generator(
        interface,
        frame,
        packets,
        rate_pps=rate_pps,
        flows=flows,
        threads=threads,
        batch=batch,
        size=size,
        metadata=metadata,
        prepare=prepare,
    )
    source.start()
    return source.wait()


class Generator:
    """The same in the background: ``start()``, ``stop()``, ``report``; ends by itself after ``packets`` or ``seconds``."""

    def __init__(
        self,
        interface: Interface,
        frame: bytes,
        packets: int | None = None,
        *,
        seconds: float = 600.0,
        rate_pps: float | None = None,
        flows: int = 1,
        threads: int = 1,
        batch: int = 64,
        size: int | None = None,
        metadata: bytes = b"",
        prepare: bool = True,
    ) -> None:
        check_generator(interface, packets, seconds, rate_pps, flows, threads, batch)
        self.interface = interface
        self.frame = sized(frame, size)
        self.metadata = metadata_before(metadata)
        self.packets = packets
        self.seconds, self.rate_pps, self.flows, self.threads, self.batch = seconds, rate_pps, flows, threads, batch
        self._prepare = prepare
        self._left = packets if packets is not None else MOST_PACKETS
        self._sent = 0
        self._failures: Counter[str] = Counter()
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._workers: list[threading.Thread] = []
        self._cpus: list[int] = []
        self._began = self._ended = 0.0
        self._sender: LiveSender | StackSender | None = None

    def start(self) -> Generator:
        """Start sending. Raises TrafficError where it runs already."""
        if self._workers:
            raise TrafficError("This generator has been started already.", tried="to start it", remedy="make a new one")
        self.make_ready()
        if self.threads > 1:
            self.interface.host.lab.count_bulks()
        cpus = sorted(os.sched_getaffinity(0))
        here = bisect_left(cpus, current_cpu()) % len(cpus)
        self._cpus = cpus[here:] + cpus[:here]  # one a thread, from this one on
        self._began = time.perf_counter()
        self.interface.host.lab.traffic.started(self)
        for number in range(self.threads):
            thread = self.interface.host.thread.spawn(partial(self._work, number), f"generator-{number}")
            self._workers.append(thread)
        return self

    def make_ready(self) -> None:
        """Load what ``burst`` needs. Raises TrafficError where the way is closed."""
        self._check_way()
        if self._prepare:
            prepare_receiver(self.interface.peer)
        if features.live_frames():
            self._sender = LiveSender(self.interface, self.frame, self.flows, self.batch, self.metadata)
        else:
            self._sender = self._by_stack()

    def _by_stack(self) -> StackSender:
        if self.metadata:
            raise refused(
                "Metadata can't go before a packet of the stack, and this kernel makes no other frames.",
                "labkit doctor tells why there are no live frames",
            )
        self.interface.host.lab.tell("info", NOTE, once=True)
        return StackSender(self.interface, self.frame, self.flows)

    def _check_way(self) -> None:
        """What the kernel would refuse frame by frame, refused once and in words."""
        for each in (self.interface, self.interface.peer):
            if not each.up:
                raise refused(f"{each.where} is down.", f'bring it up: lab["{each.host.name}"]["{each.name}"].set_up()')
        tag_fits = features.live_frames() or self.frame[12:14] == _TAGGED
        most = self.interface.mtu + _HEADER + (_TAG if tag_fits else 0)
        if len(self.frame) > most:
            raise refused(
                f"A frame of {len(self.frame)} bytes does not fit {self.interface.where}, MTU {self.interface.mtu}.",
                f"use at most {most} bytes, or raise the MTU at both ends",
            )

    def _work(self, number: int) -> None:
        """Stays on one CPU. The receiver's poll runs where its ring was filled; a sender that moved on meanwhile would
        fill the ring from another CPU than the one that empties it, faster than that can.
        """
        os.sched_setaffinity(0, {self._cpus[number % len(self._cpus)]})
        self._send()

    def _send(self) -> None:
        fewest = _FEWEST if isinstance(self._sender, LiveSender) else _FEWEST_BY_STACK
        board, chunk, due = self.interface.host.lab.traffic, fewest, time.perf_counter()
        share = self.rate_pps / self.threads if self.rate_pps else None
        deadline = self._began + self.seconds
        while not self._stop.is_set() and time.perf_counter() < deadline:
            if share is not None:
                chunk = max(1, min(chunk, int(share * 2 * _CHUNK_S)))
            take = self._take(chunk)
            if not take:
                break
            with board.chunk():
                began = time.thread_time()  # what it cost, not how long others had the CPU meanwhile
                sent, number = self.burst(take)
                took = time.thread_time() - began
            self._account(sent, take - sent, number)
            if number:
                break
            chunk = max(fewest, min(_MOST, int(take * _CHUNK_S / max(took, 1e-6))))
            if share is not None:
                due = max(due + take / share, time.perf_counter() - 2 * _CHUNK_S)
                self._stop.wait(max(0.0, due - time.perf_counter()))
        self._ended = time.perf_counter()

    def _take(self, chunk: int) -> int:
        with self._lock:
            take = min(chunk, self._left)
            self._left -= take
            return take

    def burst(self, packets: int) -> tuple[int, int]:
        """Send one burst, on a thread of the interface's namespace: (how many left, the kernel's errno for the others).

        Call it inside the traffic board's ``chunk()``.
        """
        assert self._sender is not None
        return self._sender.send(packets)

    def _account(self, sent: int, failed: int, number: int) -> None:
        with self._lock:
            self._sent += sent
            if failed:
                self._failures[os.strerror(number)] += failed

    @property
    def running(self) -> bool:
        """Whether any thread still sends."""
        return any(thread.is_alive() for thread in self._workers)

    @property
    def report(self) -> TrafficReport:
        """What was sent so far."""
        end = self._ended if self._workers and not self.running else time.perf_counter()
        with self._lock:
            failed = sum(self._failures.values())
            return TrafficReport(
                "generator",
                self.interface.where,
                self._sent,
                failed,
                max(0.0, end - self._began) if self._began else 0.0,
                len(self.frame),
                dict(self._failures),
            )

    def wait(self) -> TrafficReport:
        """Wait until all is sent, and report."""
        for thread in self._workers:
            thread.join()
        self.interface.host.lab.traffic.ended(self)
        self.release()
        report = self.report
        if report.failed and not report.sent:
            raise TrafficError(
                f"No frame left {self.interface.where}.",
                tried=f"to generate frames of {len(self.frame)} bytes",
                on=self.interface.where,
                detail=", ".join(f"{name}: {count:,}" for name, count in report.failures.items()),
                remedy="labkit doctor tells whether this kernel has live frames in BPF_PROG_TEST_RUN",
            )
        return report

    def release(self) -> None:
        """Let go of what ``make_ready`` loaded. Safe to call again."""
        if self._sender is not None:
            self._sender.close()

    def stop(self) -> TrafficReport:
        """Stop after the burst under way, and report. Safe to call again."""
        self._stop.set()
        return self.wait()


def prepare_receiver(peer: Interface) -> None:
    """Make ``peer`` able to take frames by redirect: veth wants a native XDP program or GRO there (drivers/net/veth.c).

    GRO is asked for even where a program is attached: else the interface would refuse frames once that is taken off.
    """
    already = peer.features().get("rx-gro", False)
    peer.set_feature("gro", True)
    if not already:
        peer.host.lab.tell(
            "info",
            f"GRO switched on at {peer.where}: without it (or a native program) a veth takes no generated frames.",
        )
