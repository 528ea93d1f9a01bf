"""Models of what a veth pair doesn't have: a card's rings, interrupts that wait, pages that come back or don't.

Nothing here is measured. A model is made of a few rules and a few times; ``PUBLISHED`` are the figures it is held against.
"""

from labkit.models.fit import FITTED_ON, Fitted, fitted
from labkit.models.knobs import ADAPTIVE, Costs, Knobs, Scheme
from labkit.models.outcome import Moment, Outcome
from labkit.models.published import PUBLISHED, Published
from labkit.models.ring import run

__all__ = [
    "ADAPTIVE",
    "FITTED_ON",
    "PUBLISHED",
    "Costs",
    "Fitted",
    "Knobs",
    "Moment",
    "Outcome",
    "Published",
    "Scheme",
    "fitted",
    "run",
]
