"""Protocol counters of a network namespace (the SNMP tables of /proc/net), by the kernel's names."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

__all__ = ["read_protocols", "read_reassembling", "read_waiting_bytes"]

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


def read_waiting_bytes() -> dict[int, int]:
    """Bytes of memory that wait in the UDP sockets of the calling thread's namespace, by local port (/proc/net/udp)."""
    found: Counter[int] = Counter()
    for line in Path("/proc/thread-self/net/udp").read_text().splitlines()[1:]:
        fields = line.split()
        found[int(fields[1].rpartition(":")[2], 16)] += int(fields[4].rpartition(":")[2], 16)
    return dict(found)


def read_reassembling() -> int:
    """IPv4 datagrams of the calling thread's namespace of which fragments wait for the rest (/proc/net/sockstat)."""
    for line in Path("/proc/thread-self/net/sockstat").read_text().splitlines():
        if line.startswith("FRAG:"):
            return int(line.split()[2])
    return 0
