"""Topologies are data: what can be planned without a kernel."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labkit.errors import TopologyError
from labkit.topology import End, LinkSpec, Topology


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
