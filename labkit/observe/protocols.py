"""Protocol counters of a network namespace (the SNMP tables of /proc/net), by the kernel's names."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cache
from pathlib import Path

__all__ = ["SocketUse", "read_protocols", "read_socket_use", "read_waiting_bytes"]

_TABLES = (Path("/proc/thread-self/net/snmp"), Path("/proc/thread-self/net/netstat"))
# The ledger needs no more, and TcpExt alone has more counters than all these together.
_WANTED = ("Ip:", "IpExt:", "Icmp:", "Tcp:", "Udp:")


@cache
def _names(line: str) -> tuple[str, ...]:
    protocol, _, names = line.partition(":")
    return tuple(protocol + name for name in names.split())


def read_protocols() -> dict[str, int]:
    """Counters of the calling thread's namespace as ``UdpInDatagrams`` → packets since the namespace was made.

    IPv4, ICMP, TCP and UDP. Sources: net/ipv4/proc.c. Each table has a line of names and a line of values.
    """
    found: dict[str, int] = {}
    for table in _TABLES:
        lines = table.read_text().splitlines()
        for names, values in zip(lines[::2], lines[1::2], strict=False):
            if names.startswith(_WANTED):
                found.update(zip(_names(names), map(int, values.split()[1:]), strict=False))
    return found


@dataclass(frozen=True)
class SocketUse:
    """``udp``: UDP sockets of the namespace; ``reassembling``: IPv4 datagrams of which fragments wait for the rest."""

    udp: int
    reassembling: int


def read_socket_use() -> SocketUse:
    """What /proc/net/sockstat says of the calling thread's namespace (net/ipv4/proc.c)."""
    words = Path("/proc/thread-self/net/sockstat").read_text().split()
    return SocketUse(int(words[words.index("UDP:") + 2]), int(words[words.index("FRAG:") + 2]))


def read_waiting_bytes() -> dict[int, int]:
    """Bytes of memory that wait in the UDP sockets of the calling thread's namespace, by local port (/proc/net/udp)."""
    found: Counter[int] = Counter()
    for line in Path("/proc/thread-self/net/udp").read_text().splitlines()[1:]:
        fields = line.split()
        found[int(fields[1].rpartition(":")[2], 16)] += int(fields[4].rpartition(":")[2], 16)
    return dict(found)
