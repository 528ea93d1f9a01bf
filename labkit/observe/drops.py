"""Kernel drop reasons: a raw tracepoint on kfree_skb counts what the stack of a lab's hosts throws away, and why.

It runs only where a packet is lost, never on a packet's way to success. The tracepoint is global to the machine: only
namespaces of the lab are counted, told apart by inode.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import labkit
from labkit.compile import compile_source
from labkit.compile.diagnose import verifier_error
from labkit.errors import LabError
from labkit.kernel import bpf
from labkit.kernel.btf import kernel_btf
from labkit.program.program import Program, load_program
from labkit.uapi import ProgType

__all__ = ["DropKey", "DropWatch", "reason_name"]

_SOURCE = Path(labkit.__file__).resolve().parent.parent / "bpf" / "lab" / "drop_reasons.c"
_SUBSYSTEM = 16  # reasons above 16 bits belong to subsystems (mac80211, openvswitch): include/net/dropreason.h


@dataclass(frozen=True)
class DropKey:
    """Where and why the stack dropped a packet.

    ``netns`` inode of the namespace; ``ifindex`` the interface it was received on; ``reason`` a value of
    ``enum skb_drop_reason``; ``ethertype`` in host order; ``protocol`` of the IPv4 header, 0 for others; ``transport``
    whether the packet had got past IP to a transport protocol.
    """

    netns: int
    ifindex: int
    reason: int
    ethertype: int
    protocol: int
    transport: bool


class DropWatch:
    """Counts dropped packets of the namespaces given; raises LabError where the kernel refuses the probe."""

    def __init__(self, namespaces: list[int]) -> None:
        self._fd: int | None = None
        self._program: Program = load_program(
            compile_source(path=_SOURCE), "count_drop", explain=verifier_error, type=ProgType.RAW_TRACEPOINT
        )
        try:
            self._program.maps["offsets"][0] = _offsets()
            for inode in namespaces:
                self._program.maps["watched"][inode] = 1
            self._fd = bpf.raw_tracepoint_open("kfree_skb", self._program.fd)
        except (OSError, KeyError) as error:
            self._program.close()
            raise LabError(
                "The kernel's drop reasons can't be watched here.",
                tried="to attach to the tracepoint kfree_skb",
                errno=getattr(error, "errno", None),
                remedy="the ledger goes on without them, and says which rows it can't fill",
            ) from error

    def read(self) -> dict[DropKey, int]:
        """Packets dropped since the watch began."""
        return {
            DropKey(netns, ifindex, reason, ethertype, protocol, bool(transport)): count
            for (netns, ifindex, reason, ethertype, protocol, transport), count in self._program.maps["drops"]
            .read()
            .items()
        }

    def close(self) -> None:
        """Detach. Safe to call again."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None
        self._program.close()


def _offsets() -> dict[str, int]:
    """Where the fields are in this kernel's structures, in bytes, from its BTF."""
    at = kernel_btf().byte_offset
    return {
        "skb_dev": at("sk_buff", "dev"),
        "skb_sk": at("sk_buff", "sk"),
        "skb_iif": at("sk_buff", "skb_iif"),
        "skb_head": at("sk_buff", "head"),
        "skb_data": at("sk_buff", "data"),
        "skb_protocol": at("sk_buff", "protocol"),
        "skb_network_header": at("sk_buff", "network_header"),
        "dev_net": at("net_device", "nd_net"),
        "sock_net": at("sock", "__sk_common", "skc_net"),
        "net_inum": at("net", "ns", "inum"),
    }


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
