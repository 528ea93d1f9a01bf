"""Frames where the kernel has no live frames: clones of one packet, sent as the stack sends, by a TC program in a test run.

Live frames came with Linux 5.18, and a kernel may refuse them. What is sent this way has no page pool and can't carry
metadata, and it is slower; for the receiver it is a packet like others.
"""

from __future__ import annotations

import struct

from labkit.compile import compile_source
from labkit.compile.diagnose import verifier_error
from labkit.compile.source import lesson_directory
from labkit.interface import Interface
from labkit.kernel import bpf
from labkit.program.program import Program, load_program
from labkit.uapi import ProgType

__all__ = ["NOTE", "StackSender"]

NOTE = (
    "This kernel makes no live frames, so the generator sends packets of the stack instead: slower, without page pools "
    "and metadata. labkit doctor tells why."
)
_SKB_BYTES, _CB = (
    192,
    48,
)  # struct __sk_buff, include/uapi/linux/bpf.h, and its cb[0]; bpf/lab/skb_generator.c counts there


class StackSender:
    """Sends clones of ``frame`` out of ``interface``; ``flows`` source ports go round. Close it yourself."""

    def __init__(self, interface: Interface, frame: bytes, flows: int) -> None:
        self._frame = frame
        spec = compile_source(path=lesson_directory() / "lab" / "skb_generator.c")
        function = "generate_flows" if flows > 1 else "generate"
        self._program: Program = load_program(spec, function, explain=verifier_error, type=ProgType.SCHED_CLS)
        self._program.maps["aim"][0] = interface.ifindex
        if flows > 1:
            self._program.maps["flow_config"][0] = {"flows": flows, "base": 10_000}

    def send(self, packets: int) -> tuple[int, int]:
        """Send so many, on a thread of the interface's namespace: (how many left, the kernel's errno for the others).

        Frames that met a full ring have left: their driver counts them. Raises OSError where there is no test run.
        """
        ran = bpf.prog_test_run(self._program.fd, self._frame, repeat=packets, context=bytes(_SKB_BYTES))
        refused, number = struct.unpack_from("=2I", ran.context, _CB)
        return packets - refused, number if refused else 0

    def close(self) -> None:
        """Let go of the program. Safe to call again."""
        self._program.close()
