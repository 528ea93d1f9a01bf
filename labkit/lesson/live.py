"""Live tables for a lesson, drawn by the widget layer only where they are asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from labkit.lab import Lab
from labkit.program.map import Map

if TYPE_CHECKING:
    from labkit.widgets.rates import MapRates

__all__ = ["PROTOCOLS", "live_rates"]

# include/uapi/linux/in.h
PROTOCOLS = {
    1: "ICMP (1)",
    2: "IGMP (2)",
    6: "TCP (6)",
    17: "UDP (17)",
    47: "GRE (47)",
    58: "ICMPv6 (58)",
    132: "SCTP (132)",
}


def live_rates(lab: Lab, counters: Map, *, kept: Map | None = None, unit: str = "drops") -> MapRates:
    """A table of a map of counters by IP protocol, kept up to date: protocol, packets, drops a second.

    ``kept`` is the map of protocols that the program lets through (not 0), so that they aren't called drops.
    """
    from labkit.widgets.rates import MapRates

    return MapRates(lab, counters, PROTOCOLS, kept=kept, unit=unit)
