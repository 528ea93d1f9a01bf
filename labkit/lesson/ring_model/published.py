"""The model held against the thread's figures: what was fitted, what was predicted, and what none of it can show."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields, replace
from functools import lru_cache

from labkit.lesson.page import Table
from labkit.lesson.pictures import bars
from labkit.lesson.ring_model.modelled import Modelled
from labkit.lesson.ring_model.strict import StrictHalfPages
from labkit.models import FITTED_ON, PUBLISHED, Costs, Knobs, Published, run
from labkit.models.fit import IDLE_2017

__all__ = ["against_the_thread", "times_of_the_model", "what_it_rests_on"]

_WORDS = {
    "receive_ns": "read a descriptor, run the program, redirect",
    "send_ns": "write a descriptor, complete it later",
    "page_ns": "a new page: allocate, map, free again",
    "return_ns": "a buffer called back to its owner",
    "pool_ns": "a buffer through a pool",
    "adaptive_us": "between two interrupts, by the driver's choice",
    "dma_ns": "an IOMMU's part of each mapping",
}
_MOVED = 0.01  # a figure that changes by more depends on what was changed
_PAGE_NS = range(20, 301, 4)
_ROUNDED = (9.5, 10.5)  # Mpps: what "10 Mpps" may stand for


def times_of_the_model() -> Table:
    """Each time of the model, and the figure of the thread it was found by; the others are assumed."""
    rows = tuple(
        (
            each.name,
            _WORDS.get(each.name, ""),
            getattr(Costs(), each.name),
            each.name.rpartition("_")[2].replace("us", "µs"),
            f"fitted on {FITTED_ON[each.name]}" if each.name in FITTED_ON else "assumed: nobody published it",
        )
        for each in fields(Costs)
    )
    return Table(("time", "what for", "value", "unit", "where from"), rows)


def against_the_thread() -> Modelled:
    """Each published figure beside the model's, their ratio, and whether the model had seen it before."""
    model = {each.name: each.of(run(each.knobs)) for each in PUBLISHED}
    rows = tuple(
        (
            each.what,
            f"{each.mpps:.2f}",
            f"{model[each.name]:.2f}",
            f"{model[each.name] / each.mpps:.3f}",
            "fitted" if each.fitted else "predicted",
        )
        for each in PUBLISHED
    )
    table = Table(("figure", "thread, Mpps", "model, Mpps", "ratio", "the model's figure is"), rows)
    here = {_short(each): round(model[each.name], 2) for each in PUBLISHED}
    there = {_short(each): round(each.mpps, 2) for each in PUBLISHED}
    picture = bars(here, "Mpps", "The model beside 2017: a full bar is the model's", beside=there, beside_name="2017")
    predicted = [model[each.name] / each.mpps for each in PUBLISHED if not each.fitted]
    furthest = max(predicted, key=lambda ratio: abs(ratio - 1))
    return Modelled(table, {"ring-predicted": 100 * abs(furthest - 1)}, picture)


def _short(figure: Published) -> str:
    return figure.what.replace("transmit ring of 1,024 alone", "tx ring 1,024 alone") + (
        " (fitted)" if figure.fitted else ""
    )


@lru_cache(maxsize=1)  # there is no chance in it
def what_it_rests_on() -> Table:
    """What speaks against believing the model, each tried by running it: what was changed, and what came of it."""
    given = Costs()
    rows = (
        ("the predictions lean on one sum", *_share(given)),
        ("and on that sum alone", *_sum(given)),
        ("none of them tests recycling", *_pages(given)),
        ("the figure it was fitted on is round", *_round(given)),
        ("the idle time is not met", "default tuning", _idle(given)),
        ("two times were published by nobody", *_assumed(given)),
        ("half pages are counted, not looked at", *_strict()),
    )
    return Table(("what is doubtful", "tried", "the model says"), rows)


def _mpps(costs: Costs, figures: Iterable[Published] = PUBLISHED) -> dict[str, float]:
    return {each.what: each.of(run(replace(each.knobs, costs=costs))) for each in figures}


def _changed(before: Costs, *after: Costs, figures: Iterable[Published] = PUBLISHED) -> str:
    """Which figures move, and by how much at the most."""
    was = _mpps(before, figures)
    moved: dict[str, float] = {}
    for each in after:
        for what, mpps in _mpps(each, figures).items():
            moved[what] = max(moved.get(what, 0.0), abs(mpps / was[what] - 1))
    shown = [f"{what} ({100 * part:.0f} %)" for what, part in moved.items() if part > _MOVED]
    return "; ".join(shown) or f"no figure moves by more than {100 * _MOVED:.0f} %"


def _predicted() -> list[Published]:
    return [each for each in PUBLISHED if not each.fitted]


def _share(given: Costs) -> tuple[str, str]:
    by = 5.0
    after = [
        replace(given, receive_ns=round(given.receive_ns - each, 1), send_ns=round(given.send_ns + each, 1))
        for each in (-by, by)
    ]
    tried = f"{by:.0f} ns from receiving to sending, and back; the sum as it was"
    return tried, "of the predicted move: " + _changed(given, *after, figures=_predicted())


def _sum(given: Costs) -> tuple[str, str]:
    after = [replace(given, receive_ns=given.receive_ns * each, send_ns=given.send_ns * each) for each in (0.9, 1.1)]
    return "both times 10 % shorter, and longer", "of the predicted move: " + _changed(
        given, *after, figures=_predicted()
    )


def _pages(given: Costs) -> tuple[str, str]:
    return "a new page three times as dear", _changed(given, replace(given, page_ns=3 * given.page_ns))


def _round(given: Costs) -> tuple[str, str]:
    [figure] = [each for each in PUBLISHED if each.name == "tx_alone_out"]
    fits = [
        each
        for each in _PAGE_NS
        if _ROUNDED[0] <= figure.of(run(replace(figure.knobs, costs=replace(given, page_ns=float(each))))) < _ROUNDED[1]
    ]
    tried = f"which page_ns give {_ROUNDED[0]} to {_ROUNDED[1]} Mpps, which the thread would call 10"
    ring = f"; and the ring of {figure.knobs.tx_ring:,} is assumed"
    return tried, (f"from {min(fits)} to {max(fits)} ns" if fits else "none") + ring


def _idle(given: Costs) -> str:
    return f"{100 * run(Knobs(costs=given)).idle:.1f} % idle; the thread: “might have {100 * IDLE_2017:.0f} %”"


def _assumed(given: Costs) -> tuple[str, str]:
    after = replace(given, return_ns=3 * given.return_ns, pool_ns=3 * given.pool_ns)
    return "return_ns and pool_ns three times as long", _changed(given, after)


def _strict() -> tuple[str, str]:
    knobs = Knobs()
    soft, strict = run(knobs), run(knobs, pages=StrictHalfPages(knobs))
    said = (
        f"default tuning: {100 * strict.recycle_ratio:.2f} % of buffers recycled instead of {100 * soft.recycle_ratio:.2f} %, "
        f"{strict.in_pps / 1e6:.2f} Mpps received instead of {soft.in_pps / 1e6:.2f}; the thread has "
        f"{next(each.mpps for each in PUBLISHED if each.name == 'default_in'):.2f}"
    )
    return "a page is used again only if its own other half is back", said
