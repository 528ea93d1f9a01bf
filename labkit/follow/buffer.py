"""The page that a frame lies in during BPF_PROG_TEST_RUN, and what moving its ends does.

After net/bpf/test_run.c and net/core/filter.c.
"""

from __future__ import annotations

import errno
import os
from functools import cache

from labkit.kernel.btf import Kind, kernel_btf

__all__ = ["HEADROOM", "Buffer", "longest_frame"]

HEADROOM = 256  # XDP_PACKET_HEADROOM, include/uapi/linux/bpf.h
_PAGE = os.sysconf("SC_PAGE_SIZE")
_LEAST = 14  # ETH_HLEN
_MOST_META = 255  # what fits struct skb_shared_info's meta_len; in whole words it is 252
_CACHE_LINE = 64


@cache
def _sizes() -> tuple[int, int]:
    """Bytes of struct xdp_frame, and of struct skb_shared_info in whole cache lines, as this kernel's types say."""
    try:
        btf = kernel_btf()
        frame, shared = (btf.size(btf.find(name, Kind.STRUCT)) for name in ("xdp_frame", "skb_shared_info"))
    except (OSError, KeyError):
        frame, shared = 40, 320
    return frame, -(-shared // _CACHE_LINE) * _CACHE_LINE


def longest_frame() -> int:
    """Bytes of the longest frame that lies in one piece there."""
    return _PAGE - HEADROOM - _sizes()[1]


class Buffer:
    """``memory`` is the page's content; ``meta``, ``data`` and ``end`` are places in it. Moves answer as the kernel does."""

    def __init__(self, memory: bytearray, frame: bytes, metadata: bytes) -> None:
        self.memory = memory
        self.meta, self.data, self.end = HEADROOM - len(metadata), HEADROOM, HEADROOM + len(frame)
        memory[self.meta : self.end] = metadata + frame

    @staticmethod
    def page() -> bytes:
        """An empty page."""
        return bytes(_PAGE)

    @property
    def frame(self) -> bytes:
        """From data to data_end."""
        return bytes(self.memory[self.data : self.end])

    @property
    def metadata(self) -> bytes:
        """From data_meta to data."""
        return bytes(self.memory[self.meta : self.data])

    def adjust_head(self, by: int) -> int:
        """bpf_xdp_adjust_head: 0, or an errno below 0. Metadata moves along."""
        length, data = self.data - self.meta, self.data + by
        if data < _sizes()[0] + length or data > self.end - _LEAST:
            return -errno.EINVAL
        self.memory[self.meta + by : data] = self.metadata
        self.meta, self.data = self.meta + by, data
        return 0

    def adjust_meta(self, by: int) -> int:
        """bpf_xdp_adjust_meta."""
        meta = self.meta + by
        if meta < _sizes()[0] or meta > self.data:
            return -errno.EINVAL
        if (self.data - meta) % 4 or self.data - meta > _MOST_META:
            return -errno.EACCES
        self.meta = meta
        return 0

    def adjust_tail(self, by: int) -> int:
        """bpf_xdp_adjust_tail: what comes in is zero."""
        end = self.end + by
        if end > _PAGE - _sizes()[1] or end < self.data + _LEAST:
            return -errno.EINVAL
        self.memory[self.end : max(self.end, end)] = bytes(max(0, by))
        self.end = end
        return 0
