"""Links, addresses, neighbours and routes by netlink (rtnetlink).

pyroute2 encodes the messages; the transport is one plain socket, because a batch of messages answered in one go builds a
lab several times faster, and because a socket needs no event loop (a notebook's main thread already runs one). A socket
belongs for ever to the namespace it was opened in.
"""

from __future__ import annotations

import ctypes
import os
import socket
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pyroute2.netlink.rtnl import (
    RTM_DELLINK,
    RTM_NEWADDR,
    RTM_NEWLINK,
    RTM_NEWNEIGH,
    RTM_NEWROUTE,
)
from pyroute2.netlink.rtnl.ifaddrmsg import ifaddrmsg
from pyroute2.netlink.rtnl.ifinfmsg import ifinfmsg
from pyroute2.netlink.rtnl.ndmsg import ndmsg

from labkit.topology import End

__all__ = [
    "LINK_STATISTICS",
    "LinkState",
    "RtnlSocket",
    "add_address",
    "add_neighbour",
    "add_route",
    "add_veth",
    "delete_link",
    "set_link",
]

_NLM_F_REQUEST, _NLM_F_ACK, _NLM_F_EXCL, _NLM_F_CREATE = 1, 4, 0x200, 0x400  # include/uapi/linux/netlink.h
_NLMSG_ERROR = 2
_NLMSGERR_ATTR_MSG, _NLM_F_ACK_TLVS, _NLM_F_CAPPED = 1, 0x200, 0x100
_SOL_NETLINK, _NETLINK_CAP_ACK, _NETLINK_EXT_ACK = 270, 10, 11
_IFF_UP = 1
_RTA_DST, _RTA_GATEWAY = 1, 5  # include/uapi/linux/rtnetlink.h
_NUD_PERMANENT = 0x80  # include/uapi/linux/neighbour.h
_RTM_GETSTATS, _RTM_NEWSTATS, _IFLA_STATS_LINK_64 = 94, 92, 1  # include/uapi/linux/rtnetlink.h, if_link.h
_RTM_GETLINK, _IFLA_MTU, _IFLA_XDP, _IFLA_ADDRESS = 18, 4, 43, 1
_IFLA_OPERSTATE, _IF_OPER_UP = 16, 6  # include/uapi/linux/if_link.h, if.h

# struct rtnl_link_stats64, include/uapi/linux/if_link.h, in order; older kernels end sooner.
LINK_STATISTICS = [
    "rx_packets",
    "tx_packets",
    "rx_bytes",
    "tx_bytes",
    "rx_errors",
    "tx_errors",
    "rx_dropped",
    "tx_dropped",
    "multicast",
    "collisions",
    "rx_length_errors",
    "rx_over_errors",
    "rx_crc_errors",
    "rx_frame_errors",
    "rx_fifo_errors",
    "rx_missed_errors",
    "tx_aborted_errors",
    "tx_carrier_errors",
    "tx_fifo_errors",
    "tx_heartbeat_errors",
    "tx_window_errors",
    "rx_compressed",
    "tx_compressed",
    "rx_nohandler",
    "rx_otherhost_dropped",
]


def _message(message: Any, kind: int, flags: int, fields: dict[str, int], attrs: Sequence[tuple[str, Any]]) -> Any:
    message["header"]["type"] = kind
    message["header"]["flags"] = _NLM_F_REQUEST | _NLM_F_ACK | flags
    for name, value in fields.items():
        message[name] = value
    message["attrs"] = list(attrs)
    return message


def add_veth(near: End, far: End, far_namespace_fd: int) -> Any:
    """A message that makes a veth pair: ``near`` in the socket's namespace, ``far`` in the one of the descriptor."""

    def described(end: End) -> list[tuple[str, Any]]:
        return [
            ("IFLA_IFNAME", end.interface),
            ("IFLA_ADDRESS", end.mac),
            ("IFLA_MTU", end.mtu),
            ("IFLA_NUM_TX_QUEUES", end.queues),
            ("IFLA_NUM_RX_QUEUES", end.queues),
        ]

    peer = {"attrs": [*described(far), ("IFLA_NET_NS_FD", far_namespace_fd)]}
    info = {"attrs": [("IFLA_INFO_KIND", "veth"), ("IFLA_INFO_DATA", {"attrs": [("VETH_INFO_PEER", peer)]})]}
    attrs = [*described(near), ("IFLA_LINKINFO", info)]
    return _message(ifinfmsg(), RTM_NEWLINK, _NLM_F_CREATE | _NLM_F_EXCL, {}, attrs)


