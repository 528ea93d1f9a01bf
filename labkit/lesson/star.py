"""A host in the middle and others around it, by the names of a lesson's story."""

from __future__ import annotations

from dataclasses import replace

from labkit.topology import LinkSpec, Topology

__all__ = ["star"]


def star(middle: str, *ends: str) -> Topology:
    """``middle`` with a link of its own to each of ``ends``: its eth0, eth1 …, addresses as in ``Topology.fanout``.

    Nobody forwards: what is to go from end to end, a program in the middle must send on. Raises TopologyError.
    """
    plan = Topology.fanout(len(ends))
    names = dict(zip(plan.hosts, (middle, *ends), strict=True))
    links = tuple(
        LinkSpec(replace(link.a, host=names[link.a.host]), replace(link.b, host=names[link.b.host]))
        for link in plan.links
    )
    return Topology((middle, *ends), links, shape="fanout")
