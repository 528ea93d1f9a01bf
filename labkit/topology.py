"""Topologies as plain data: hosts, the veth links between them, addresses. No privilege and no kernel needed."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from labkit.errors import TopologyError

__all__ = ["End", "LinkSpec", "Route", "Topology"]

# IFNAMSIZ is 16 with the closing zero, include/uapi/linux/if.h.
_LONGEST_NAME = 15
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.-]*\Z")
_MAC = re.compile(r"[0-9a-f][02468ace](:[0-9a-f]{2}){5}\Z")
_NO_MAC = "00:00:00:00:00:00"
_MOST_LINKS = 200
# veth takes an MTU from 68 (IPv4's least, RFC 791) to 65535, drivers/net/veth.c and include/net/ip.h.
_MTU_RANGE = range(68, 65536)
# VETH queues are bounded by the netlink attribute's check (rtnl_create_link: 1 to 4096); a lab needs few.
_QUEUE_RANGE = range(1, 65)


@dataclass(frozen=True)
class End:
    """One end of a link: the interface ``interface`` of ``host``.

    ``address`` is IPv4 with its prefix length, as ``10.0.1.1/24``; ``mac`` six colon-separated bytes;
    ``mtu`` in bytes without the Ethernet header; ``queues`` counts receive and transmit queues alike.
    """

    host: str
    interface: str
    address: str
    mac: str
    mtu: int = 1500
    queues: int = 1

    @property
    def ip(self) -> str:
        """The address without its prefix length."""
        return str(ipaddress.ip_interface(self.address).ip)

    @property
    def network(self) -> str:
        """The network the address is in, as ``10.0.1.0/24``."""
        return str(ipaddress.ip_interface(self.address).network)


@dataclass(frozen=True)
class LinkSpec:
    """A veth pair: two ends, a wire between them."""

    a: End
    b: End

    @property
    def ends(self) -> tuple[End, End]:
        """Both ends, ``a`` first."""
        return (self.a, self.b)


@dataclass(frozen=True)
class Route:
    """``host`` reaches ``network`` (a.b.c.d/n) through the neighbour ``via``."""

    host: str
    network: str
    via: str


@dataclass(frozen=True)
class Topology:
    """Hosts and the links between them; ``Lab`` makes it real.

    ``hosts`` in drawing order; ``links`` veth pairs; ``routes`` static routes; ``forwarders`` the hosts whose
    kernel forwards IPv4. Ready-made shapes: :meth:`pair`, :meth:`router`, :meth:`fanout`, :meth:`chain`.
    Raises TopologyError for names, addresses, sizes or ends that cannot be built.
    """

    hosts: tuple[str, ...]
    links: tuple[LinkSpec, ...] = ()
    routes: tuple[Route, ...] = ()
    forwarders: frozenset[str] = field(default_factory=frozenset)
    shape: str = "custom"

    def __post_init__(self) -> None:
        _check_kinds(self)
        _check_hosts(self.hosts)
        if len(self.links) > _MOST_LINKS:
            raise TopologyError(
                f"A lab of {len(self.links)} links is more than this machine should be asked for.",
                tried="to plan a topology",
                remedy=f"use at most {_MOST_LINKS} links",
            )
        taken: set[tuple[str, str]] = set()
        for end in self.ends():
            _check_end(end, self.hosts, taken)
            taken.add((end.host, end.interface))
        for route in self.routes:
            _check_route(route, self.hosts)
        for host in self.forwarders:
            _check_member(host, self.hosts, "forwarders names")

    def ends(self) -> Iterator[End]:
        """Every end of every link, link by link."""
        for link in self.links:
            yield from link.ends

    def ends_of(self, host: str) -> tuple[End, ...]:
        """The ends that belong to ``host``, in order of its interfaces."""
        return tuple(end for end in self.ends() if end.host == host)

    def with_mtu(self, mtu: int) -> Topology:
        """The same topology with ``mtu`` bytes on every end."""
        links = tuple(LinkSpec(replace(link.a, mtu=mtu), replace(link.b, mtu=mtu)) for link in self.links)
        return replace(self, links=links)

    def __str__(self) -> str:
        lines = [f"{self.shape}: {' – '.join(self.hosts)}"]
        for link in self.links:
            a, b = link.ends
            lines.append(
                f"  {a.host} {a.interface} {a.address}  ──  {b.address} {b.interface} {b.host}"
                f"   (MTU {a.mtu}" + (f"/{b.mtu}" if a.mtu != b.mtu else "") + f", queues {a.queues})"
            )
        return "\n".join(lines)

    def _repr_pretty_(self, printer: object, cycle: bool) -> None:
        printer.text(str(self))  # type: ignore[attr-defined]

    @classmethod
    def pair(cls, *, mtu: int = 1500, queues: int = 1) -> Topology:
        """client ── server, one veth link, 10.0.1.1 and 10.0.1.2."""
        return cls(("client", "server"), (_link(1, "client", 0, "server", 0, mtu, queues),), shape="pair")

    @classmethod
    def router(cls, *, mtu: int = 1500, queues: int = 1) -> Topology:
        """client ── router ── server; the router's kernel forwards until a program does."""
        links = (
            _link(1, "client", 0, "router", 0, mtu, queues),
            _link(2, "router", 1, "server", 0, mtu, queues),
        )
        routes = (
            Route("client", links[1].a.network, links[0].b.ip),
            Route("server", links[0].a.network, links[1].a.ip),
        )
        return cls(("client", "router", "server"), links, routes, frozenset({"router"}), "router")

    @classmethod
    def fanout(cls, n: int, *, mtu: int = 1500, queues: int = 1) -> Topology:
        """One client and ``n`` servers on links of their own: eth0 … of the client."""
        _check_count(n, "servers")
        servers = tuple(f"server{i + 1}" for i in range(n))
        links = tuple(_link(i + 1, "client", i, server, 0, mtu, queues) for i, server in enumerate(servers))
        return cls(("client", *servers), links, shape="fanout")

    @classmethod
    def chain(cls, n: int, *, mtu: int = 1500, queues: int = 1) -> Topology:
        """``n`` hosts in a row, h1 ── h2 ── … ── hn; those in the middle forward."""
        _check_count(n, "hosts", least=2)
        hosts = tuple(f"h{i + 1}" for i in range(n))
        links = tuple(_link(i + 1, hosts[i], 1 if i else 0, hosts[i + 1], 0, mtu, queues) for i in range(n - 1))
        return cls(hosts, links, tuple(_chain_routes(hosts, links)), frozenset(hosts[1:-1]), "chain")


