"""Frames that XDP could not send on, by place and errno: tracepoints that fire on errors, and once for a bulk of XDP_TX."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from labkit.observe.tracepoint import TracepointCounter

__all__ = ["FailureKey", "RedirectWatch", "TransmitWatch"]

_OFFSETS = {
    "dev_net": ("net_device", "nd_net"),
    "dev_ifindex": ("net_device", "ifindex"),
    "net_inum": ("net", "ns", "inum"),
}


@dataclass(frozen=True)
class FailureKey:
    """Frames received at ``ifindex`` of namespace ``netns`` (inode) could not be sent on: ``errno`` says why.

    The generator's frames count as received at the loopback interface. errno 0: the peer's ring was full.
    """

    netns: int
    ifindex: int
    errno: int


class _FailureWatch:
    """Counts in the namespaces given; raises LabError where the kernel refuses the probe."""

    _tracepoint: str
    _function: str

    def __init__(self, namespaces: Iterable[int]) -> None:
        self._counter = TracepointCounter(self._tracepoint, "redirect_errors.c", self._function, _OFFSETS, namespaces)

    def read(self) -> dict[FailureKey, int]:
        """Frames since the watch began."""
        return {
            FailureKey(**key["received"], errno=key["error"]): count
            for key, count in self._counter.map("failures").items()
        }

    def close(self) -> None:
        """Detach. Safe to call again."""
        self._counter.close()


class RedirectWatch(_FailureWatch):
    """Redirects that failed, frame by frame."""

    _tracepoint, _function = "xdp_redirect_err", "count_failure"


class TransmitWatch(_FailureWatch):
    """Frames that XDP_TX lost."""

    _tracepoint, _function = "xdp_bulk_tx", "count_unsent"
