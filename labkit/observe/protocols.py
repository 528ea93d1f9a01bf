"""Protocol counters of a network namespace (the SNMP tables of /proc/net), by the kernel's names."""

from __future__ import annotations

from pathlib import Path

__all__ = ["read_protocols"]

_TABLES = (Path("/proc/thread-self/net/snmp"), Path("/proc/thread-self/net/netstat"))


def read_protocols() -> dict[str, int]:
    """Counters of the calling thread's namespace as ``UdpInDatagrams`` → packets since the namespace was made.

    Sources: net/ipv4/proc.c. Each table has a line of names and a line of values.
    """
    found: dict[str, int] = {}
    for table in _TABLES:
        lines = table.read_text().splitlines()
        for names, values in zip(lines[::2], lines[1::2], strict=False):
            protocol, _, keys = names.partition(":")
            _, _, numbers = values.partition(":")
            found.update(
                (protocol + key, int(number)) for key, number in zip(keys.split(), numbers.split(), strict=False)
            )
    return found
