"""Losses inside the stack by the kernel's own counters, for where no probe may watch the stack.

A counter has a place here if each of its steps is one packet lost, and for one of the kernel's drop reasons: the ledger
then reads as it does with the probe. Nothing is guessed: what no counter tells (as a generic XDP program, or a firewall
rule, that keeps no count) stays unaccounted. Sources: net/ipv4/{ip_input,ip_forward,route,udp}.c,
net/ipv4/tcp_ipv4.c, net/ipv6/ip6_input.c, net/core/dev.c.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeVar

from labkit.observe.drops import MALFORMED, DropKey
from labkit.observe.sample import HostCounters

if TYPE_CHECKING:
    from labkit.observe.interface_change import InterfaceChange

__all__ = ["counted_drops", "gained", "unhandled"]

K = TypeVar("K")
_ETH_P_IP, _ETH_P_IPV6 = 0x0800, 0x86DD  # include/uapi/linux/if_ether.h
_ICMP, _TCP, _UDP = 1, 6, 17  # include/uapi/linux/in.h

# Counter → drop reason, before a transport protocol had the packet.
_IP = {
    "IpExtInCsumErrors": "IP_CSUM",
    "IpExtInTruncatedPkts": "PKT_TOO_SMALL",
    "IpInAddrErrors": "IP_INADDRERRORS",
    "IpExtInNoRoutes": "IP_INNOROUTES",
    "TcpExtIPReversePathFilter": "IP_RPFILTER",
    "IpReasmTimeout": "FRAG_REASM_TIMEOUT",  # once for a datagram: of its fragments, the first
}
# Counter → drop reason, and the transport protocol that dropped it.
_TRANSPORT = {
    "IpInUnknownProtos": ("IP_NOPROTO", 0),
    "UdpNoPorts": ("NO_SOCKET", _UDP),
    "UdpInCsumErrors": ("UDP_CSUM", _UDP),
    "UdpRcvbufErrors": ("SOCKET_RCVBUFF", _UDP),
    "UdpMemErrors": ("PROTO_MEM", _UDP),
    "TcpInCsumErrors": ("TCP_CSUM", _TCP),
    "IcmpInCsumErrors": ("ICMP_CSUM", _ICMP),
}


def gained(after: Mapping[K, int], before: Mapping[K, int]) -> dict[K, int]:
    """after − before, for every key of ``after``."""
    return {key: value - before.get(key, 0) for key, value in after.items()}


def counted_drops(
    before: HostCounters, after: HostCounters, unknown_types: Mapping[int, int], others: Mapping[int, int]
) -> Counter[DropKey]:
    """What a host's stack dropped between two readings, as far as its counters tell.

    ``unknown_types`` and ``others``: by ifindex, frames of an Ethernet type without a handler, and for other hosts.
    Protocol counters are of the host: with more than one interface it isn't known where a packet came in (ifindex 0).
    """
    gain = Counter(gained(after.protocols, before.protocols))
    [where] = unknown_types if len(unknown_types) == 1 else [0]
    found: Counter[DropKey] = Counter()

    def add(reason: str, count: int, protocol: int = 0, *, transport: bool = False, ethertype: int = _ETH_P_IP) -> None:
        if count > 0:
            found[DropKey(after.netns, where, reason, ethertype, protocol, transport)] += count

    for counter, reason in _IP.items():
        add(reason, gain[counter])
    for counter, (reason, protocol) in _TRANSPORT.items():
        add(reason, gain[counter], protocol, transport=True)
    malformed = _malformed(gain)
    add("IP_INHDR", malformed, MALFORMED)
    add("IP_INHDR", gain["IpInHdrErrors"] - gain["IpExtInCsumErrors"] - malformed)
    add("PKT_TOO_BIG", min(gain["IpFragFails"], gain["IpForwDatagrams"]))  # of its own packets none was sent
    add(
        "UdpInErrors",
        gain["UdpInErrors"] - sum(gain[f"Udp{x}Errors"] for x in ("InCsum", "Rcvbuf", "Mem")),
        _UDP,
        transport=True,
    )
    add("TcpInErrs", gain["TcpInErrs"] - gain["TcpInCsumErrors"], _TCP, transport=True)
    if before.tcp_sockets == after.tcp_sockets == 0:
        add("NO_SOCKET", _segments_without_socket(gain), _TCP, transport=True)
    add("NETFILTER_DROP", after.firewall - before.firewall)
    if before.ipv6_off and after.ipv6_off:
        add("IPV6DISABLED", gain["Ip6InDiscards"], ethertype=_ETH_P_IPV6)
    for reason, by_ifindex in (("UNHANDLED_PROTO", unknown_types), ("OTHERHOST", others)):
        for ifindex, count in by_ifindex.items():
            found[DropKey(after.netns, ifindex, reason, 0, 0, False)] += count
    return +found


def _malformed(gain: Mapping[str, int]) -> int:
    """Of the wrong headers those that are no IPv4 header: IP looks at the ECN bits of all others, and counts these.

    Packets that GRO merged count there one by one, and may hide some.
    """
    with_header = sum(gain[f"IpExtIn{kind}Pkts"] for kind in ("NoECT", "ECT0", "ECT1", "CE"))
    return max(0, min(gain["IpInReceives"] - with_header, gain["IpInHdrErrors"] - gain["IpExtInCsumErrors"]))


def _segments_without_socket(gain: Mapping[str, int]) -> int:
    """TCP segments that found no socket, on a host that has none: it opened no connection, and sent nothing but resets."""
    opened = gain["TcpActiveOpens"] + gain["TcpPassiveOpens"]
    if opened or gain["TcpOutSegs"] != gain["TcpOutRsts"]:
        return 0
    return gain["TcpInSegs"] - gain["TcpInErrs"]


def unhandled(interface: InterfaceChange, peer: InterfaceChange) -> int:
    """Frames of an Ethernet type that has no handler: rx_dropped less what the driver counts there, too.

    The driver's part is failed redirects, what met a full ring, and what a peer's XDP_TX could not send. A peer without
    a receive ring may have overrun the backlog: its sender counts that as well, so as much is not told.
    """
    driver = interface.rx_drops + peer.driver_xmit_errors + peer.xdp_tx_errors
    return max(0, interface.rx_dropped - driver - max(0, peer.unsent))
