"""What every AF_XDP socket has: its queue, its memory, its rings; how it is opened, counted and closed."""

from __future__ import annotations

import select
from typing import Literal, Self

import numpy as np
from numpy.typing import NDArray

from labkit.errors import FeatureError, StateError
from labkit.interface import Interface
from labkit.kernel import xdp_socket
from labkit.kernel.xdp_socket import XskStatistics
from labkit.observe.sockets import SocketCounters
from labkit.program.targets import SocketMap
from labkit.traffic.checks import check_interface
from labkit.traffic.lifetime import close_with
from labkit.uapi import XskBind
from labkit.xsk.checks import check_power_of_two, check_seconds, check_whole, refused
from labkit.xsk.ring import Ring
from labkit.xsk.setup import Sizes, open_bound
from labkit.xsk.umem import Umem

__all__ = ["MOST_ENTRIES", "Mode", "QueueSocket"]

Mode = Literal["copy", "zero-copy", "auto"]
_MODES = {"copy": XskBind.COPY, "zero-copy": XskBind.ZEROCOPY, "auto": XskBind(0)}
_TRIED = "to open an AF_XDP socket"
MOST_ENTRIES = 1 << 16
_PATIENCE_S = 2.0
_LEAST_BUDGET = 32  # TX_BATCH_SIZE, net/xdp/xsk.c


