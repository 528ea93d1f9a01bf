"""An overrun: two senders against one receiver, through a redirect; what finds a ring full is lost, and counted."""

from __future__ import annotations

from labkit.demo.redirect import send_through
from labkit.demo.result import DemoResult

__all__ = ["run"]


def run(packets: int) -> DemoResult:
    """Send ``packets`` UDP frames from two threads, faster than one CPU takes them out of its ring of 256."""
    return send_through("overrun", packets, threads=2)
