"""What a device can do with XDP, by the generic netlink family ``netdev`` (Linux 6.3 or later).

Documentation/netlink/specs/netdev.yaml; numbers of include/uapi/linux/netdev.h and genetlink.h. A plain socket, no
library: it works on any thread, in the namespace of the thread that makes it.
"""

from __future__ import annotations

import ctypes
import errno
import os
import socket
import struct
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntFlag
from typing import Any

__all__ = ["DeviceFeatures", "NetdevSocket", "RssHash", "RxMetadata", "XdpFeature"]

_NETLINK_GENERIC = 16  # include/uapi/linux/netlink.h
_NLM_F_REQUEST, _NLMSG_ERROR = 1, 2
_GENL_ID_CTRL, _CTRL_CMD_GETFAMILY = 0x10, 3
_CTRL_ATTR_FAMILY_ID, _CTRL_ATTR_FAMILY_NAME = 1, 2
_NETDEV_CMD_DEV_GET = 1
_IFINDEX, _XDP_FEATURES, _ZC_MAX_SEGS, _RX_METADATA = 1, 3, 4, 5
_ORDER: Any = sys.byteorder


class XdpFeature(IntFlag):
    """``enum netdev_xdp_act``."""

    BASIC = 1 << 0
    REDIRECT = 1 << 1
    NDO_XMIT = 1 << 2
    XSK_ZEROCOPY = 1 << 3
    HW_OFFLOAD = 1 << 4
    RX_SG = 1 << 5
    NDO_XMIT_SG = 1 << 6


class RxMetadata(IntFlag):
    """``enum netdev_xdp_rx_metadata``."""

    TIMESTAMP = 1 << 0
    HASH = 1 << 1
    VLAN_TAG = 1 << 2


class RssHash(IntFlag):
    """``enum xdp_rss_hash_type``, include/net/xdp.h: what went into a packet's hash; no bit where the driver doesn't say."""

    L3_IPV4 = 1 << 0
    L3_IPV6 = 1 << 1
    L3_DYNHDR = 1 << 2
    L4 = 1 << 3
    L4_TCP = 1 << 4
    L4_UDP = 1 << 5
    L4_SCTP = 1 << 6
    L4_IPSEC = 1 << 7
    L4_ICMP = 1 << 8


@dataclass(frozen=True)
class DeviceFeatures:
    """``xdp``: what its driver does with XDP now; ``rx_metadata``: hints a program can ask for.

    ``zero_copy_segments``: buffers a zero-copy AF_XDP frame may have, 0 without zero-copy.
    """

    xdp: XdpFeature
    rx_metadata: RxMetadata
    zero_copy_segments: int


class NetdevSocket:
    """Asks the ``netdev`` family of the namespace of the thread that makes it; usable from any thread, one at a time.

    Raises OSError ENOENT where this kernel has no such family.
    """

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_GENERIC)
        self._sequence = 0
        try:
            self._socket.bind((0, 0))
            self._socket.settimeout(5)
            name = _attribute(_CTRL_ATTR_FAMILY_NAME, b"netdev\0")
            answer = dict(_attributes(self._ask(_GENL_ID_CTRL, _CTRL_CMD_GETFAMILY, name)))
            self._family = int.from_bytes(answer[_CTRL_ATTR_FAMILY_ID], _ORDER)
        except BaseException:
            self._socket.close()
            raise

    def close(self) -> None:
        """Close the socket. Safe to call again."""
        self._socket.close()

    def __enter__(self) -> NetdevSocket:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def features(self, ifindex: int) -> DeviceFeatures:
        """The features of a device. Raises OSError ENODEV where there is none of this index."""
        index = _attribute(_IFINDEX, struct.pack("=I", ifindex))
        answer = dict(_attributes(self._ask(self._family, _NETDEV_CMD_DEV_GET, index)))

        def number(attribute: int) -> int:
            return int.from_bytes(answer.get(attribute, b""), _ORDER)

        return DeviceFeatures(XdpFeature(number(_XDP_FEATURES)), RxMetadata(number(_RX_METADATA)), number(_ZC_MAX_SEGS))

    def _ask(self, kind: int, command: int, attributes: bytes) -> bytes:
        """The attributes of the answer to one question."""
        self._sequence += 1
        body = struct.pack("=BBH", command, 1, 0) + attributes  # struct genlmsghdr
        head = struct.pack("=IHHII", 16 + len(body), kind, _NLM_F_REQUEST, self._sequence, 0)
        self._socket.send(head + body)
        while True:
            data = self._socket.recv(1 << 16)
            _, answer, _, sequence = struct.unpack_from("=IHHI", data)
            if sequence != self._sequence:
                continue
            if answer == _NLMSG_ERROR:
                number = -ctypes.c_int32.from_buffer_copy(data, 16).value or errno.EPROTO
                raise OSError(number, f"netdev: {os.strerror(number)}")
            return data[20:]


def _attribute(kind: int, value: bytes) -> bytes:
    data = struct.pack("=HH", 4 + len(value), kind) + value
    return data + bytes(-len(data) % 4)


def _attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at + 4 <= len(data):
        length, kind = struct.unpack_from("=HH", data, at)
        if length < 4:
            return
        yield kind & 0x3FFF, data[at + 4 : at + length]
        at += (length + 3) & ~3


attributes = _attributes
"""(kind, value) of each netlink attribute, in order: for others who read netlink, too."""
