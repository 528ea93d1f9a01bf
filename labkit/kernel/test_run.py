"""BPF_PROG_TEST_RUN of an XDP program on one frame, with what the program made of its bytes.

See Documentation/bpf/bpf_prog_run.rst and bpf_prog_test_run_xdp, net/bpf/test_run.c: the frame lies in a page of its
own, nothing is sent, and nothing is received.
"""

from __future__ import annotations

import ctypes
import struct
from dataclasses import dataclass

from labkit.kernel.gate import system_call
from labkit.uapi import BpfCmd

__all__ = ["FrameRun", "run_frame"]

_MOST_BYTES = 1 << 16
_CONTEXT = struct.Struct(
    "=6I"
)  # struct xdp_md: data, data_end, data_meta, ingress_ifindex, rx_queue_index, egress_ifindex


@dataclass(frozen=True)
class FrameRun:
    """What the program returned (all 32 bits), and the frame and its metadata as it left them."""

    verdict: int
    metadata: bytes
    frame: bytes


def run_frame(prog_fd: int, frame: bytes, *, metadata: bytes = b"", ifindex: int = 0, queue: int = 0) -> FrameRun:
    """Run an XDP program once on ``metadata`` and ``frame``, as if received by ``ifindex`` on receive queue ``queue``.

    ``ifindex`` belongs to the namespace of the calling thread; 0 is its loopback. Raises OSError with the kernel's errno.
    """
    given = metadata + frame
    data = ctypes.create_string_buffer(given, max(1, len(given)))
    context = ctypes.create_string_buffer(_CONTEXT.pack(len(metadata), len(given), 0, ifindex, queue, 0), _CONTEXT.size)
    out, context_out = ctypes.create_string_buffer(_MOST_BYTES), ctypes.create_string_buffer(_CONTEXT.size)
    # struct { prog_fd, retval, data_size_in, data_size_out: u32; data_in, data_out: u64; repeat, duration, ctx_size_in,
    # ctx_size_out: u32; ctx_in, ctx_out: u64; flags, cpu, batch_size: u32 } test
    packed = struct.pack("=4I2Q", prog_fd, 0, len(given), len(out), ctypes.addressof(data), ctypes.addressof(out))
    packed += struct.pack("=4I2Q", 1, 0, _CONTEXT.size, _CONTEXT.size, *map(ctypes.addressof, (context, context_out)))
    attr = ctypes.create_string_buffer(packed + bytes(16), len(packed) + 16)
    system_call(BpfCmd.PROG_TEST_RUN, attr)
    retval, _, size = struct.unpack_from("=3I", attr.raw, 4)
    begin = _CONTEXT.unpack(context_out.raw)[0]  # data, counted from data_meta
    return FrameRun(retval, out.raw[:begin], out.raw[begin:size])
