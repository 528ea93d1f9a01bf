"""The page pools that drivers register with their device: generic netlink ``netdev``, page-pool-get (Linux 6.8 or later).

Documentation/netlink/specs/netdev.yaml. A driver registers a pool by naming its device when it makes it; veth and the
runs of BPF_PROG_TEST_RUN don't, so theirs aren't listed.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
import sys
from dataclasses import dataclass
from typing import Any

from labkit.kernel.netdev import NetdevSocket, attributes

__all__ = ["ListedPool", "PagePoolSocket"]

_PAGE_POOL_GET = 5  # include/uapi/linux/netdev.h
_ID, _IFINDEX, _INFLIGHT, _DETACHED = 1, 2, 4, 6
_REQUEST_DUMP, _DONE, _ERROR = 0x301, 3, 2  # include/uapi/linux/netlink.h
_ORDER: Any = sys.byteorder


@dataclass(frozen=True)
class ListedPool:
    """A pool by the kernel's number; ``in_flight`` pages; ``closing``: detached from its device, waits for pages."""

    ident: int
    ifindex: int
    in_flight: int
    closing: bool


class PagePoolSocket(NetdevSocket):
    """Asks in the namespace of the thread that makes it. Raises OSError ENOENT where this kernel has no such family."""

    def __enter__(self) -> PagePoolSocket:
        return self

    def pools(self) -> list[ListedPool]:
        """What drivers registered. Raises OSError EOPNOTSUPP where this kernel can't tell."""
        self._sequence += 1
        body = struct.pack("=BBH", _PAGE_POOL_GET, 1, 0)  # struct genlmsghdr
        self._socket.send(struct.pack("=IHHII", 16 + len(body), self._family, _REQUEST_DUMP, self._sequence, 0) + body)
        found: list[ListedPool] = []
        while self._take(found, self._socket.recv(1 << 16)):
            pass
        return found

    def _take(self, found: list[ListedPool], data: bytes) -> bool:
        """Whether more is to come after the messages in ``data``."""
        at = 0
        while at + 16 <= len(data):
            length, kind, _, sequence = struct.unpack_from("=IHHI", data, at)
            if length < 16:
                return False
            if sequence == self._sequence:
                if kind in (_DONE, _ERROR):
                    _check(data[at + 16 : at + 20])
                    return False
                found.append(_listed(dict(attributes(data[at + 20 : at + length]))))
            at += (length + 3) & ~3
        return True


def _check(word: bytes) -> None:
    number = -ctypes.c_int32.from_buffer_copy(word).value if len(word) == 4 else errno.EPROTO
    if number:
        raise OSError(number, f"netdev: {os.strerror(number)}")


def _listed(answer: dict[int, bytes]) -> ListedPool:
    def number(attribute: int) -> int:
        return int.from_bytes(answer.get(attribute, b""), _ORDER)

    return ListedPool(number(_ID), number(_IFINDEX), number(_INFLIGHT), _DETACHED in answer)
