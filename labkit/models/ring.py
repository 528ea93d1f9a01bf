"""Two cards, two rings, one CPU: packets received by the first are sent by the second, simulated event by event (SimPy).

The CPU is the driver's softirq: it receives a budget of packets, cleans up what was sent where an interrupt has asked for
that, and sleeps when there is nothing to do, until an interrupt. A card's interrupts come apart by a least interval.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import simpy

from labkit.errors import ModelError
from labkit.models.knobs import Knobs, Scheme
from labkit.models.outcome import Moment, Outcome
from labkit.models.pages import Pages, pages_of

__all__ = ["run"]

_CLEANED = 256  # descriptors a poll of the sending card's driver: IXGBE_DEFAULT_TX_WORK
_MOMENTS = 400  # of the history, at the most
_LONGEST_US = 1_000_000.0

_Process = Generator[simpy.Event, Any, None]


def run(knobs: Knobs, *, microseconds: float = 3_000.0, warm_up: float = 0.25, pages: Pages | None = None) -> Outcome:
    """Simulate so long; rates are of what comes after ``warm_up`` (a share of the time). No chance in it: same knobs, same end.

    Conservation of packets and pages is asserted at every step. ``pages``: another way to give buffers back than the
    knobs' scheme. Raises ModelError for wrong arguments, and where packets or pages got lost in the model.
    """
    if (
        isinstance(microseconds, bool)
        or not isinstance(microseconds, (int, float))
        or not 1 <= microseconds <= _LONGEST_US
    ):
        raise ModelError(
            f"The model can't run for {microseconds!r} µs.",
            tried="to run the ring model",
            remedy=f"give a time from 1 to {_LONGEST_US:,.0f}",
        )
    if isinstance(warm_up, bool) or not isinstance(warm_up, (int, float)) or not 0 <= warm_up < 1:
        raise ModelError(
            f"warm_up can't be {warm_up!r}.", tried="to run the ring model", remedy="give a share from 0 to less than 1"
        )
    return _Model(knobs, microseconds * 1e3, microseconds * 1e3 * warm_up, pages or pages_of(knobs)).run()


class _Model:
    """Times in ns."""

    def __init__(self, knobs: Knobs, end: float, warm: float, pages: Pages) -> None:
        self.knobs, self.end, self.warm, self.pages = knobs, end, warm, pages
        self.env = simpy.Environment()
        self.interval = knobs.interval_us * 1e3
        self.offered = self.received = self.sent = self.completed = self.queued = 0
        self.in_rx = 0
        self.lost = {"receive ring full": 0, "transmit ring full": 0, "no memory": 0}
        self.rx_polling, self.tx_pending = False, False
        self.rx_last = self.tx_last = -self.interval
        self.wake = self.env.event()
        self.wire_since = 0.0  # since when the second card has been sending without a pause
        self.wire_from = 0  # packets sent by then
        self.asleep_since: float | None = None
        self.slept = 0.0
        self.at_warm: tuple[int, int, float] | None = None
        self.most_pages = pages.held
        self.history: list[Moment] = []

    # What goes by itself: the wire, and both cards

    def _arrive(self) -> None:
        """Packets that came since the last look: into the ring, as far as there are free entries."""
        new = int(self.env.now * self.knobs.offered_pps / 1e9) - self.offered
        self.offered += new
        taken = min(new, self.knobs.rx_ring - self.in_rx)
        self.in_rx += taken
        self.lost["receive ring full"] += new - taken

    def _transmit(self) -> None:
        """What the second card has sent by now."""
        if self.sent < self.queued:
            possible = self.wire_from + int((self.env.now - self.wire_since) * self.knobs.line_pps / 1e9)
            self.sent = min(self.queued, max(self.sent, possible))

    def _receive_interrupts(self) -> _Process:
        """Asks for a poll where packets wait and none is under way, an interval after the last time at the earliest."""
        while True:
            # A packet due at this very moment may be rounded away by _arrive: without a step of 1 ns time would stand still.
            next_packet = max((self.offered + 1) * 1e9 / self.knobs.offered_pps, self.env.now + 1.0)
            due = self.rx_last + self.interval
            at = max(due, self.env.now if self.in_rx else next_packet)
            yield self.env.timeout(max(0.0, at - self.env.now))
            self._arrive()
            if not self.in_rx:
                continue
            self.rx_last = self.env.now
            self.rx_polling = True
            self._rouse()
            while self.rx_polling:
                yield self.rx_done
            self._arrive()

    def _transmit_interrupts(self) -> _Process:
        """Asks for a clean-up where something was sent, an interval after the last time at the earliest."""
        while True:
            yield self.env.timeout(self.interval)
            self._transmit()
            if self.sent > self.completed and not self.tx_pending:
                self.tx_last = self.env.now
                self.tx_pending = True
                self._rouse()

    def _rouse(self) -> None:
        if not self.wake.triggered:
            self.wake.succeed()

    # The CPU

    def _cpu(self) -> _Process:
        self.rx_done = self.env.event()
        while True:
            worked = False
            if self.tx_pending:
                worked = True
                yield self.env.timeout(self._clean())
            if self.rx_polling:
                worked = True
                yield self.env.timeout(self._receive())
            self._look()
            if not worked:
                self.asleep_since = self.env.now
                yield self.wake
                self._woken()
            if self.wake.triggered:
                self.wake = self.env.event()

    @property
    def asleep(self) -> bool:
        return self.asleep_since is not None

    def _woken(self) -> None:
        if self.asleep_since is not None:
            self.slept += max(0.0, self.env.now - max(self.asleep_since, self.warm))
        self.asleep_since = None

    def _clean(self) -> float:
        """Complete what was sent: the time it takes."""
        self._transmit()
        done = min(_CLEANED, self.sent - self.completed)
        self.completed += done
        self.pages.came_home(done)
        if self.sent == self.completed:
            self.tx_pending = False
        costs = self.knobs.costs
        return max(1.0, done * (costs.send_ns / 2 + self._home_ns))

    def _receive(self) -> float:
        """Receive up to a budget, and send it on: the time it takes."""
        self._arrive()
        self._transmit()
        packets = min(self.knobs.budget, self.in_rx)
        self.in_rx -= packets
        self.received += packets
        room = self.knobs.tx_ring - (self.queued - self.completed)
        wanted = min(packets, room)
        going, fresh = self.pages.replace(wanted, self.queued - self.completed)
        self.lost["transmit ring full"] += packets - wanted
        self.lost["no memory"] += wanted - going
        fresh += self.pages.dropped(packets - going)
        self._queue(going)
        if packets < self.knobs.budget:
            self._drained()
        costs = self.knobs.costs
        spent = packets * costs.receive_ns + going * costs.send_ns / 2 + fresh * costs.page_ns
        # A page that comes back is still mapped for the receiving card; for the sending one each packet is mapped anew.
        return max(1.0, spent + (fresh + going) * costs.dma_ns)

    def _queue(self, packets: int) -> None:
        if self.sent == self.queued:
            self.wire_since, self.wire_from = self.env.now, self.sent
        self.queued += packets

    def _drained(self) -> None:
        self.rx_polling = False
        done, self.rx_done = self.rx_done, self.env.event()
        done.succeed()

    @property
    def _home_ns(self) -> float:
        costs = self.knobs.costs
        return {Scheme.RETURN: costs.return_ns, Scheme.POOL: costs.pool_ns}.get(self.knobs.scheme, 0.0)

    # What is looked at

    def _look(self) -> None:
        self._check()
        self.most_pages = max(self.most_pages, self.pages.held)
        if self.at_warm is None and self.env.now >= self.warm:
            self._transmit()
            self.at_warm = self.received, self.sent, self.env.now

    def _moments(self) -> _Process:
        """Writes the history, the CPU asleep or not. What it looks at would have come to the same without it."""
        while True:
            self._arrive()
            self._transmit()
            under_way = self.queued - self.completed
            self.history.append(Moment(self.env.now / 1e3, self.in_rx, under_way, self.pages.held, self.asleep))
            yield self.env.timeout(self.end / _MOMENTS)

    def _check(self) -> None:
        lost = self.lost
        packets = self.offered == self.received + lost["receive ring full"] + self.in_rx
        onward = self.received == self.queued + lost["transmit ring full"] + lost["no memory"]
        order = self.completed <= self.sent <= self.queued <= self.completed + self.knobs.tx_ring
        if not (packets and onward and order and self.pages.balanced and self.pages.held <= self.pages.memory):
            raise ModelError(
                "The model lost a packet or a page.",
                tried="to run the ring model",
                detail=f"at {self.env.now / 1e3:.1f} µs: {vars(self)}, pages {vars(self.pages)}",
                remedy="this is a fault of the model, or of the pages given to it: every buffer must be somewhere",
            )

    def run(self) -> Outcome:
        self.rx_done = self.env.event()
        for process in (self._cpu(), self._receive_interrupts(), self._transmit_interrupts(), self._moments()):
            self.env.process(process)
        self.env.run(until=self.end)
        self._arrive()
        self._transmit()
        self._woken()  # a sleep that the end cut short counts as well
        self._check()
        received, sent, since = self.at_warm or (0, 0, 0.0)
        seconds = max(1e-9, (self.env.now - since) / 1e9)
        return Outcome(
            offered=self.offered,
            received=self.received,
            sent=self.sent,
            waiting=self.in_rx,
            in_flight=self.queued - self.sent,
            lost=dict(self.lost),
            allocated=self.pages.allocated - self.pages.ring,
            recycled=self.pages.recycled,
            pages_held=self.pages.held,
            most_pages=self.most_pages,
            in_pps=(self.received - received) / seconds,
            out_pps=(self.sent - sent) / seconds,
            idle=self.slept / max(1e-9, self.end - self.warm),
            seconds=self.end / 1e9,
            history=tuple(self.history),
        )
