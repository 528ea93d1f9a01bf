"""Checks of what a caller asks of traffic: each raises a TrafficError that says what was given and what is wanted."""

from __future__ import annotations

from typing import Any

from labkit.errors import TrafficError
from labkit.host import Host
from labkit.interface import Interface

__all__ = ["MOST_PACKETS", "check_host", "check_interface", "check_number", "check_port", "check_whole"]

MOST_PACKETS = 1_000_000_000


def check_whole(name: str, value: Any, low: int, high: int, tried: str) -> int:
    """``value`` where it is a whole number from ``low`` to ``high``; True and False are not numbers here."""
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise TrafficError(
            f"{name} can't be {value!r}.", tried=tried, remedy=f"give a whole number from {low} to {high:,}"
        )
    return value


def check_number(name: str, value: Any, tried: str) -> float:
    """``value`` where it is a finite number above 0."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < 1e12:
        raise TrafficError(f"{name} can't be {value!r}.", tried=tried, remedy="give a number above 0")
    return float(value)


def check_port(name: str, value: Any, tried: str, *, low: int = 1) -> int:
    """``value`` where it can be a UDP or TCP port."""
    return check_whole(name, value, low, 65535, tried)


def check_host(value: Any, tried: str) -> Host:
    """``value`` where it is a host."""
    if not isinstance(value, Host):
        raise TrafficError(f"{value!r} is not a host.", tried=tried, remedy='give one of the lab, as in lab["client"]')
    return value


def check_interface(value: Any, tried: str) -> Interface:
    """``value`` where it is an interface."""
    if not isinstance(value, Interface):
        raise TrafficError(
            f"{value!r} is not an interface.", tried=tried, remedy='give one of the lab, as in lab["client"]["eth0"]'
        )
    return value
