"""Waiting until packets have arrived: when traffic has just ended, some are still in a ring or before a sink that reads."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from labkit.errors import LabError
from labkit.observe.balance import balance
from labkit.observe.ledger import Ledger

if TYPE_CHECKING:
    from labkit.lab import Lab

__all__ = ["check_settling_time", "settled_ledger", "wait_for_rest"]

_LONGEST_S = 60
_REST_S = 2.0


def check_settling_time(settle_s: Any, lab: str) -> None:
    """Raise LabError unless ``settle_s`` is a number of seconds that somebody would wait."""
    if isinstance(settle_s, bool) or not isinstance(settle_s, (int, float)) or not 0 <= settle_s <= _LONGEST_S:
        raise LabError(
            f"settle_s can't be {settle_s!r}.",
            tried="to read the ledger",
            on=lab,
            remedy=f"give a number of seconds from 0 to {_LONGEST_S}",
        )


def settled_ledger(lab: Lab, settle_s: float) -> Ledger:
    """The ledger as soon as every packet has arrived, after ``settle_s`` at the latest as it is then."""
    deadline = time.monotonic() + settle_s
    while True:
        ledger = balance(lab.baseline, lab.sample())
        if (ledger.unaccounted == 0 and not _on_the_way(lab, ledger)) or time.monotonic() >= deadline:
            return ledger
        time.sleep(0.002)


def wait_for_rest(lab: Lab) -> None:
    """Return when nothing changes any more: what is on its way now would open the next ledger."""
    deadline, last = time.monotonic() + _REST_S, -1
    while time.monotonic() < deadline:
        ledger = balance(lab.baseline, lab.sample())
        if ledger.unaccounted in (0, last) and not _on_the_way(lab, ledger):
            return
        last = ledger.unaccounted
        time.sleep(0.005)


def _on_the_way(lab: Lab, ledger: Ledger) -> bool:
    """Whether packets wait where somebody is about to take them; where nobody reads they may wait for ever."""
    waiting = {row.where for row in ledger.rows if row.kind == "in_flight" and row.packets}
    return any(sink.read and sink.where in waiting for sink in list(lab.sinks))
