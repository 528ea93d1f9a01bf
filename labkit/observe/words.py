"""The ledger's words: what each loss is called, which colour role it has, and what to say of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["Role", "Words", "words_of"]

Role = Literal["pass", "drop", "abort", "redirect", "tx", "muted"]


@dataclass(frozen=True)
class Words:
    """``name`` in a table, ``role`` for its colour (never the only sign), ``explains`` in one sentence."""

    name: str
    role: Role
    explains: str


_LOSSES = {
    "XDP_DROP": Words(
        "dropped by the program", "drop", "The program returned XDP_DROP: the frame's page was recycled at once."
    ),
    "XDP_ABORTED": Words(
        "aborted by the program",
        "abort",
        "The program returned XDP_ABORTED (0), or a redirect map had no entry for its key.",
    ),
    "unknown verdict": Words(
        "unknown return code",
        "abort",
        "The program returned a number that is no XDP action: the kernel drops and warns.",
    ),
    "XDP drop (driver)": Words(
        "dropped in XDP",
        "drop",
        "The driver counts XDP_DROP, XDP_ABORTED and unknown codes together; the program keeps no count.",
    ),
    "XDP drop (generic)": Words(
        "dropped in XDP", "drop", "A program in generic mode dropped it, and keeps no count of its own."
    ),
    "XDP_TX refused": Words(
        "XDP_TX refused",
        "tx",
        "The driver could not send it back. Why, a tracing program would tell: the peer is down or has no receive ring "
        "(give it a native program, or GRO), or its ring was full.",
    ),
    "XDP_TX ring full": Words(
        "sent back, receive ring full",
        "tx",
        "XDP_TX found no place in the peer's ring of 256 frames (send slower), or the frame is longer than the peer's MTU.",
    ),
    "ring full": Words("receive ring full", "drop", "The peer's ring of 256 frames had no place."),
    "copied by broadcast": Words(
        "copied by broadcast",
        "redirect",
        "A redirect to every slot of a device map made them: one packet in, one for each slot out, and the sender sent one.",
    ),
    "broadcast to nobody": Words(
        "broadcast to nobody",
        "redirect",
        "No slot of the device map could take it: it is empty but for the way the packet came, or no peer there takes "
        "redirected frames (give them a native program, or GRO). The kernel tells no error.",
    ),
    "devmap XDP_DROP": Words(
        "dropped by the egress program",
        "drop",
        "The program in the device map's slot returned XDP_DROP on the way out.",
    ),
    "devmap XDP_ABORTED": Words(
        "aborted by the egress program", "abort", "The program in the device map's slot returned XDP_ABORTED (0)."
    ),
    "devmap unknown verdict": Words(
        "wrong verdict of the egress program",
        "abort",
        "On the way out there are only XDP_PASS and XDP_DROP: the kernel dropped what XDP_TX, XDP_REDIRECT or another "
        "number was returned for.",
    ),
    "devmap drop": Words(
        "dropped by the egress program",
        "drop",
        "It went to a device map and never reached the driver: the program in the slot dropped it, and keeps no count.",
    ),
    "cpumap XDP_DROP": Words(
        "dropped by the program on the CPU", "drop", "The program in the CPU map's slot returned XDP_DROP."
    ),
    "cpumap XDP_ABORTED": Words(
        "aborted by the program on the CPU",
        "abort",
        "The program in the CPU map's slot returned XDP_ABORTED (0), or a redirect map had no entry for its key.",
    ),
    "cpumap unknown verdict": Words(
        "wrong verdict of the program on the CPU",
        "abort",
        "In a CPU map's slot there are XDP_PASS, XDP_DROP and XDP_REDIRECT: the kernel dropped what XDP_TX or another number "
        "was returned for.",
    ),
    "cpumap drop": Words(
        "dropped by the program on the CPU", "drop", "The program in the CPU map's slot dropped it, and keeps no count."
    ),
    "cpumap queue full": Words(
        "the CPU's queue was full",
        "drop",
        "The CPU's thread took packets out slower than they came: give its slot a longer queue, or use more CPUs.",
    ),
    "cpumap ENOMEM": Words("no memory on the CPU", "abort", "The kernel had no memory for an skb."),
    "xsk rx_ring_full": Words(
        "the socket's receive ring was full",
        "drop",
        "The program takes packets out slower than they come, or not at all: rx_ring_full.",
    ),
    "xsk rx_fill_ring_empty_descs": Words(
        "fill ring empty",
        "drop",
        "The kernel found no empty frame to copy the packet into: give frames back to the fill ring sooner, or use more "
        "(rx_dropped and rx_fill_ring_empty_descs).",
    ),
    "xsk rx_dropped": Words(
        "too long for a frame of the memory",
        "abort",
        "The packet is longer than a frame of the AF_XDP memory has room for: use frames of 4096 bytes, or less headroom "
        "(rx_dropped).",
    ),
    "xsk tx_invalid_descs": Words(
        "invalid descriptor",
        "abort",
        "The transmit ring named something that is no piece of one frame of the memory: the kernel takes it out, and tells "
        "nobody but this counter (tx_invalid_descs).",
    ),
    "rx drops (driver)": Words(
        "dropped by the driver",
        "abort",
        "The driver had no memory for an skb, or no room to send it back; or a redirect failed that nobody watched.",
    ),
    "NO_SOCKET": Words("no socket on the port", "drop", "Nobody had opened the destination port."),
    "SOCKET_RCVBUFF": Words(
        "socket buffer full", "abort", "The socket's receive buffer was full: its reader is too slow, or absent."
    ),
    "SOCKET_CLOSE": Words(
        "thrown away with its socket", "abort", "It waited in a socket that was closed before anyone read it."
    ),
    "OTHERHOST": Words("not for this host", "drop", "The destination MAC address is not this interface's."),
    "NETFILTER_DROP": Words("dropped by a firewall rule", "drop", "An nftables or iptables rule dropped it."),
    "TC_INGRESS": Words("dropped by TC", "drop", "A classifier at TC ingress dropped it."),
    "FRAG_REASM_TIMEOUT": Words("fragments without the rest", "abort", "Some fragments of the datagram never came."),
    "UDP_CSUM": Words(
        "UDP checksum wrong", "abort", "The UDP checksum does not match: was it left to hardware that isn't there?"
    ),
    "TCP_CSUM": Words(
        "TCP checksum wrong", "abort", "The TCP checksum does not match: was it left to hardware that isn't there?"
    ),
    "ICMP_CSUM": Words("ICMP checksum wrong", "abort", "The ICMP checksum does not match."),
    "IP_CSUM": Words("IP checksum wrong", "abort", "The IPv4 header checksum does not match."),
    "IP_INHDR": Words("IP header wrong", "abort", "The IPv4 header is malformed."),
    "PKT_TOO_SMALL": Words("packet too small", "abort", "The packet is shorter than its headers say."),
    "UNHANDLED_PROTO": Words("no handler for its type", "drop", "The kernel has no handler for this Ethernet type."),
    "IPV6DISABLED": Words(
        "IPv6 is off", "drop", "The lab turns IPv6 off, so that its own messages don't mix with yours."
    ),
    "SOCKET_FILTER": Words("refused by a socket filter", "drop", "A filter attached to the socket dropped it."),
    "UdpInErrors": Words(
        "refused by UDP",
        "abort",
        "UDP counted an error and no reason: the datagram is shorter than its header says, or a socket's filter refused it.",
    ),
    "TcpInErrs": Words(
        "refused by TCP", "abort", "TCP counted an error and no reason: most likely a malformed header."
    ),
    "redirect refused": Words(
        "redirect refused",
        "redirect",
        "The kernel handed it to no driver. Why, a tracing program would tell: the peer can't take redirected frames, the "
        "interface is down, or the frame is too long.",
    ),
    "NOT_SPECIFIED": Words("dropped, no reason given", "abort", "The kernel freed it without naming a reason."),
}


_REFUSALS = {
    "EOPNOTSUPP": "The peer can't take redirected frames: a veth wants a native program or GRO there.",
    "ENETDOWN": "The interface to send from is down: bring it up.",
    "EMSGSIZE": "The frame is longer than the MTU of the interface to send from allows: raise that, or send shorter frames.",
    "ENXIO": "The peer is down, or has no receive ring: it wants a native program or GRO. (Or an AF_XDP socket isn't bound.)",
    "EINVAL": "There is no interface of that index in the namespace where the packet was received. (Or the AF_XDP socket in "
    "the slot is bound to another interface or queue.)",
    "ENOSPC": "The CPU's queue was full: give its slot a longer one.",
    "ENOBUFS": "The AF_XDP socket's receive ring was full.",
    "ENOMEM": "The AF_XDP socket's fill ring was empty.",
    "EOVERFLOW": "The program left no room before the packet for the kernel's own notes.",
}


def words_of(key: str) -> Words:
    """The words for a loss; the kernel's own word in lower case where there are none."""
    if key in _LOSSES:
        return _LOSSES[key]
    if key.startswith("ring full or "):
        return _not_in_the_ring(key.split(" or ")[1:])
    kind, _, word = key.partition(" ")
    if kind == "XDP_TX":
        return Words(f"sent back in vain ({word})", "tx", _REFUSALS.get(word, f"The kernel's word is {word}."))
    if kind == "redirect":
        return Words(f"redirect refused ({word})", "redirect", _REFUSALS.get(word, f"The kernel's word is {word}."))
    return Words(key.lower().replace("_", " "), "drop", f"The kernel's drop reason is {key}.")


_NOT_IN_THE_RING = {
    "EMSGSIZE": ("frame too long", "its MTU is lower than here (set both ends of the link to one MTU)"),
    "peer down": ("peer down", "it is down (bring it up)"),
}


def _not_in_the_ring(others: list[str]) -> Words:
    """For a loss between two drivers where the state of the link allows more causes than a full ring."""
    names, causes = zip(*(_NOT_IN_THE_RING[other] for other in others), strict=True)
    return Words(
        " or ".join(["receive ring full", *names]),
        "drop",
        f"The peer's ring of 256 frames had no place, or {', or '.join(causes)}.",
    )
