"""Tunings of the two cards side by side, and what the rings hold while an interrupt waits."""

from __future__ import annotations

from collections.abc import Mapping

from labkit.lesson.page import Table
from labkit.lesson.pictures import Picture
from labkit.lesson.ring_model.charts import lines, parts
from labkit.lesson.ring_model.modelled import Modelled
from labkit.models import Knobs, Outcome, run

__all__ = ["RELATIONS", "TUNINGS", "entries_and_interval", "rings_over_time", "tunings"]

TUNINGS: dict[str, Knobs] = {
    "default": Knobs(),
    "rx-usecs 25": Knobs(rx_usecs=25),
    "both rings 1,024": Knobs(rx_ring=1024, tx_ring=1024),
    "transmit ring 1,024": Knobs(tx_ring=1024),
}
"""What the thread set."""

RELATIONS = ("more than with rx-usecs 25", "about as many", "fewer")

_HEAD = ("tuning", "in, Mpps", "out, Mpps", "lost: rx ring full", "lost: tx ring full", "new pages", "recycled", "idle")
_ALIKE = 0.02
_SHOWN_US = 400.0
_ROWS = 20  # of the table beside the chart


def tunings(chosen: Mapping[str, Knobs] | None = None) -> Modelled:
    """A row for each of ``chosen`` (name → Knobs), by default TUNINGS: what comes in, what goes out, and what was lost where."""
    chosen = TUNINGS if chosen is None else chosen
    found = {name: run(knobs) for name, knobs in chosen.items()}
    rows = tuple((name, *_cells(outcome)) for name, outcome in found.items())
    table = Table(_HEAD, rows, "A model: none of this is measured. Losses and pages are of 3 ms")
    bars = {name: (each.out_pps / 1e6, max(0.0, (each.in_pps - each.out_pps) / 1e6)) for name, each in found.items()}
    names = ("sent, Mpps", "received and not sent")
    picture = parts(bars, names, "Received by the first card: what the second sends of it", table) if bars else None
    return Modelled(table, _answers(found), picture)


def _cells(outcome: Outcome) -> tuple[object, ...]:
    return (
        f"{outcome.in_pps / 1e6:.2f}",
        f"{outcome.out_pps / 1e6:.2f}",
        outcome.lost["receive ring full"],
        outcome.lost["transmit ring full"],
        outcome.allocated,
        f"{100 * outcome.recycle_ratio:.1f} %",
        f"{100 * outcome.idle:.1f} %",
    )


def _answers(found: Mapping[str, Outcome]) -> dict[str, str | float | None]:
    out = {name: each.out_pps for name, each in found.items()}
    answers: dict[str, str | float | None] = {"ring-default": None, "ring-long": None}
    if "default" in out:
        answers["ring-default"] = round(out["default"] / 1e6, 2)
    if {"transmit ring 1,024", "rx-usecs 25"} <= set(out):
        ratio = out["transmit ring 1,024"] / out["rx-usecs 25"]
        answers["ring-long"] = RELATIONS[0 if ratio > 1 + _ALIKE else 2 if ratio < 1 - _ALIKE else 1]
    return answers


def rings_over_time(knobs: Knobs | None = None, *, microseconds: float = _SHOWN_US) -> Picture:
    """Entries taken in both rings, moment by moment, from the first packet on."""
    knobs = Knobs() if knobs is None else knobs
    history = run(knobs, microseconds=microseconds, warm_up=0).history
    series = {
        "transmit ring": [(moment.at_us, float(moment.in_tx_ring)) for moment in history],
        "receive ring": [(moment.at_us, float(moment.in_rx_ring)) for moment in history],
    }
    step = max(1, len(history) // _ROWS)
    rows = tuple((f"{each.at_us:.0f}", each.in_tx_ring, each.in_rx_ring) for each in history[::step])
    table = Table(("µs", "in the transmit ring", "in the receive ring"), rows, f"One moment in {step}")
    usecs = f"rx-usecs {knobs.rx_usecs:g}" if knobs.rx_usecs else "rx-usecs by the driver's choice"
    title = f"Entries taken, with {usecs}, rings of {knobs.rx_ring:,} and {knobs.tx_ring:,}"
    roof = (f"the transmit ring's {knobs.tx_ring:,}", float(knobs.tx_ring))
    return lines(series, "µs", "entries", title, table, roof=roof)


def entries_and_interval(chosen: Mapping[str, Knobs] | None = None) -> Table:
    """Between two clean-ups: how many packets come, how many entries there are, and what share that is; a row a tuning.

    A sum for a napkin, without the model: entries of the transmit ring against packets that come in an interval. Some more
    are sent, as a clean-up takes its time, and what becomes free meanwhile is used.
    """
    rows = []
    for name, each in (TUNINGS if chosen is None else chosen).items():
        come = each.interval_us * 1e-6 * min(each.offered_pps, _fastest(each))
        share = f"{100 * min(1.0, each.tx_ring / come):.0f} %"
        rows.append((name, f"{each.interval_us:.1f} µs", round(come), each.tx_ring, share))
    head = ("tuning", "between two clean-ups", "packets come", "entries", "entries for")
    return Table(head, tuple(rows))


def _fastest(knobs: Knobs) -> float:
    return 1e9 / (knobs.costs.receive_ns + knobs.costs.send_ns)
