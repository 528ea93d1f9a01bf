"""How many CPUs the kernel counts, and which one this is."""

from __future__ import annotations

import ctypes
from functools import cache
from pathlib import Path

__all__ = ["current_cpu", "possible_cpus"]


@cache
def possible_cpus() -> int:
    """CPUs that could ever be online: a per-CPU map holds one value for each (Documentation/bpf/map_array.rst)."""
    last = Path("/sys/devices/system/cpu/possible").read_text().strip().rsplit(",", 1)[-1]
    return int(last.rsplit("-", 1)[-1]) + 1


def current_cpu() -> int:
    """The CPU the calling thread runs on at this moment (getcpu(2))."""
    return int(ctypes.CDLL(None).sched_getcpu())
