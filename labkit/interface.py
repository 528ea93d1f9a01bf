"""Interfaces of a lab: one end of a veth pair, looked up by host and name."""

from __future__ import annotations

import errno
import os
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from labkit.errors import TopologyError
from labkit.kernel import bpf, rtnl
from labkit.topology import End

if TYPE_CHECKING:
    from labkit.host import Host

__all__ = ["AttachedProgram", "Interface"]

T = TypeVar("T")

_ATTACHED = {1: "native", 2: "generic", 3: "offloaded", 4: "several"}  # XDP_ATTACHED_*, include/uapi/linux/if_link.h
# Names people know (ethtool -K) beside the kernel's own for the same switch.
_FEATURE_NAMES = {
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
        return self.host.run(self.host.rtnl.link, self.ifindex).mtu

    @property
    def up(self) -> bool:
        """Whether the interface is up."""
        return self.host.run(self.host.rtnl.link, self.ifindex).up

    def run(self, function: Callable[..., T], *args: Any) -> T:
        """The result of ``function(*args)`` in this interface's namespace."""
        return self.host.run(function, *args)

    def statistics(self) -> dict[str, int]:
        """The link statistics (``ip -s link``): name → packets or bytes since the interface was made."""
        return self.host.run(self.host.rtnl.statistics, self.ifindex)

    def driver_statistics(self) -> dict[str, int]:
        """The driver's own statistics (``ethtool -S``): name → count since the interface was made."""
        return self.host.run(self.host.ethtool.statistics, self.name)

    def features(self) -> dict[str, bool]:
        """Offloads by the kernel's names, and whether each is on."""
        return self.host.run(self.host.ethtool.features, self.name)

    def set_feature(self, name: str, on: bool) -> None:
        """Turn an offload on or off: gro, tx-checksum, tx-vlan, rx-vlan, tso, gso, or any name of ``features()``.

        Raises TopologyError for an unknown name or where the kernel refuses.
        """
        wanted = dict.fromkeys(_FEATURE_NAMES.get(name, (name,)), on)
        try:
            self.host.run(self.host.ethtool.set_features, self.name, wanted)
        except KeyError as error:
            raise TopologyError(
                f"{self.where} has no feature {name!r}.",
                tried="to switch an offload",
                on=self.where,
                remedy="use one of " + ", ".join((*_FEATURE_NAMES, "or a name of interface.features()")),
            ) from error
        except OSError as error:
            raise self._refused(f"to switch {name} {'on' if on else 'off'}", error) from error

    def xdp(self) -> AttachedProgram | None:
        """The XDP program attached, as the kernel tells it, or None."""
        state = self.host.run(self.host.rtnl.link, self.ifindex)
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
        while not (carries := self.host.run(self.host.rtnl.link, self.ifindex).carries) and time.monotonic() < until:
            time.sleep(0.001)
        return carries

    def set_down(self) -> None:
        """Take the interface down."""
        self._set("to take the interface down", rtnl.set_link(self.ifindex, up=False))

    def set_mtu(self, mtu: int) -> None:
        """Set the MTU in bytes. Raises TopologyError with the kernel's word where it refuses."""
        self._set(f"to set the MTU to {mtu}", rtnl.set_link(self.ifindex, mtu=mtu))

    def _set(self, what: str, message: Any) -> None:
        try:
            self.host.run(self.host.rtnl.send, [message])
        except OSError as error:
            raise self._refused(what, error) from error

    def _refused(self, what: str, error: OSError) -> TopologyError:
        remedy = "see the kernel's word above"
        if error.errno == errno.EPERM:
            remedy = "run the lab as root (sudo ./env/lab), or inside the lab's sandbox"
        elif error.errno == errno.EINVAL and "MTU" in what:
            remedy = "use 68 to 65535; with a native program at the peer about 3500 at the most"
        return TopologyError(
            f"The kernel refused: {error.strerror}.", tried=what, on=self.where, errno=error.errno, remedy=remedy
        )

    def __repr__(self) -> str:
        return f"<{self.where}: {self.end.address}, {self.mac}, ifindex {self.ifindex}>"


def _program_name(ident: int) -> str:
    try:
        fd = bpf.prog_fd_by_id(ident)
    except OSError:
        return ""
    try:
        return bpf.prog_info(fd).name
    finally:
        os.close(fd)
