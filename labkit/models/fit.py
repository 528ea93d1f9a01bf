"""The times of the model: which were found by which figure of the thread, and the search itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from labkit.models.knobs import Costs, Knobs
from labkit.models.published import PUBLISHED
from labkit.models.ring import run

__all__ = ["FITTED_ON", "IDLE_2017", "Fitted", "fitted"]

IDLE_2017 = 0.05
"""With default tuning the thread has "might have 5% idle cycles"."""

FITTED_ON = {
    "adaptive_us": "default tuning, sent: 6.97 Mpps",
    "receive_ns": "rx-usecs 25, received: 13.10 Mpps",
    "send_ns": "default tuning, idle: 5 %",
    "page_ns": "transmit ring of 1,024 alone, sent: 10 Mpps",
}
"""Time of ``Costs`` → the figure by which it was found. The two others are assumed."""

_ROUNDS, _HALVINGS = 8, 12

_Step = tuple[float, float, Callable[[Costs, float], Costs], Callable[[Costs], float], float]


@dataclass(frozen=True)
class Fitted:
    """The times found, and how far the model still is from each figure that it was fitted on (ratio, model to thread)."""

    costs: Costs
    ratios: dict[str, float]


def fitted() -> Fitted:
    """Search the four times anew, from the middle of each interval: the result doesn't depend on what is stored in Costs."""
    figures = {each.name: each for each in PUBLISHED}

    def mpps(name: str, costs: Costs) -> float:
        figure = figures[name]
        return figure.of(run(replace(figure.knobs, costs=costs)))

    def idle(costs: Costs) -> float:
        return run(Knobs(costs=costs)).idle

    # Each: where to look, how the time is set, a value that falls while it grows, and the wanted value.
    steps: tuple[_Step, ...] = (
        (20.0, 80.0, _set("receive_ns"), lambda c: mpps("usecs_in", c), figures["usecs_in"].mpps),
        (40.0, 160.0, _set("adaptive_us"), lambda c: mpps("default_out", c), figures["default_out"].mpps),
        (2.0, 40.0, _split, lambda c: -idle(c), -IDLE_2017),
        (1.0, 300.0, _set("page_ns"), lambda c: mpps("tx_alone_out", c), figures["tx_alone_out"].mpps),
    )
    costs = Costs(receive_ns=50.0, send_ns=21.0, page_ns=150.5, adaptive_us=100.0)
    for _ in range(_ROUNDS):
        for low, high, put, value, wanted in steps:
            costs = put(costs, _halved(low, high, lambda x: value(put(costs, x)) > wanted))  # noqa: B023
    found = {name: mpps(name, costs) / figure.mpps for name, figure in figures.items() if figure.fitted}
    return Fitted(costs, {**found, "default_idle": idle(costs) / IDLE_2017})


def _set(name: str) -> Callable[[Costs, float], Costs]:
    return lambda costs, value: replace(costs, **{name: value})


def _split(costs: Costs, send_ns: float) -> Costs:
    """Another share of sending in the same sum: a tuned run shows the sum of both times, only idle time shows the share."""
    return replace(costs, send_ns=send_ns, receive_ns=round(costs.receive_ns + costs.send_ns - send_ns, 1))


def _halved(low: float, high: float, too_small: Callable[[float], bool]) -> float:
    """Where ``too_small`` turns false, to the 4,096th part of the interval, and then to a tenth."""
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if too_small(middle) else (low, middle)
    return round((low + high) / 2, 1)
