"""Opening a socket: memory registered, rings made, bound to its queue, rings mapped; every refusal in words."""

from __future__ import annotations

import contextlib
import errno
import os
import resource
import socket
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import NoReturn

from labkit.errors import FeatureError, PrivilegeError, XskError, resources
from labkit.interface import Interface
from labkit.kernel import xdp_socket
from labkit.kernel.gate import privilege_remedy
from labkit.kernel.xdp_holders import processes_with, processes_with_rings
from labkit.uapi import XskBind, XskOption, XskRing
from labkit.xsk.ring import ADDRESS, DESCRIPTOR, Ring
from labkit.xsk.umem import Umem

__all__ = ["Rings", "Sizes", "holders", "open_bound"]

_TRIED = "to open an AF_XDP socket"
_RETRY_S = 0.005
_bound: dict[
    tuple[int, int, int], int
] = {}  # (namespace, ifindex, queue) → inode of the last socket this process bound
_OPTIONS = {
    "fill": (XskOption.UMEM_FILL_RING, XskRing.FILL, ADDRESS),
    "receive": (XskOption.RX_RING, XskRing.RX, DESCRIPTOR),
    "transmit": (XskOption.TX_RING, XskRing.TX, DESCRIPTOR),
    "completion": (XskOption.UMEM_COMPLETION_RING, XskRing.COMPLETION, ADDRESS),
}


@dataclass(frozen=True)
class Sizes:
    """Entries of each ring, 0 for none."""

    fill: int
    receive: int
    transmit: int
    completion: int


@dataclass(frozen=True)
class Rings:
    """The rings of a socket. ``fill`` and ``completion`` belong to the queue: sockets of one queue have them together."""

    fill: Ring
    receive: Ring | None
    transmit: Ring | None
    completion: Ring

    def all(self) -> list[Ring]:
        """Those there are."""
        return [each for each in (self.fill, self.receive, self.transmit, self.completion) if each is not None]


def open_bound(
    interface: Interface, queue: int, umem: Umem, sizes: Sizes, flags: XskBind, patience_s: float
) -> tuple[socket.socket, Rings]:
    """A socket bound to ``queue``, and its rings. It shares the memory with those in ``umem.users``. Raises LabError."""
    where = f"{interface.where} queue {queue}"
    sharing = next(iter(umem.users), None)
    together = next((each for each in umem.users if (each.interface, each.queue) == (interface, queue)), None)
    with resources(_TRIED, where):
        made = _opened(interface, where)
        try:
            if sharing is None:
                _register(made, umem, where, patience_s)
            for name, (option, _, _) in _OPTIONS.items():
                if getattr(sizes, name) and not (together and name in ("fill", "completion")):
                    xdp_socket.make_ring(made, option, getattr(sizes, name))
            shared_fd = 0
            if sharing is not None:  # how it is bound was decided with the first
                flags, shared_fd = XskBind.SHARED_UMEM, sharing.fd
            _bind(made, interface, queue, flags, shared_fd, patience_s)
            if together is None:
                _bound[_place(interface, queue)] = os.fstat(made.fileno()).st_ino
            return made, _mapped(made, sizes if together is None else _of_the_queue(sizes, together.rings))
        except BaseException:
            made.close()
            raise


def _of_the_queue(sizes: Sizes, rings: Rings) -> Sizes:
    return Sizes(rings.fill.size, sizes.receive, sizes.transmit, rings.completion.size)


def _opened(interface: Interface, where: str) -> socket.socket:
    try:
        return interface.run(xdp_socket.open_socket)
    except OSError as error:
        if error.errno == errno.EPERM:
            message, remedy = "This process may not open an AF_XDP socket.", privilege_remedy()
            raise PrivilegeError(message, tried=_TRIED, on=where, errno=error.errno, remedy=remedy) from error
        if error.errno == errno.EAFNOSUPPORT:
            message, remedy = "This kernel has no AF_XDP.", "use a kernel with CONFIG_XDP_SOCKETS=y"
            raise FeatureError(message, tried=_TRIED, on=where, errno=error.errno, remedy=remedy) from error
        raise


