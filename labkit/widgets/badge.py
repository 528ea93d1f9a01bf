"""A program at an interface, as it is drawn, and what it returned there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from labkit.observe.sample import InterfaceCounters, Sample

__all__ = ["Badge", "stretches_of", "verdicts_at"]

# What the driver counts of a program that counts nothing itself: veth_rq_stats_desc in
# drivers/net/veth.c.
_DRIVER_VERDICTS = {"DROP": "xdp_drops", "REDIRECT": "xdp_redirect", "TX": "xdp_tx"}


@dataclass(frozen=True)
class Badge:
    """A program at an interface, as it is drawn."""

    host: str
    interface: str
    name: str
    mode: str
    id: int
    tag: str
    note: str = ""

    @property
    def where(self) -> str:
        """``server eth0``."""
        return f"{self.host} {self.interface}"


def stretches_of(badge: Badge, sample: Sample) -> tuple[int, ...]:
    """Numbers of the stretches in which the badge's program counted at its interface: a change of mode begins another."""
    return tuple(n for n, t in sample.verdicts.items() if badge.where in t.places and t.program == badge.name)


def verdicts_at(badge: Badge, sample: Sample, stretches: Sequence[int] | None = None) -> dict[str, int]:
    """Verdict → packets there: the program's own count in ``stretches`` (all of its own), else what the driver can tell.

    Give the same stretches for samples that are to be compared: in an earlier one they may not have begun.
    """
    own = stretches_of(badge, sample) if stretches is None else stretches
    if not own:
        counters = sample.interfaces.get(badge.where)
        return _driver_verdicts(counters) if counters is not None and badge.mode == "native" else {}
    total: Counter[str] = Counter()
    for number in own:
        if number in sample.verdicts:
            total.update(sample.verdicts[number].counts)
    return {name.removeprefix("XDP_"): count for name, count in total.items()}


def _driver_verdicts(counters: InterfaceCounters) -> dict[str, int]:
    found = {verdict: counters.queues(f"rx {name}") for verdict, name in _DRIVER_VERDICTS.items()}
    return {"PASS": max(0, counters.queues("rx xdp_packets") - sum(found.values())), **found}