def _link(number: int, a: str, a_eth: int, b: str, b_eth: int, mtu: int, queues: int) -> LinkSpec:
    """Link ``number`` (from 1) on 10.0.<number>.0/24, with locally administered MACs that name link and end."""
    return LinkSpec(
        End(a, f"eth{a_eth}", f"10.0.{number}.1/24", f"02:00:00:00:{number:02x}:01", mtu, queues),
        End(b, f"eth{b_eth}", f"10.0.{number}.2/24", f"02:00:00:00:{number:02x}:02", mtu, queues),
    )


def _chain_routes(hosts: tuple[str, ...], links: tuple[LinkSpec, ...]) -> Iterator[Route]:
    for position, host in enumerate(hosts):
        for index, link in enumerate(links):
            if index > position:  # to the right, through the right-hand neighbour
                yield Route(host, link.a.network, links[position].b.ip)
            elif index < position - 1:  # to the left, through the left-hand neighbour
                yield Route(host, link.a.network, links[position - 1].a.ip)


def _check_count(n: int, what: str, least: int = 1) -> None:
    if isinstance(n, bool) or not isinstance(n, int) or not least <= n <= _MOST_LINKS:
        raise TopologyError(
            f"{n!r} {what} can't be built.",
            tried="to plan a topology",
            remedy=f"give a whole number from {least} to {_MOST_LINKS}",
        )


def check_name(name: object, what: str) -> None:
    """Raise TopologyError unless ``name`` can name a host or an interface (letters first, 15 bytes at most)."""
    if not isinstance(name, str) or not _NAME.match(name) or len(name) > _LONGEST_NAME:
        raise TopologyError(
            f"{name!r} can't be the name of {what}.",
            tried="to plan a topology",
            remedy=f"use 1 to {_LONGEST_NAME} letters, digits, '-', '_' or '.', with a letter first",
        )


