"""A flag to skip the program: what the proposal wanted, asked for on today's kernel."""

from __future__ import annotations

import errno

from labkit.errors import kernel_word
from labkit.kernel import xdp_socket
from labkit.lab import Lab
from labkit.lesson.page import Table
from labkit.topology import Topology
from labkit.uapi import XskBind, XskOption
from labkit.xsk import Umem

__all__ = ["UNKNOWN_FLAG", "skip_flag"]

_RING = 64
UNKNOWN_FLAG = XskBind(1 << 5)
"""The first flag of bind(2) that today's AF_XDP doesn't know: XDP_USE_SG, 1 << 4, is the last in if_xdp.h."""


def skip_flag() -> Table:
    """A socket bound to a queue with each flag that the kernel has, and with one more: the kernel's word on each.

    XDP_SHARED_UMEM is left out: it needs a second socket.
    """
    flags = [*(flag for flag in XskBind if flag is not XskBind.SHARED_UMEM), UNKNOWN_FLAG]
    with Lab(
        Topology.pair(queues=len(flags)), name="skip-flag"
    ) as lab:  # a queue for each, as letting go takes a while
        at = lab["server"]["eth0"]
        rows = [
            (_flag_name(flag), f"1 << {flag.bit_length() - 1}", at.run(_bound, at.ifindex, queue, flag))
            for queue, flag in enumerate(flags)
        ]
    return Table(("flag of bind(2)", "bit", "the kernel's word"), tuple(rows))


def _flag_name(flag: XskBind) -> str:
    return f"XDP_{flag.name}" if flag in list(XskBind) else "the next bit: skip the program?"


def _bound(ifindex: int, queue: int, flag: XskBind) -> str:
    """Bind a socket that has all it needs, by the bare calls: labkit would refuse an unknown flag itself."""
    with Umem(_RING) as umem, xdp_socket.open_socket() as made:
        xdp_socket.register_memory(made, umem.address, umem.size_bytes, umem.frame_size, 0)
        for ring in (XskOption.RX_RING, XskOption.UMEM_FILL_RING, XskOption.UMEM_COMPLETION_RING):
            xdp_socket.make_ring(made, ring, _RING)
        try:
            xdp_socket.bind_socket(made, ifindex, queue, flag)
        except OSError as error:
            return kernel_word(error.errno or errno.EIO)
    return "taken"
