"""Is every bpf_redirect_map the last thing that its program does? Real bytecode, read, walked through and answered for.

    print(analyse("bpf/analysis/two_tails.c"))

It needs no privilege and no kernel, save for the kernel's own form of a loaded program.
"""

from __future__ import annotations

from labkit.analysis.front import analyse, codes
from labkit.analysis.report import Report, Reports, Site, examine

__all__ = ["Report", "Reports", "Site", "analyse", "codes", "examine"]