def delete_link(name: str) -> Any:
    """A message that deletes the link ``name`` (and with a veth its peer)."""
    return _message(ifinfmsg(), RTM_DELLINK, 0, {}, [("IFLA_IFNAME", name)])


def set_link(ifindex: int, *, up: bool | None = None, mtu: int | None = None) -> Any:
    """A message that sets a link up or down, or its MTU in bytes."""
    fields = {"index": ifindex}
    if up is not None:
        fields |= {"flags": _IFF_UP if up else 0, "change": _IFF_UP}
    return _message(ifinfmsg(), RTM_NEWLINK, 0, fields, [] if mtu is None else [("IFLA_MTU", mtu)])


def add_address(ifindex: int, ip: str, prefix_length: int) -> Any:
    """A message that gives the link an IPv4 address."""
    fields = {"family": socket.AF_INET, "prefixlen": prefix_length, "index": ifindex}
    return _message(
        ifaddrmsg(), RTM_NEWADDR, _NLM_F_CREATE | _NLM_F_EXCL, fields, [("IFA_LOCAL", ip), ("IFA_ADDRESS", ip)]
    )


def add_neighbour(ifindex: int, ip: str, mac: str) -> Any:
    """A message that makes ``ip`` a permanent neighbour at ``mac``, so that no ARP is ever sent for it."""
    fields = {"family": socket.AF_INET, "ifindex": ifindex, "state": _NUD_PERMANENT}
    return _message(ndmsg(), RTM_NEWNEIGH, _NLM_F_CREATE, fields, [("NDA_DST", ip), ("NDA_LLADDR", mac)])


@dataclass(frozen=True)
class _Packed:
    """A message packed by hand: of routes a chain of hosts needs hundreds, and pyroute2 takes 0.4 ms for each."""

    kind: int
    flags: int
    body: bytes

    def encoded(self, sequence: int) -> bytes:
        flags = _NLM_F_REQUEST | _NLM_F_ACK | self.flags
        return struct.pack("=IHHII", 16 + len(self.body), self.kind, flags, sequence, 0) + self.body


def add_route(network: str, via: str) -> _Packed:
    """A message that routes ``network`` (a.b.c.d/n) through the neighbour ``via``."""
    destination, _, length = network.partition("/")
    # struct rtmsg: table main, protocol static, scope universe, type unicast; include/uapi/linux/rtnetlink.h
    body = struct.pack("=BBBBBBBBI", socket.AF_INET, int(length), 0, 0, 254, 4, 0, 1, 0)
    for kind, address in ((_RTA_DST, destination), (_RTA_GATEWAY, via)):
        body += struct.pack("=HH4s", 8, kind, socket.inet_aton(address))
    return _Packed(RTM_NEWROUTE, _NLM_F_CREATE | _NLM_F_EXCL, body)


