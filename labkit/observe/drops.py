"""Kernel drop reasons: a raw tracepoint on kfree_skb counts what the stack of a lab's hosts throws away, and why.

It runs only where a packet is lost, never on a packet's way to success. The tracepoint is global to the machine: only
namespaces of the lab are counted, told apart by inode.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cache

from labkit.kernel.btf import kernel_btf
from labkit.observe.tracepoint import TracepointCounter

__all__ = ["MALFORMED", "UNNAMED", "DropKey", "DropWatch", "reason_name"]

MALFORMED = 256  # bpf/lab/drop_reasons.c: no IPv4 header at all

UNNAMED = ("NOT_SPECIFIED", "XDP")  # where the kernel gives no reason; for drops of generic XDP, by kernel

# Where the fields are that the program reads: struct, then members.
_OFFSETS = {
    "skb_dev": ("sk_buff", "dev"),
    "skb_sk": ("sk_buff", "sk"),
    "skb_iif": ("sk_buff", "skb_iif"),
    "skb_head": ("sk_buff", "head"),
    "skb_data": ("sk_buff", "data"),
    "skb_len": ("sk_buff", "len"),
    "skb_protocol": ("sk_buff", "protocol"),
    "skb_network_header": ("sk_buff", "network_header"),
    "dev_net": ("net_device", "nd_net"),
    "dev_ifindex": ("net_device", "ifindex"),
    "sock_net": ("sock", "__sk_common", "skc_net"),
    "net_inum": ("net", "ns", "inum"),
}


@dataclass(frozen=True)
class DropKey:
    """Where and why the stack dropped a packet.

    ``netns`` inode of the namespace; ``ifindex`` the interface it was received on, 0 where it isn't known; ``reason``
    the kernel's word of ``enum skb_drop_reason``, as ``NO_SOCKET``; ``ethertype`` in host order; ``protocol`` of the IPv4
    header, MALFORMED where there is none, 0 for others; ``transport`` whether the packet had got past IP to a transport
    protocol; ``leaving`` whether it was on its way out of another interface.
    """

    netns: int
    ifindex: int
    reason: str
    ethertype: int
    protocol: int
    transport: bool
    leaving: bool = False


class DropWatch:
    """Counts dropped packets of the namespaces given; raises LabError where the kernel refuses the probe."""

    def __init__(self, namespaces: Iterable[int]) -> None:
        self._counter = TracepointCounter("kfree_skb", "drop_reasons.c", "count_drop", _OFFSETS, namespaces)

    def read(self) -> dict[DropKey, int]:
        """Packets dropped since the watch began."""
        return {
            DropKey(netns, ifindex, reason_name(reason), ethertype, protocol, bool(transport), bool(leaving)): count
            for (netns, ifindex, reason, ethertype, protocol, transport, leaving), count in self._counter.map("drops")
            .read()
            .items()
        }

    def paused(self) -> AbstractContextManager[None]:
        """No counting while it lasts, and no cost."""
        return self._counter.paused()

    def close(self) -> None:
        """Detach. Safe to call again."""
        self._counter.close()


@cache
def _reasons() -> dict[int, str]:
    try:
        return kernel_btf().enum("skb_drop_reason")
    except (KeyError, OSError):
        return {}


def reason_name(reason: int) -> str:
    """The kernel's word for a drop reason, as ``NO_SOCKET``."""
    word = _reasons().get(reason, f"reason {reason}")
    return word.removeprefix("SKB_DROP_REASON_").removeprefix("SKB_")
