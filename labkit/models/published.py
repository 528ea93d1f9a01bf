"""What was measured in 2017, with two cards (ixgbe) and one CPU, and what of it the model was fitted on."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from labkit.models.knobs import Knobs
from labkit.models.outcome import Outcome

__all__ = ["PUBLISHED", "Published"]


@dataclass(frozen=True)
class Published:
    """A figure of the thread, in Mpps: ``measure`` of ``knobs``. ``fitted``: whether a time of the model was chosen by it."""

    name: str
    what: str
    knobs: Knobs
    measure: Literal["in", "out"]
    mpps: float
    fitted: bool

    def of(self, outcome: Outcome) -> float:
        """The model's figure for it, in Mpps."""
        return (outcome.in_pps if self.measure == "in" else outcome.out_pps) / 1e6


_DEFAULT = Knobs()
_TUNED = replace(_DEFAULT, rx_usecs=25.0)
_RINGS = replace(_DEFAULT, rx_ring=1024, tx_ring=1024)
_TX_ALONE = replace(_DEFAULT, tx_ring=1024)

# The thread of 2017, "XDP redirect measurements, gotchas and tracepoints": its first mail (ethtool statistics), and a later
# one for the transmit ring alone ("from 13 Mpps to 10 Mpps"; it doesn't say how long that ring was: we take 1,024).
PUBLISHED = (
    Published("default_in", "default tuning, received", _DEFAULT, "in", 14.582520, False),
    Published("default_out", "default tuning, sent", _DEFAULT, "out", 6.965579, True),
    Published("usecs_in", "rx-usecs 25, received", _TUNED, "in", 13.101694, True),
    Published("usecs_out", "rx-usecs 25, sent", _TUNED, "out", 13.096427, False),
    Published("rings_in", "rings of 1,024, received", _RINGS, "in", 13.061116, False),
    Published("rings_out", "rings of 1,024, sent", _RINGS, "out", 13.055202, False),
    Published("tx_alone_out", "transmit ring of 1,024 alone, sent", _TX_ALONE, "out", 10.0, True),
)
