"""Protocol counters of a network namespace (the SNMP tables of /proc/net), by the kernel's names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

__all__ = ["SocketUse", "ipv6_is_off", "read_protocols", "read_socket_use", "read_waiting_bytes"]

_NET = Path("/proc/thread-self/net")
_TABLES = (_NET / "snmp", _NET / "netstat")
# The ledger needs no more, and TcpExt alone has more counters than all these together.
_WANTED = ("Ip:", "IpExt:", "Icmp:", "Tcp:", "Udp:")
_OF_LOSSES = ("TcpExt:",)


@cache
def _names(line: str) -> tuple[str, ...]:
    protocol, _, names = line.partition(":")
    return tuple(protocol + name for name in names.split())


def read_protocols(*, losses: bool = False) -> dict[str, int]:
    """Counters of the calling thread's namespace as ``UdpInDatagrams`` → packets since the namespace was made.

    IPv4, ICMP, TCP and UDP; with ``losses`` also TcpExt and IPv6. Sources: net/ipv4/proc.c, where each table has a line of
    names and a line of values, and net/ipv6/proc.c.
    """
    found: dict[str, int] = {}
    wanted = _WANTED + _OF_LOSSES if losses else _WANTED
    for table in _TABLES:
        lines = table.read_text().splitlines()
        for names, values in zip(lines[::2], lines[1::2], strict=False):
            if names.startswith(wanted):
                found.update(zip(_names(names), map(int, values.split()[1:]), strict=False))
    if losses and (words := _words("snmp6")):
        found.update(zip(words[::2], map(int, words[1::2]), strict=True))
    return found


def _words(name: str) -> list[str]:
    """A file of /proc/net; empty where this kernel has none, as without IPv6."""
    try:
        return (_NET / name).read_text().split()
    except FileNotFoundError:
        return []


@dataclass(frozen=True)
class SocketUse:
    """``udp`` and ``tcp``: sockets of the namespace that could take a packet of IPv4 (for TCP those in TIME_WAIT, too);
    ``reassembling``: IPv4 datagrams of which fragments wait for the rest.
    """

    udp: int
    tcp: int
    reassembling: int


def read_socket_use() -> SocketUse:
    """What /proc/net/sockstat says of the calling thread's namespace (net/ipv4/proc.c)."""
    words = [*_words("sockstat"), *_words("sockstat6")]

    def count(protocol: str, field: str = "inuse") -> int:
        return int(words[words.index(field, words.index(protocol)) + 1]) if protocol in words else 0

    tcp = count("TCP:") + count("TCP:", "tw") + count("TCP6:")
    return SocketUse(count("UDP:"), tcp, count("FRAG:"))


def ipv6_is_off(interfaces: Iterable[str]) -> bool:
    """Whether IPv6 is switched off at each of these interfaces of the calling thread's namespace, or isn't there at all."""
    switches = [Path(f"/proc/sys/net/ipv6/conf/{name}/disable_ipv6") for name in interfaces]
    return all(not switch.exists() or switch.read_text().strip() == "1" for switch in switches)


def read_waiting_bytes() -> dict[int, int]:
    """Bytes of memory that wait in the UDP sockets of the calling thread's namespace, by local port (/proc/net/udp)."""
    found: Counter[int] = Counter()
    for line in (_NET / "udp").read_text().splitlines()[1:]:
        fields = line.split()
        found[int(fields[1].rpartition(":")[2], 16)] += int(fields[4].rpartition(":")[2], 16)
    return dict(found)
