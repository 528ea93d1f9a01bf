"""A place for the generator's program to stay, where no packet ever comes by."""

from __future__ import annotations

import os

from labkit.kernel import bpf
from labkit.kernel.netns import NamespaceThread
from labkit.program.program import Program
from labkit.uapi import AttachType, XdpFlag

__all__ = ["Parking"]

_LOOPBACK = 1  # LOOPBACK_IFINDEX, include/net/flow.h


class Parking:
    """Keeps a program attached at the sleeping loopback interface of a namespace of its own.

    A test run of more than one frame enters its program in the kernel's XDP dispatcher and takes it out again
    (bpf_prog_change_xdp, net/bpf/test_run.c), and each change waits for a grace period of RCU: tens of milliseconds
    a run. A program that is attached somewhere is there already, and a run costs 50 microseconds.
    """

    def __init__(self, program: Program) -> None:
        self._place = NamespaceThread("parking")
        try:
            self._link = self._place.run(bpf.link_create, program.fd, _LOOPBACK, AttachType.XDP, int(XdpFlag.SKB_MODE))
        except BaseException:
            self._place.close()
            raise

    def close(self) -> None:
        """Let the program go. Safe to call again."""
        if self._link >= 0:
            os.close(self._link)
            self._link = -1
            self._place.close()
