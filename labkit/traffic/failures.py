"""What the kernel meant when it refused a packet: a name for the report, from the errno and the state of the link."""

from __future__ import annotations

import errno

from labkit.errors import kernel_word
from labkit.interface import Interface

__all__ = ["failure_name"]


def failure_name(out: Interface, number: int) -> str:
    """A name for errno ``number`` of a packet that should have left through ``out``.

    A veth whose peer is down answers ENOBUFS, as does one whose peer has no room (packet_snd,
    net/packet/af_packet.c; veth_xmit, drivers/net/veth.c): so the links are asked too.
    """
    if number in (errno.ENETDOWN, errno.ENXIO, errno.ENOBUFS, errno.ENETUNREACH):
        if not out.up:
            return f"interface {out.where} is down"
        if not out.peer.up:
            return f"peer {out.peer.where} is down"
    if number == errno.ENOBUFS:
        return f"no room at {out.peer.where}"
    if number == errno.EMSGSIZE:
        return f"longer than the MTU of {out.where}, {out.mtu} bytes"
    if number == errno.EINVAL:
        return "no Ethernet frame: shorter than its header"
    if number == errno.EAGAIN:
        return f"the send buffer stayed full at {out.where}"
    return kernel_word(number)
