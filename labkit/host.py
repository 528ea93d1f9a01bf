"""Hosts of a lab: a network namespace with a worker thread, and the sockets that configure and read it."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from labkit.errors import TopologyError, resources
from labkit.interface import Interface, refused
from labkit.kernel import rtnl
from labkit.kernel.ethtool import EthtoolSocket
from labkit.kernel.netns import NamespaceThread
from labkit.kernel.rtnl import RtnlSocket
from labkit.topology import LinkSpec

if TYPE_CHECKING:
    from labkit.lab import Lab

__all__ = ["Host"]

T = TypeVar("T")
_LOOPBACK = 1  # LOOPBACK_IFINDEX, include/net/flow.h: the first interface of every namespace


class Host:
    """A network namespace of the lab. ``host["eth0"]`` is an Interface; ``run(fn)`` does anything inside it."""

    def __init__(self, lab: Lab, name: str) -> None:
        self.lab = lab
        self.name = name
        self.interfaces: Mapping[str, Interface] = {}
        with contextlib.ExitStack() as made:
            self.thread = NamespaceThread(name)
            made.callback(self.thread.close)
            self.rtnl: RtnlSocket = self.run(RtnlSocket)
            made.callback(self.rtnl.close)
            self.ethtool: EthtoolSocket = self.run(EthtoolSocket)
            made.callback(self.ethtool.close)
            self.run(_silence_ipv6)
            self.run(_allow_ping_sockets)
            made.pop_all()  # from here on it is close() that lets go of it

    @property
    def inode(self) -> int:
        """The inode of the network namespace: how the kernel's tracepoints name it."""
        return self.thread.inode

    @property
    def ip(self) -> str:
        """The address of the first interface."""
        return self._first().ip

    def run(self, function: Callable[..., T], *args: Any) -> T:
        """The result of ``function(*args)`` on the host's thread, in its namespace; exceptions are raised here."""
        return self.thread.run(function, *args)

    def __getitem__(self, name: str) -> Interface:
        try:
            return self.interfaces[name]
        except (KeyError, TypeError):
            raise TopologyError(
                f"{self.name} has no interface {name!r}.",
                tried="to look an interface up",
                on=self.name,
                remedy="it has " + (", ".join(self.interfaces) or "none"),
            ) from None

    def _first(self) -> Interface:
        if not self.interfaces:
            raise TopologyError(f"{self.name} has no interface.", tried="to use the host's address", on=self.name)
        return next(iter(self.interfaces.values()))

    def connect(self, link: LinkSpec, far: Host) -> None:
        """Make a veth pair from here to ``far``. Raises TopologyError."""
        try:
            self.rtnl.send([rtnl.add_veth(link.a, link.b, far.thread.fd)])
        except OSError as error:
            raise TopologyError(
                f"The veth pair {link.a.host} {link.a.interface} – {link.b.host} {link.b.interface} could not be made.",
                tried="to make a link",
                on=self.lab.name,
                errno=error.errno,
                remedy="run labkit doctor: it tells whether this kernel has veth",
            ) from error

    def configure(self) -> None:
        """Addresses, links up, loopback up, fixed neighbours, offloads off: one batch of messages for the whole host."""
        ends = self.lab.topology.ends_of(self.name)
        self.interfaces = {end.interface: Interface(self, end) for end in ends}
        messages = [rtnl.set_link(_LOOPBACK, up=True)]
        for each in self.interfaces.values():
            messages.append(rtnl.add_address(each.ifindex, each.ip, each.prefix_length))
            messages.append(rtnl.set_link(each.ifindex, up=True))
        with refused("to set addresses, neighbours and routes", self.name):
            self.rtnl.send([*messages, *self._neighbours(), *self._routes()])
        for each in self.interfaces.values():
            each.set_features({"tx-checksum": False, "tx-vlan": False, "rx-vlan": False})
        if self.name in self.lab.topology.forwarders:
            self.run(Path("/proc/sys/net/ipv4/ip_forward").write_text, "1")

    def fix_neighbours(self) -> None:
        """Enter the permanent neighbours again (the kernel forgets them when an interface goes down)."""
        with refused("to enter the neighbours again", self.name, f"An interface of {self.name}"):
            self.run(self.rtnl.send, self._neighbours())

    def fix_routes(self) -> None:
        """Enter the static routes again (the kernel forgets those through an interface that goes down)."""
        for route in self._routes():
            with (
                refused("to enter the routes again", self.name, f"An interface of {self.name}"),
                contextlib.suppress(FileExistsError),
            ):
                self.run(self.rtnl.send, [route])

    def _neighbours(self) -> list[Any]:
        found = []
        for link in self.lab.topology.links:
            for near, far in (link.ends, link.ends[::-1]):
                if near.host == self.name:
                    found.append(rtnl.add_neighbour(self.interfaces[near.interface].ifindex, far.ip, far.mac))
        return found

    def _routes(self) -> list[Any]:
        return [rtnl.add_route(r.network, r.via) for r in self.lab.topology.routes if r.host == self.name]

    def socket(self, family: int = socket.AF_INET, kind: int = socket.SOCK_DGRAM, protocol: int = 0) -> socket.socket:
        """A socket of this host; it stays in the host's namespace whichever thread uses it. Close it yourself.

        Raises LabError where descriptors have run out, else OSError as the kernel says it.
        """
        with resources("to open a socket", self.name):
            return self.run(socket.socket, family, kind, protocol)

    def close(self) -> None:
        """Take the links down with their peers, then end the thread; the namespace ends with it. Safe to call again."""
        self.thread.close(self._let_go)

    def _let_go(self) -> None:
        """On the host's thread, as its last work: no question to the sockets is under way while they are closed."""
        for each in self.interfaces.values():
            with contextlib.suppress(OSError):  # it may have gone with its peer
                self.rtnl.send([rtnl.delete_link(each.name)])
        self.rtnl.close()
        self.ethtool.close()

    def __repr__(self) -> str:
        names = ", ".join(f"{i.name} {i.end.address}" for i in self.interfaces.values())
        return f"<host {self.name}: {names}>"


def _silence_ipv6() -> None:
    """No IPv6 on links made from now on: neighbour discovery and router solicitations would mix with counted packets."""
    for scope in ("all", "default"):
        switch = Path(f"/proc/sys/net/ipv6/conf/{scope}/disable_ipv6")
        if switch.exists():
            switch.write_text("1")


def _allow_ping_sockets() -> None:
    """Echo through a socket of its own kind, which takes its answers away from the stack's "no socket" (net/ipv4/ping.c)."""
    allowed = Path("/proc/sys/net/ipv4/ping_group_range")
    try:
        allowed.write_text("0 2147483647")
    except OSError:  # in a user namespace a range may hold its own groups only
        with contextlib.suppress(OSError):
            allowed.write_text(f"{os.getegid()} {os.getegid()}")
