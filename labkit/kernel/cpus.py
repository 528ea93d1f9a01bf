"""How many CPUs the kernel counts."""

from __future__ import annotations

from functools import cache
from pathlib import Path

__all__ = ["possible_cpus"]


@cache
def possible_cpus() -> int:
    """CPUs that could ever be online: a per-CPU map holds one value for each (Documentation/bpf/map_array.rst)."""
    last = Path("/sys/devices/system/cpu/possible").read_text().strip().rsplit(",", 1)[-1]
    return int(last.rsplit("-", 1)[-1]) + 1
