"""The panel's readings: often for rates while the traffic goes on, seldom for a ledger while it holds still."""

from __future__ import annotations

import time
from collections.abc import Callable

from labkit.lab import Lab
from labkit.observe.balance import balance
from labkit.observe.ledger import Ledger
from labkit.observe.sample import Sample
from labkit.widgets.frame import Reading

__all__ = ["Readings"]

_EXACT_S = 1.0  # between ledgers under traffic


class Readings:
    """Reads ``lab``; ``sending`` says whether something sends in the background. ``ledger`` is the latest exact one."""

    def __init__(self, lab: Lab, sending: Callable[[], bool]) -> None:
        self._lab, self._sending = lab, sending
        self.ledger: Ledger | None = None
        self._ledger_at = 0.0
        self._generated: dict[str, int] = {}

    def read(self, baseline: Sample, *, exact: bool) -> Reading:
        """Since ``baseline``. The traffic holds still for it once a second, where ``exact`` is asked for, and at rest."""
        generated, now = self._lab.traffic.totals(), time.monotonic()
        moving, self._generated = generated != self._generated or self._sending(), generated
        if moving and not exact and self.ledger is not None and now - self._ledger_at < _EXACT_S:
            sample = self._lab.glance()
            return Reading(sample, balance(baseline, sample))
        sample = self._lab.sample()
        self.ledger, self._ledger_at = balance(baseline, sample), now
        return Reading(sample, self.ledger)
