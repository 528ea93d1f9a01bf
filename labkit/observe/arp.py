"""ARP packets that arrive at a host: the kernel takes them without counting, so a socket stands beside it and counts.

The socket is bound to the protocol ARP: other packets never meet it.
"""

from __future__ import annotations

import socket
import struct

from labkit.kernel.socket_filter import keep_of_each

__all__ = ["ArpWitness"]

_ETH_P_ARP = 0x0806  # include/uapi/linux/if_ether.h
_SOL_PACKET, _PACKET_STATISTICS = 263, 6  # include/linux/socket.h, include/uapi/linux/if_packet.h


class ArpWitness:
    """Counts what arrives in the namespace of the thread that makes it; usable from any thread."""

    def __init__(self) -> None:
        # A protocol given here binds the socket to it at every interface.
        self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ETH_P_ARP))
        # One byte of each packet is enough, and the smallest buffer: what finds no room is counted all the same.
        keep_of_each(self._socket, 1)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 0)
        self._seen = 0

    def read(self) -> int:
        """ARP packets since the witness began."""
        raw = self._socket.getsockopt(_SOL_PACKET, _PACKET_STATISTICS, 8)  # struct tpacket_stats; reading sets it to 0
        self._seen += struct.unpack("=II", raw)[0]
        return self._seen

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()