def _check_hosts(hosts: tuple[str, ...]) -> None:
    if not hosts:
        raise TopologyError("A topology needs at least one host.", tried="to plan a topology")
    for host in hosts:
        check_name(host, "a host")
    for host in hosts:
        if hosts.count(host) > 1:
            raise TopologyError(
                f"Two hosts are called {host!r}.", tried="to plan a topology", remedy="give each host its own name"
            )


def _check_kinds(topology: Topology) -> None:
    """Raise TopologyError unless each field holds what it should: a list is taken for a tuple, a text for neither."""
    kinds = {"hosts": str, "links": LinkSpec, "routes": Route, "forwarders": str}
    for name, kind in kinds.items():
        given = getattr(topology, name)
        if not isinstance(given, (tuple, list, set, frozenset)):
            raise _unfit(f"{given!r} can't be the {name} of a topology", f"give several in brackets, as {name}=(…,)")
        for each in given:
            if name != "hosts" and not isinstance(each, kind):
                raise _unfit(f"{each!r} can't be among the {name} of a topology", f"give a {kind.__name__}")
        object.__setattr__(topology, name, frozenset(given) if name == "forwarders" else tuple(given))
    for link in topology.links:
        for end in link.ends:
            if not isinstance(end, End):
                raise _unfit(f"{end!r} can't be the end of a link", "give an End")


def _check_member(host: object, hosts: tuple[str, ...], what: str) -> None:
    if host not in hosts:
        raise _unfit(f"{what} a host that the topology doesn't have: {host!r}", "hosts are " + ", ".join(hosts))


def _check_route(route: Route, hosts: tuple[str, ...]) -> None:
    _check_member(route.host, hosts, "A route is for")
    try:
        if not isinstance(route.network, str) or not isinstance(route.via, str) or "/" not in route.network:
            raise ValueError("network and neighbour are texts")
        ipaddress.IPv4Network(route.network)
        ipaddress.IPv4Address(route.via)
    except ValueError as error:
        raise _unfit(
            f"{route.host} can't have a route to {route.network!r} via {route.via!r}: {error}",
            "write IPv4, as Route(host, '10.0.2.0/24', '10.0.1.2')",
        ) from error


def _unfit(message: str, remedy: str) -> TopologyError:
    return TopologyError(f"{message}.", tried="to plan a topology", remedy=remedy)


def _check_end(end: End, hosts: tuple[str, ...], taken: set[tuple[str, str]]) -> None:
    where = f"{end.host} {end.interface}"
    _check_member(end.host, hosts, f"The link end {where} is of")
    check_name(end.interface, "an interface")
    if end.interface == "lo" or (end.host, end.interface) in taken:
        raise TopologyError(
            f"The interface name {end.interface!r} is already taken on {end.host}.",
            tried="to plan a topology",
            remedy="give each interface of a host its own name",
        )
    _check_address(end, where)
    for value, allowed, unit in ((end.mtu, _MTU_RANGE, "MTU"), (end.queues, _QUEUE_RANGE, "number of queues")):
        if isinstance(value, bool) or not isinstance(value, int) or value not in allowed:
            raise TopologyError(
                f"{value!r} can't be the {unit} of {where}.",
                tried="to plan a topology",
                remedy=f"use {allowed.start} to {allowed.stop - 1}",
            )


def _check_address(end: End, where: str) -> None:
    try:
        if not isinstance(end.address, str):
            raise ValueError("not a text")
        address = ipaddress.ip_interface(end.address)
        if address.version != 4 or "/" not in end.address:
            raise ValueError("no prefix length" if address.version == 4 else "not IPv4")
    except ValueError as error:
        raise TopologyError(
            f"{end.address!r} can't be the address of {where}: {error}.",
            tried="to plan a topology",
            remedy="write IPv4 with its prefix length, as 10.0.1.1/24",
        ) from error
    if not isinstance(end.mac, str) or not _MAC.match(end.mac) or end.mac == _NO_MAC:
        raise _unfit(
            f"{end.mac!r} can't be the MAC address of {where}",
            "write six bytes in lower-case hexadecimal, the first one even (odd is for groups), as 02:00:00:00:01:01",
        )