class RtnlSocket:
    """A netlink socket of the namespace of the thread that makes it; usable from any thread, one at a time."""

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE)
        self._socket.bind((0, 0))
        self._socket.settimeout(5)
        for option in (_NETLINK_CAP_ACK, _NETLINK_EXT_ACK):
            self._socket.setsockopt(_SOL_NETLINK, option, 1)
        self._sequence = 0

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()

    def send(self, messages: Sequence[Any]) -> None:
        """Send the messages in one batch and wait for every answer; OSError with the kernel's word for the first refusal."""
        first, blobs = self._sequence + 1, []
        for message in messages:
            self._sequence += 1
            if isinstance(message, _Packed):
                blobs.append(message.encoded(self._sequence))
                continue
            message["header"]["sequence_number"] = self._sequence
            message.encode()
            blobs.append(bytes(message.data))
        if not blobs:
            return
        self._socket.send(b"".join(blobs))
        waiting, refused = set(range(first, self._sequence + 1)), None
        while waiting:
            for kind, sequence, flags, body in self._receive():
                if kind == _NLMSG_ERROR and sequence in waiting:
                    waiting.remove(sequence)
                    refused = refused or _refusal(flags, body)
        if refused is not None:
            raise refused

    def _receive(self) -> list[tuple[int, int, int, bytes]]:
        data, found, at = self._socket.recv(1 << 18), [], 0
        while at + 16 <= len(data):
            length, kind, flags, sequence = struct.unpack_from("=IHHI", data, at)
            found.append((kind, sequence, flags, data[at + 16 : at + length]))
            at += (length + 3) & ~3
        return found

    def _ask(self, kind: int, header: bytes) -> bytes:
        self._sequence += 1
        head = struct.pack("=IHHII", 16 + len(header), kind, _NLM_F_REQUEST, self._sequence, 0)
        self._socket.send(head + header)
        while True:
            for answer, sequence, flags, body in self._receive():
                if sequence != self._sequence:
                    continue
                if answer == _NLMSG_ERROR:
                    raise _refusal(flags, body) or OSError("netlink acknowledged a question without answering it")
                return body

    def statistics(self, ifindex: int) -> dict[str, int]:
        """The link's ``struct rtnl_link_stats64`` as name → count (packets or bytes, as the name says)."""
        body = self._ask(_RTM_GETSTATS, struct.pack("=BBHII", 0, 0, 0, ifindex, 1 << (_IFLA_STATS_LINK_64 - 1)))
        attributes = _attributes(body[12:])
        values = attributes[_IFLA_STATS_LINK_64]
        return dict(zip(LINK_STATISTICS, struct.unpack_from(f"={len(values) // 8}Q", values), strict=False))

    def link(self, ifindex: int) -> LinkState:
        """MTU, up or not, carrying or not, and what XDP program the link has.

        Since Linux 6.8 the question itself makes the kernel finish a change of carrier it still had to work on
        ("net: core: synchronize link-watch when carrier is queried").
        """
        body = self._ask(_RTM_GETLINK, struct.pack("=BxHiII", 0, 0, ifindex, 0, 0))
        (flags,) = struct.unpack_from("=I", body, 8)
        attributes = _attributes(body[16:])
        xdp = _attributes(attributes.get(_IFLA_XDP, b""))
        # IFLA_XDP_ATTACHED 2, IFLA_XDP_PROG_ID 4: include/uapi/linux/if_link.h
        mode = xdp.get(2, b"\0")[0]
        program = int.from_bytes(xdp.get(4, b"\0\0\0\0"), _ORDER)
        carries = attributes.get(_IFLA_OPERSTATE, b"\0")[0] == _IF_OPER_UP
        return LinkState(int.from_bytes(attributes[_IFLA_MTU], _ORDER), bool(flags & _IFF_UP), carries, mode, program)


_ORDER: Any = "little" if struct.pack("=H", 1)[0] else "big"


class LinkState:
    """``mtu`` in bytes, ``up``, ``carries`` (its peer is up too), and the XDP program's ``xdp_mode`` and id.

    Modes are XDP_ATTACHED_*: 0 none, 1 native, 2 generic, 3 offloaded.
    """

    __slots__ = ("carries", "mtu", "up", "xdp_mode", "xdp_program")

    def __init__(self, mtu: int, up: bool, carries: bool, xdp_mode: int, xdp_program: int) -> None:
        self.mtu, self.up, self.carries = mtu, up, carries
        self.xdp_mode, self.xdp_program = xdp_mode, xdp_program


def _attributes(data: bytes) -> dict[int, bytes]:
    found, at = {}, 0
    while at + 4 <= len(data):
        length, kind = struct.unpack_from("=HH", data, at)
        if length < 4:
            break
        found[kind & 0x3FFF] = data[at + 4 : at + length]
        at += (length + 3) & ~3
    return found


def _refusal(flags: int, body: bytes) -> OSError | None:
    """The error in an NLMSG_ERROR, with the kernel's own sentence where it sent one (extended acknowledgement)."""
    number = -ctypes.c_int32.from_buffer_copy(body).value
    if number == 0:
        return None
    text = os.strerror(number)
    if flags & _NLM_F_ACK_TLVS:
        request = struct.unpack_from("=I", body, 4)[0]
        at = 20 if flags & _NLM_F_CAPPED else 4 + ((request + 3) & ~3)
        said = _attributes(body[at:]).get(_NLMSGERR_ATTR_MSG)
        if said:
            text = f"{text}: {said.split(bytes(1))[0].decode()}"
    return OSError(number, text)
