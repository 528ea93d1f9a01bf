"""Live frames: made by an XDP program in a test run, and sent by its redirect.

Documentation/bpf/bpf_prog_run.rst, "Running XDP programs in live frame mode". The frames leave through the sending
interface's driver; on a veth pair they enter the peer's receive ring as frames of a page pool, without an skb.
"""

from __future__ import annotations

import struct

from labkit.compile import compile_source
from labkit.compile.diagnose import verifier_error
from labkit.compile.source import lesson_directory
from labkit.interface import Interface
from labkit.kernel import bpf
from labkit.program.program import Program, load_program
from labkit.traffic.generated import MOST_METADATA
from labkit.traffic.parking import Parking
from labkit.uapi import TestRunFlag

__all__ = ["LiveSender"]

_RESTORED = 64  # bytes at the beginning of the frame that are written anew each time, bpf/lab/generator.c
_META_WORDS = MOST_METADATA // 4  # of four bytes, bpf/lab/generator.c


class LiveSender:
    """Sends ``frame``, ``metadata`` before it, out of ``interface``, ``batch`` at a time; ``flows`` source ports go round.

    Close it yourself.
    """

    def __init__(self, interface: Interface, frame: bytes, flows: int, batch: int, metadata: bytes) -> None:
        self._interface, self._frame, self._batch, self._metadata = interface, frame, batch, metadata
        spec = compile_source(path=lesson_directory() / "lab" / "generator.c")
        name = "generate_flows" if flows > 1 else "generate"
        self._program: Program = load_program(spec, name + "_meta" * bool(metadata), explain=verifier_error)
        try:
            self._fill(flows)
            self._parking = Parking(self._program)
        except BaseException:
            self._program.close()
            raise

    def _fill(self, flows: int) -> None:
        maps = self._program.maps

        def aim() -> None:  # a devmap looks its interface up in the namespace of the writer
            maps["out"][0] = self._interface.ifindex

        self._interface.run(aim)
        maps["wanted"][0] = self._frame[:_RESTORED].ljust(_RESTORED, b"\0")
        if self._metadata:
            words = struct.unpack(f"={len(self._metadata) // 4}I", self._metadata)
            maps["metadata"][0] = {"count": len(words), "words": [*words, *[0] * (_META_WORDS - len(words))]}
        if flows > 1:
            maps["flow_config"][0] = {"flows": flows, "base": 10_000}

    def send(self, packets: int) -> tuple[int, int]:
        """Send so many, on a thread of the interface's namespace: (how many left, the kernel's errno for the others)."""
        try:
            bpf.prog_test_run(
                self._program.fd,
                self._frame,
                repeat=packets,
                flags=int(TestRunFlag.XDP_LIVE_FRAMES),
                batch=self._batch,
                metadata=self._metadata,
            )
        except OSError as error:
            return 0, error.errno or -1
        self._interface.host.lab.traffic.generated(self._interface.where, packets)
        return packets, 0

    def close(self) -> None:
        """Let go of the program. Safe to call again."""
        self._program.close()
        self._parking.close()
