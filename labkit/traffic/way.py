"""The way of a packet through the lab: out of which interface, to which MAC, from and to which address."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from typing import Any

from labkit.errors import TrafficError
from labkit.host import Host
from labkit.interface import Interface

__all__ = ["Way", "no_way", "way"]


@dataclass(frozen=True)
class Way:
    """``out`` sends; ``target`` is where the packet is meant to end; the next hop is always ``out.peer``."""

    out: Interface
    target: Interface

    @property
    def next_hop(self) -> Interface:
        """The interface the frame itself is addressed to: the other end of the veth pair."""
        return self.out.peer


def way(source: Host | Interface, destination: Host | Interface, tried: str) -> Way:
    """How a packet goes from ``source`` to ``destination``, told from the topology alone.

    A host sends from the interface that shares a link with the destination, else from the one its route names, else
    from its first; it is reached at the interface that shares the link, else at its first. Raises TrafficError.
    """
    sender, receiver = _host(source, "source", tried), _host(destination, "destination", tried)
    if sender.lab is not receiver.lab:
        raise TrafficError(
            f"{sender.name} is a host of the lab {sender.lab.name}, {receiver.name} one of the lab {receiver.lab.name}.",
            tried=tried,
            remedy="take both from one lab; a lab made again has new hosts",
        )
    if sender is receiver:
        raise TrafficError(
            f"Source and destination are both {sender.name}.",
            tried=tried,
            remedy="give two hosts: a packet of the lab goes over a link",
        )
    out = source if isinstance(source, Interface) else _leaving(sender, receiver, destination)
    if isinstance(destination, Interface):
        return Way(out, destination)
    return Way(out, out.peer if out.peer.host is receiver else _first(receiver, tried))


def _host(value: Any, what: str, tried: str) -> Host:
    if isinstance(value, Host):
        _first(value, tried)
        return value
    if isinstance(value, Interface):
        return value.host
    raise TrafficError(
        f"{value!r} can't be the {what}.",
        tried=tried,
        remedy='give a host of the lab, as in lab["client"], or an interface, as in lab["client"]["eth0"]',
    )


def _first(host: Host, tried: str) -> Interface:
    for each in host.interfaces.values():
        return each
    raise TrafficError(f"{host.name} has no interface.", tried=tried, remedy="give a host that has a link")


def _leaving(sender: Host, receiver: Host, destination: Host | Interface) -> Interface:
    """The interface a host's packets for ``destination`` leave through."""
    interfaces = list(sender.interfaces.values())
    for each in interfaces:
        if each.peer is destination or (destination is receiver and each.peer.host is receiver):
            return each
    address = ipaddress.ip_address(destination.ip)
    for route in sender.lab.topology.routes:
        if route.host == sender.name and address in ipaddress.ip_network(route.network):
            return next((each for each in interfaces if each.peer.ip == route.via), interfaces[0])
    return interfaces[0]


def no_way(taken: Way, error: OSError, tried: str) -> TrafficError:
    """The error for a socket that the kernel gave no route to the target."""
    return TrafficError(
        f"{taken.out.host.name} has no way to {taken.target.ip}.",
        tried=tried,
        on=taken.out.where,
        errno=error.errno,
        remedy="give two hosts that the topology joins, by a link or by routes",
    )
