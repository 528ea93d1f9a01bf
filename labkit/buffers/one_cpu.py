"""Staying on one CPU, where it matters who frees a page."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

from labkit.kernel.cpus import current_cpu

__all__ = ["one_cpu"]


@contextlib.contextmanager
def one_cpu() -> Iterator[None]:
    """The calling thread stays on the CPU where it is while this lasts.

    What a thread reads from a socket on another CPU than the one that received it, isn't freed at once: the kernel puts
    some tens of packets (sysctl net.core.skb_defer_max) on a list of the CPU that made them, which frees them when it next
    polls for packets. Their pages are out meanwhile. A generator starts on the CPU where it was called.
    """
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {current_cpu()})
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)
