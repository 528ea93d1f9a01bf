"""Interfaces of a lab: one end of a veth pair, looked up by host and name."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from labkit.errors import TopologyError, resources
from labkit.kernel import bpf, rtnl
from labkit.kernel.gate import privilege_remedy
from labkit.kernel.rtnl import LinkState
from labkit.topology import End

if TYPE_CHECKING:
    from labkit.host import Host

__all__ = ["AttachedProgram", "Interface", "refused"]

T = TypeVar("T")

_ATTACHED = {1: "native", 2: "generic", 3: "offloaded", 4: "several"}  # XDP_ATTACHED_*, include/uapi/linux/if_link.h
_GONE = (
    "it was deleted, renamed or moved to another namespace, by something else than the lab: "
    "make the lab again (run the cell that calls lk.Lab(…))"
)
# Names people know (ethtool -K) beside the kernel's own for the same switch.
FEATURE_NAMES = {
    "gro": ("rx-gro",),
    "tx-checksum": ("tx-checksum-ip-generic", "tx-checksum-sctp"),
    "tx-vlan": ("tx-vlan-hw-insert", "tx-vlan-stag-hw-insert"),
    "rx-vlan": ("rx-vlan-hw-parse", "rx-vlan-stag-hw-parse"),
    "tso": ("tx-tcp-segmentation", "tx-tcp6-segmentation", "tx-tcp-ecn-segmentation", "tx-tcp-mangleid-segmentation"),
    "gso": ("tx-generic-segmentation",),
}


@dataclass(frozen=True)
class AttachedProgram:
    """What is attached to an interface: mode, the program's id, its name ("" where it can't be read)."""

    mode: str
    program_id: int
    program_name: str


class Interface:
    """One end of a veth pair, living in its host's namespace. Lengths in bytes, the MTU without the Ethernet header."""

    def __init__(self, host: Host, end: End) -> None:
        self.host = host
        self.end = end
        self.name = end.interface
        self.ifindex: int = host.run(socket.if_nametoindex, end.interface)
        self._peer: Interface | None = None

    @property
    def mac(self) -> str:
        """The MAC address, colon-separated."""
        return self.end.mac

    @property
    def ip(self) -> str:
        """The IPv4 address."""
        return self.end.ip

    @property
    def prefix_length(self) -> int:
        """Bits of the network part of the address."""
        return int(self.end.address.rpartition("/")[2])

    @property
    def queues(self) -> int:
        """Receive queues (and as many transmit queues)."""
        return self.end.queues

    @property
    def where(self) -> str:
        """``server eth0``: host and name, for people."""
        return f"{self.host.name} {self.name}"

    @property
    def peer(self) -> Interface:
        """The other end of the veth pair."""
        if self._peer is None:
            raise TopologyError(f"{self.where} has no peer.", tried="to find the other end", on=self.where)
        return self._peer

    @property
    def mtu(self) -> int:
        """The MTU as the kernel has it now."""
        return self._link("to read the MTU").mtu

    @property
    def up(self) -> bool:
        """Whether the interface is up."""
        return self._link("to read whether it is up").up

    def run(self, function: Callable[..., T], *args: Any) -> T:
        """The result of ``function(*args)`` in this interface's namespace."""
        return self.host.run(function, *args)

    def statistics(self) -> dict[str, int]:
        """The link statistics (``ip -s link``): name → packets or bytes since the interface was made."""
        return self._ask("to read the link statistics", self.host.rtnl.statistics, self.ifindex)

    def driver_statistics(self) -> dict[str, int]:
        """The driver's own statistics (``ethtool -S``): name → count since the interface was made."""
        return self._ask("to read the driver's statistics", self.host.ethtool.statistics, self.name)

    def features(self) -> dict[str, bool]:
        """Offloads by the kernel's names, and whether each is on."""
        return self._ask("to read the offloads", self.host.ethtool.features, self.name)

    def set_feature(self, name: str, on: bool) -> None:
        """Turn an offload on or off: gro, tx-checksum, tx-vlan, rx-vlan, tso, gso, or any name of ``features()``.

        Raises TopologyError for an unknown name or where the kernel refuses.
        """
        self._switch([(name, on)])

    def set_features(self, wanted: Mapping[str, bool]) -> None:
        """Turn several offloads on or off in one step, by the names of ``set_feature``. Raises TopologyError."""
        self._switch(list(wanted.items()))

    def _switch(self, wanted: list[tuple[str, bool]]) -> None:
        switches = {each: bool(on) for name, on in wanted for each in self._feature_names(name)}
        what = "to switch " + ", ".join(f"{name} {'on' if on else 'off'}" for name, on in wanted)
        self._ask(what, self.host.ethtool.set_features, self.name, switches)

    def _feature_names(self, name: str) -> tuple[str, ...]:
        """The kernel's names for the switch ``name``."""
        if isinstance(name, str) and (name in FEATURE_NAMES or name in self.features()):
            return FEATURE_NAMES.get(name, (name,))
        raise TopologyError(
            f"{self.where} has no feature {name!r}.",
            tried="to switch an offload",
            on=self.where,
            remedy="use one of " + ", ".join((*FEATURE_NAMES, "or a name of interface.features()")),
        )

    def xdp(self) -> AttachedProgram | None:
        """The XDP program attached, as the kernel tells it, or None."""
        state = self._link("to read what is attached")
        if not state.xdp_mode:
            return None
        return AttachedProgram(
            _ATTACHED.get(state.xdp_mode, "unknown"), state.xdp_program, _program_name(state.xdp_program)
        )

    def set_up(self) -> None:
        """Bring the interface up."""
        self._set("to bring the interface up", rtnl.set_link(self.ifindex, up=True))
        self.host.fix_neighbours()
        self.host.fix_routes()
        if self.peer.up:
            self.await_carrier()
            self.peer.await_carrier()

    def await_carrier(self, deadline_s: float = 1.0) -> bool:
        """Wait until frames can leave: whether they can, after ``deadline_s`` at the latest.

        When both ends have come up the kernel opens the queues a little later (net/core/link_watch.c). What is sent
        before is dropped, and no error tells it.
        """
        until = time.monotonic() + deadline_s
        while not (carries := self._link("to wait until it carries").carries) and time.monotonic() < until:
            time.sleep(0.001)
        return carries

    def set_down(self) -> None:
        """Take the interface down."""
        self._set("to take the interface down", rtnl.set_link(self.ifindex, up=False))

    def set_mtu(self, mtu: int) -> None:
        """Set the MTU in bytes. Raises TopologyError with the kernel's word where it refuses."""
        if isinstance(mtu, bool) or not isinstance(mtu, int) or not 0 <= mtu < 1 << 31:
            raise TopologyError(
                f"{mtu!r} can't be an MTU.", tried="to set the MTU", on=self.where, remedy="use 68 to 65535, in bytes"
            )
        self._set(f"to set the MTU to {mtu}", rtnl.set_link(self.ifindex, mtu=mtu))

    def _set(self, what: str, message: Any) -> None:
        self._ask(what, self.host.rtnl.send, [message])

    def _link(self, what: str) -> LinkState:
        return self._ask(what, self.host.rtnl.link, self.ifindex)

    def _ask(self, what: str, function: Callable[..., T], *args: Any) -> T:
        """The kernel's answer; its refusal as a TopologyError that says ``what`` was tried."""
        try:
            with refused(what, self.where):
                return self.host.run(function, *args)
        except TopologyError as error:
            if self.host.lab.closed:  # an interface goes with its peer, before its own host is closed
                raise self.host.lab.closed_error(what, "was closed meanwhile") from error
            raise

    def __repr__(self) -> str:
        return f"<{self.where}: {self.end.address}, {self.mac}, ifindex {self.ifindex}>"


@contextlib.contextmanager
def refused(tried: str, on: str, gone: str = "") -> Iterator[None]:
    """Inside, what the kernel refuses about an interface is raised as an error with the remedy.

    TopologyError, with errno ENODEV where the interface is gone (``gone`` says which, by default ``on``); LabError
    where descriptors or memory have run out.
    """
    try:
        with resources(tried, on):
            yield
    except OSError as error:
        message, remedy = f"The kernel refused: {error.strerror or error}.", "see the kernel's word above"
        if error.errno == errno.ENODEV:
            message, remedy = f"{gone or f'The interface {on}'} is gone.", _GONE
        elif error.errno == errno.EPERM:
            remedy = privilege_remedy()
        elif error.errno == errno.EINVAL and "MTU" in tried:
            remedy = "use 68 to 65535; with a native program at the peer about 3500 at the most"
        raise TopologyError(message, tried=tried, on=on, errno=error.errno, remedy=remedy) from error


def _program_name(ident: int) -> str:
    try:
        fd = bpf.prog_fd_by_id(ident)
    except OSError:
        return ""
    try:
        return bpf.prog_info(fd).name
    finally:
        os.close(fd)