def _register(made: socket.socket, umem: Umem, where: str, patience_s: float) -> None:
    limit = resource.getrlimit(resource.RLIMIT_MEMLOCK)[0]
    sizes = (umem.address, umem.size_bytes, umem.frame_size, umem.headroom)
    try:
        _patiently(errno.ENOBUFS, patience_s, xdp_socket.register_memory, made, *sizes)
    except OSError as error:
        if error.errno != errno.ENOBUFS:
            raise
        raise XskError(
            f"{umem.size_bytes / 2**20:.4g} MiB are more than this user may lock in memory.",
            tried="to register memory for AF_XDP",
            on=where,
            errno=error.errno,
            detail=f"The limit is {limit / 2**20:.4g} MiB (ulimit -l), over all AF_XDP sockets of the user together.",
            remedy=f"use at most {limit // umem.frame_size:,} frames of {umem.frame_size:,} bytes, fewer where other "
            "sockets are open",
        ) from error


def _bind(
    made: socket.socket, interface: Interface, queue: int, flags: XskBind, shared_fd: int, patience_s: float
) -> None:
    try:
        _patiently(
            errno.EBUSY,
            patience_s,
            interface.run,
            partial(xdp_socket.bind_socket, made, interface.ifindex, queue, flags, shared_fd),
        )
    except OSError as error:
        _explain(error, interface, queue, flags)


def _patiently(number: int, patience_s: float, function: Callable[..., object], *args: object) -> None:
    """Call it, and for a while again where it fails with this errno.

    What a closed socket had, its queue and its memory, the kernel lets go of a little later.
    """
    until = time.monotonic() + patience_s
    while True:
        try:
            function(*args)
            return
        except OSError as error:
            if error.errno != number or time.monotonic() >= until:
                raise
        time.sleep(_RETRY_S)


def _explain(error: OSError, interface: Interface, queue: int, flags: XskBind) -> NoReturn:
    where = f"{interface.where} queue {queue}"
    kind: type[XskError | FeatureError] = XskError
    match error.errno:
        case errno.EBUSY:
            message = f"{where} is taken, {holders(interface, queue)}."
            remedy = "close that one, or share its memory: XskSocket(…, umem=other.umem)"
        case errno.EOPNOTSUPP if XskBind.ZEROCOPY in flags:
            kind, message = FeatureError, f"The driver of {interface.where} has no zero-copy."
            remedy = 'use mode="copy": a veth has no hardware that could write into a program\'s memory, the kernel copies for it'
        case errno.ENODEV:
            message, remedy = f"{interface.where} is gone.", "make the lab again (run the cell that calls lk.Lab(…))"
        case _:
            message, remedy = f"{where} can't be bound.", "see the kernel's word above"
    raise kind(message, tried="to bind an AF_XDP socket", on=where, errno=error.errno, remedy=remedy) from error


def holders(interface: Interface, queue: int) -> str:
    """Who has an AF_XDP socket at a queue, for people.

    The socket that this process bound last is known, and so who has it now; of others no more than who has any.
    """
    inode = _bound.get(_place(interface, queue))
    exact = processes_with(inode) if inode is not None else []
    if exact:
        return "by " + _names(exact)
    others = processes_with_rings()
    return f"maybe by {_names(others)}, having AF_XDP rings" if others else "by a process that can't be seen from here"


def _names(processes: list[tuple[int, str]]) -> str:
    return ", ".join(f"process {pid} ({name})" for pid, name in processes)


def _place(interface: Interface, queue: int) -> tuple[int, int, int]:
    return interface.host.inode, interface.ifindex, queue


def _mapped(made: socket.socket, sizes: Sizes) -> Rings:
    offsets = xdp_socket.ring_offsets(made)
    with _all_or_none() as mapped:
        for name, (_, ring, entry) in _OPTIONS.items():
            if size := getattr(sizes, name):
                mapped[name] = Ring(made, ring, offsets[ring], size, entry)
        return Rings(mapped["fill"], mapped.get("receive"), mapped.get("transmit"), mapped["completion"])


@contextlib.contextmanager
def _all_or_none() -> Iterator[dict[str, Ring]]:
    made: dict[str, Ring] = {}
    try:
        yield made
    except BaseException:
        for each in made.values():
            each.close()
        raise
