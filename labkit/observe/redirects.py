"""Redirects that failed, by place and errno: the tracepoint xdp_redirect_err, which fires on errors only."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from labkit.observe.tracepoint import TracepointCounter

__all__ = ["FailureKey", "RedirectWatch"]

_OFFSETS = {
    "dev_net": ("net_device", "nd_net"),
    "dev_ifindex": ("net_device", "ifindex"),
    "net_inum": ("net", "ns", "inum"),
}


@dataclass(frozen=True)
class FailureKey:
    """Frames received at ``ifindex`` of namespace ``netns`` (inode) could not be redirected: ``errno`` says why.

    The generator's frames count as received at the loopback interface.
    """

    netns: int
    ifindex: int
    errno: int


class RedirectWatch:
    """Counts failed redirects in the namespaces given; raises LabError where the kernel refuses the probe."""

    def __init__(self, namespaces: Iterable[int]) -> None:
        self._counter = TracepointCounter(
            "xdp_redirect_err", "redirect_errors.c", "count_failure", _OFFSETS, namespaces
        )

    def read(self) -> dict[FailureKey, int]:
        """Frames since the watch began."""
        return {
            FailureKey(**key["received"], errno=key["error"]): count
            for key, count in self._counter.map("failures").items()
        }

    def close(self) -> None:
        """Detach. Safe to call again."""
        self._counter.close()