class QueueSocket:
    """A socket bound to a queue. labkit.xsk.socket.XskSocket has the words."""

    def __init__(
        self,
        interface: Interface,
        queue: int = 0,
        *,
        umem: Umem | None = None,
        receive_ring: int = 2048,
        transmit_ring: int = 2048,
        fill_ring: int = 2048,
        completion_ring: int = 2048,
        filled: int | None = None,
        mode: Mode = "copy",
        need_wakeup: bool = True,
        transmit_budget: int | None = None,
        wipe_metadata: bool = True,
        patience_s: float = _PATIENCE_S,
    ) -> None:
        self.interface = check_interface(interface, _TRIED)
        self.queue = _checked_queue(interface, queue)
        sizes = _checked_sizes(fill_ring, receive_ring, transmit_ring, completion_ring)
        if mode not in _MODES:
            raise refused(f"mode can't be {mode!r}.", _TRIED, "use " + ", ".join(map(repr, _MODES)))
        if umem is not None and not isinstance(umem, Umem):
            raise refused(
                f"{umem!r} is no memory.", _TRIED, "give a lk.xsk.Umem, as other_socket.umem, or leave it out"
            )
        check_seconds("patience_s", patience_s, _TRIED)
        self.need_wakeup, self.wipe_metadata = bool(need_wakeup), bool(wipe_metadata)
        self._owns_umem = umem is None
        self.umem = Umem() if umem is None else umem
        self.closed = False
        self._lock = self.umem.lock
        self._slots: list[tuple[SocketMap, int]] = []
        self._taken = self._completed = 0
        self._last = SocketCounters()
        self._board = interface.host.lab.traffic
        most = min(self.umem.frames, fill_ring)
        wanted = most if filled is None else check_whole("filled", filled, 0, most, _TRIED)
        if filled is None and transmit_ring:
            wanted = min(wanted, max(1, self.umem.free // 2))
        with self._lock:
            self.umem.check_open(_TRIED)
            flags = _MODES[mode] | (XskBind.USE_NEED_WAKEUP if need_wakeup else XskBind(0))
            if interface.host.lab.observer.sockets.open_at(self.where):
                patience_s = 0  # shared, or in vain
            self._socket, self.rings = open_bound(self.interface, self.queue, self.umem, sizes, flags, patience_s)
            self._alone = not any(self._shares_queue(each) for each in self.umem.users)
            self.umem.users.append(self)
            if transmit_budget is not None:
                self._set_budget(transmit_budget)
            self.fill(wanted if self._alone or filled is not None else 0)  # the queue's fill ring has its frames
        self._ready = select.poll()
        self._ready.register(self._socket, select.POLLIN)
        interface.host.lab.observer.sockets.opened(self)
        close_with(interface.host.lab, self)

    def _set_budget(self, frames: int) -> None:
        most = self.rings.transmit.size if self.rings.transmit else 0
        try:
            check_whole("transmit_budget", frames, _LEAST_BUDGET, max(most, _LEAST_BUDGET), _TRIED)
            if not xdp_socket.set_transmit_budget(self._socket, frames):
                raise FeatureError(
                    "This kernel does not let a wake-up send more frames, or the ring has fewer.",
                    tried="to set XDP_MAX_TX_SKB_BUDGET",
                    on=self.where,
                    remedy=f"leave transmit_budget out: the kernel sends {_LEAST_BUDGET} for each wake-up then",
                )
        except BaseException:
            self._let_go()
            raise

    @property
    def where(self) -> str:
        """``server eth0 queue 0``, for people."""
        return f"{self.interface.where} queue {self.queue}"

    @property
    def fd(self) -> int:
        """The descriptor. Raises StateError after close."""
        self._check_open("to use its descriptor")
        return self._socket.fileno()

    @property
    def zero_copy(self) -> bool:
        """Whether the driver works without copying."""
        self._check_open("to ask for its mode")
        return xdp_socket.is_zero_copy(self._socket)

    def noted(self, sockets: SocketMap, slot: int) -> None:
        """Note that ``slot`` of a map has this socket (maps call this)."""
        self._slots.append((sockets, slot))

    def fill(self, most: int | None = None) -> int:
        """Put up to ``most`` (None: all) free frames into the fill ring: how many there was room for."""
        if most is not None:
            check_whole("most", most, 0, MOST_ENTRIES, "to fill the fill ring")
        with self._lock:
            self._check_open("to fill the fill ring")
            room = self.rings.fill.room
            addresses = self.umem.take(room if most is None else min(most, room))
            return self.rings.fill.put(addresses)

    def _fill(self, addresses: NDArray[np.uint64]) -> None:
        if self.wipe_metadata:
            self.umem.forget_metadata(addresses)
        put = self.rings.fill.put(addresses)
        if put < len(addresses):
            self.umem.give_back(addresses[put:])

    def _there(self, ring: Ring | None, name: str) -> Ring:
        if ring is None:
            raise refused(f"{self.where} was opened without a {name} ring.", f"to {name}", f"leave {name}_ring=0 out")
        return ring

    def statistics(self) -> XskStatistics:
        """The kernel's counters (XDP_STATISTICS) since the socket was opened."""
        with self._lock:
            self._check_open("to read its statistics")
            return xdp_socket.statistics(self._socket)

    def counters(self) -> SocketCounters:
        """What became of this socket's packets, for the ledger; after close what it was then."""
        with self._lock:
            if self.closed:
                return self._last
            kernel, ring, out = self.statistics(), self.rings.receive, self.rings.transmit
            no_buffer = min(kernel.rx_dropped, kernel.rx_fill_ring_empty_descs)
            return SocketCounters(
                taken=self._taken,
                waiting=ring.filled if ring else 0,
                ring_full=kernel.rx_ring_full,
                no_buffer=no_buffer,
                too_long=kernel.rx_dropped - no_buffer,
                invalid=kernel.tx_invalid_descs,
                unsent=out.filled if out else 0,
            )

    def _shares_queue(self, other: QueueSocket) -> bool:
        return (other.interface, other.queue) == (self.interface, self.queue)

    def places(self) -> dict[str, int]:
        """Where the memory's frames are, as far as this socket's rings tell: fill, receive, transmit, completion, free.

        ``elsewhere`` is the rest: with the program, in the kernel, or in another socket's rings.
        """
        with self._lock:
            self._check_open("to look for its frames")
            found = {each.name: each.filled for each in self.rings.all()}
            found["free"] = self.umem.free
            found["elsewhere"] = self.umem.frames - sum(found.values())
            return found

    def close(self) -> None:
        """Leave the maps, unmap the rings, close. Safe to call again.

        Packets that nobody has taken are thrown away with the socket; the ledger names them.
        """
        with self._lock:
            slots, self._slots = self._slots, []
        left = [_left(sockets, slot, self) for sockets, slot in slots]
        if any(left):
            xdp_socket.await_grace_period()  # from now on nothing arrives: what is in the ring can be counted
        with self._board.chunk(), self._lock:  # no reading of counters sees half of this
            if self.closed:
                return
            self._last = self.counters().closed()
            self.closed = True
            self._let_go()
            self.interface.host.lab.observer.sockets.closed(self)

    def _let_go(self) -> None:
        self.umem.users.remove(self)
        together = any(self._shares_queue(each) for each in self.umem.users)
        for ring in self.rings.all():
            if not (together and ring in (self.rings.fill, self.rings.completion)):
                entries = ring.take(ring.size)
                self.umem.returned(entries["address"] if entries.dtype.names else entries)
            ring.close()
        self._socket.close()
        if self._owns_umem and not self.umem.users:
            self.umem.close()

    def _check_open(self, what: str) -> None:
        if self.closed:
            raise StateError(
                f"The AF_XDP socket at {self.where} is closed.", tried=what, on=self.where, remedy="open another"
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "closed" if self.closed else f"{self._taken:,} received, {self._completed:,} sent"
        return f"<AF_XDP socket at {self.where}: {state}>"


def _left(sockets: SocketMap, slot: int, xsk: QueueSocket) -> bool:
    try:
        return sockets.empty(slot, xsk)
    except StateError:  # the map was closed before
        return False


def _checked_queue(interface: Interface, queue: object) -> int:
    number = check_whole("queue", queue, 0, 1 << 16, _TRIED)
    if number >= interface.queues:
        raise refused(
            f"{interface.where} has no queue {number}.",
            _TRIED,
            f"it has {interface.queues}, counted from 0; lk.Topology.pair(queues=…) makes more",
            on=interface.where,
        )
    return number


def _checked_sizes(fill: int, receive: int, transmit: int, completion: int) -> Sizes:
    for name, value in (("fill_ring", fill), ("completion_ring", completion)):
        check_power_of_two(name, value, 1, MOST_ENTRIES, _TRIED)
    for name, value in (("receive_ring", receive), ("transmit_ring", transmit)):
        if value != 0 or isinstance(value, bool):
            check_power_of_two(name, value, 1, MOST_ENTRIES, _TRIED)
    if not receive and not transmit:
        raise refused("A socket without a receive and a transmit ring does nothing.", _TRIED, "leave one of them in")
    return Sizes(fill, receive, transmit, completion)
