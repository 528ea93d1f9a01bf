"""Topologies are data: what can be planned without a kernel."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labkit.errors import TopologyError
from labkit.topology import End, LinkSpec, Route, Topology


def test_pair_is_two_hosts_and_one_link() -> None:
    topology = Topology.pair()
    assert topology.hosts == ("client", "server")
    assert [(e.host, e.interface, e.address) for e in topology.ends()] == [
        ("client", "eth0", "10.0.1.1/24"),
        ("server", "eth0", "10.0.1.2/24"),
    ]


def test_router_forwards_between_two_networks() -> None:
    topology = Topology.router()
    assert topology.forwarders == {"router"}
    assert {(r.host, r.network, r.via) for r in topology.routes} == {
        ("client", "10.0.2.0/24", "10.0.1.2"),
        ("server", "10.0.1.0/24", "10.0.2.1"),
    }


@given(st.integers(2, 20))
def test_every_host_of_a_chain_has_a_route_to_every_network(n: int) -> None:
    topology = Topology.chain(n)
    networks = {end.network for end in topology.ends()}
    for host in topology.hosts:
        direct = {end.network for end in topology.ends_of(host)}
        routed = {route.network for route in topology.routes if route.host == host}
        assert direct | routed == networks
        assert not direct & routed
        neighbours = {
            far.ip for link in topology.links for near, far in (link.ends, link.ends[::-1]) if near.host == host
        }
        assert {route.via for route in topology.routes if route.host == host} <= neighbours


@given(st.integers(1, 100))
def test_addresses_and_macs_are_unique(n: int) -> None:
    ends = list(Topology.fanout(n).ends())
    assert len({end.address for end in ends}) == len({end.mac for end in ends}) == 2 * n


@pytest.mark.parametrize("n", [0, -1, 201, 1.5, True, None, "3"])
def test_a_count_that_makes_no_sense_is_refused(n: object) -> None:
    with pytest.raises(TopologyError, match="whole number from 1 to 200"):
        Topology.fanout(n)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["", "a-name-too-long1", "1st", "sla/sh", "spa ce", "ümlaut", None, 5])
def test_names_the_kernel_would_not_take_are_refused(name: object) -> None:
    with pytest.raises(TopologyError, match="1 to 15 letters"):
        Topology((name,))  # type: ignore[arg-type]


def test_a_busy_name_is_refused() -> None:
    end = End("a", "eth0", "10.0.1.1/24", "02:00:00:00:01:01")
    other = End("b", "eth0", "10.0.1.2/24", "02:00:00:00:01:02")
    third = End("b", "eth1", "10.0.2.2/24", "02:00:00:00:02:02")
    with pytest.raises(TopologyError, match="'eth0' is already taken on a"):
        Topology(("a", "b"), (LinkSpec(end, other), LinkSpec(end, third)))
    with pytest.raises(TopologyError, match="Two hosts are called 'a'"):
        Topology(("a", "a"))


@pytest.mark.parametrize("address", ["10.0.1.1", "10.0.1.300/24", "fe80::1/64", "nonsense", ""])
def test_addresses_need_a_prefix_length_and_ipv4(address: str) -> None:
    with pytest.raises(TopologyError, match="write IPv4 with its prefix length"):
        Topology(
            ("a", "b"),
            (
                LinkSpec(
                    End("a", "eth0", address, "02:00:00:00:01:01"),
                    End("b", "eth0", "10.0.1.2/24", "02:00:00:00:01:02"),
                ),
            ),
        )


@pytest.mark.parametrize(
    ("field", "value"), [("mtu", 67), ("mtu", 65536), ("mtu", True), ("queues", 0), ("queues", -1)]
)
def test_sizes_out_of_range_are_refused(field: str, value: int) -> None:
    with pytest.raises(TopologyError, match="use "):
        Topology.pair(**{field: value})


def test_with_mtu_changes_every_end() -> None:
    assert {end.mtu for end in Topology.router().with_mtu(9000).ends()} == {9000}


NEAR = End("a", "eth0", "10.0.1.1/24", "02:00:00:00:01:01")
FAR = End("b", "eth0", "10.0.1.2/24", "02:00:00:00:01:02")
RUBBISH: list[Any] = [None, 5, "ab", object(), [None], [5], [[]], [{}], {"a": 1}]


@pytest.mark.parametrize("value", RUBBISH, ids=repr)
@pytest.mark.parametrize("field", ["hosts", "links", "routes", "forwarders"])
def test_fields_of_another_kind_are_refused(field: str, value: Any) -> None:
    given: dict[str, Any] = {"hosts": ("a", "b"), "links": (LinkSpec(NEAR, FAR),), field: value}
    with pytest.raises(TopologyError) as caught:
        Topology(**given)
    assert caught.value.remedy


def test_lists_are_taken_for_tuples() -> None:
    given: dict[str, Any] = {"hosts": ["a", "b"], "links": [LinkSpec(NEAR, FAR)], "forwarders": ["a"]}
    topology = Topology(**given)
    assert topology == Topology(("a", "b"), (LinkSpec(NEAR, FAR),), (), frozenset({"a"}))
    assert hash(topology)


@pytest.mark.parametrize("value", [None, 5, b"x", [], {}, 1.5, object()], ids=repr)
@pytest.mark.parametrize("field", [f.name for f in fields(End)])
def test_ends_of_another_kind_are_refused(field: str, value: Any) -> None:
    if (field, value) == ("queues", 5):
        return
    changed: Any = {field: value}
    with pytest.raises(TopologyError) as caught:
        Topology(("a", "b"), (LinkSpec(replace(NEAR, **changed), FAR),))
    assert caught.value.remedy
    other: Any = value
    with pytest.raises(TopologyError, match="the end of a link"):
        Topology(("a", "b"), (LinkSpec(other, FAR),))


@pytest.mark.parametrize(
    "mac", ["", "02:00:00:00:01", "02-00-00-00-01-01", "0A:00:00:00:01:01", "01:00:00:00:00:01", "00:00:00:00:00:00"]
)
def test_a_mac_the_kernel_would_not_take_is_refused(mac: str) -> None:
    with pytest.raises(TopologyError, match=r"MAC address of a eth0[\s\S]*02:00:00:00:01:01"):
        Topology(("a", "b"), (LinkSpec(replace(NEAR, mac=mac), FAR),))


@pytest.mark.parametrize(
    "route",
    [
        Route("c", "10.0.2.0/24", "10.0.1.2"),
        Route("a", "10.0.2.0", "10.0.1.2"),
        Route("a", "10.0.2.1/24", "10.0.1.2"),
        Route("a", "10.0.2.0/24", "router"),
        Route("a", "fe80::/64", "fe80::1"),
        Route("a", None, 5),  # type: ignore[arg-type]
        Route([], "10.0.2.0/24", "10.0.1.2"),  # type: ignore[arg-type]
    ],
)
def test_a_route_that_leads_nowhere_is_refused(route: Route) -> None:
    with pytest.raises(TopologyError) as caught:
        Topology(("a", "b"), (LinkSpec(NEAR, FAR),), (route,))
    assert caught.value.remedy
