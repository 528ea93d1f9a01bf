"""Who gives buffers back: the five schemes under one load, memory over time, and what each remedy of the thread does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from labkit.lesson.page import Table, number
from labkit.lesson.ring_model.charts import lines, parts
from labkit.lesson.ring_model.modelled import Modelled
from labkit.models import Knobs, Outcome, Scheme, run
from labkit.models.pages import Pages, pages_of

__all__ = ["FATES", "LOAD", "Marked", "five_schemes", "memory_over_time", "remedies"]

LOAD = Knobs(rx_usecs=25)
"""The load that the schemes are compared under: the thread's, tuned."""

FATES = ("as many as before", "fewer", "none any more")

_MIB = 256  # pages
_LONG_US = 50_000.0
_MARK = 1_024  # pages
_ROWS = 16


class Marked(Pages):
    """Two drivers that know nothing of each other, and a mark: so many pages may be out, and then no more.

    Wraps the way of ``Scheme.NOBODY``: what was sent doesn't come home, so the mark, once reached, stays reached.
    """

    def __init__(self, knobs: Knobs, mark: int = _MARK) -> None:
        super().__init__(knobs)
        self._mark = mark

    def _free_of_charge(self, wanted: int, under_way: int) -> int:
        return 0

    def replace(self, wanted: int, under_way: int) -> tuple[int, int]:
        return super().replace(min(wanted, self._mark - self.away), under_way)

    def _left(self, kept: int, fresh: int) -> None:
        self.away += fresh

    def came_home(self, packets: int) -> None:
        """Nobody tells."""


def five_schemes(load: Knobs = LOAD) -> Modelled:
    """A row for each scheme under ``load``: packets, new pages, the most memory, time of the CPU for a packet."""
    found = {scheme.value: run(replace(load, scheme=scheme)) for scheme in Scheme}
    rows = tuple((name, *_cells(outcome)) for name, outcome in found.items())
    head = ("who gives back", "sent, Mpps", "new pages", "recycled", "most pages", "at the end", "grows")
    table = Table(head, rows, "A model, under the same load, for 3 ms")
    counted = {name: (float(outcome.recycled), float(outcome.allocated)) for name, outcome in found.items()}
    picture = parts(counted, ("on a used buffer", "on a new page"), "Packets by where their buffer came from", table)
    best = max(found, key=lambda name: found[name].out_pps)
    return Modelled(table, {"ring-best-scheme": best}, picture)


def _cells(outcome: Outcome) -> tuple[object, ...]:
    return (
        f"{outcome.out_pps / 1e6:.2f}",
        outcome.allocated,
        f"{100 * outcome.recycle_ratio:.0f} %",
        max(outcome.most_pages, outcome.pages_held),
        outcome.pages_held,
        "yes" if _grows(outcome) else "no",
    )


def _grows(outcome: Outcome) -> bool:
    """Whether more pages are taken at the end than in the middle of the time."""
    history = outcome.history
    return bool(history) and outcome.pages_held > 1.2 * history[len(history) // 2].pages


@dataclass(frozen=True)
class _Remedy:
    name: str
    who: str
    knobs: Knobs
    pages: Callable[[Knobs], Pages] = pages_of

    def run(self, microseconds: float) -> Outcome:
        return run(self.knobs, microseconds=microseconds, pages=self.pages(self.knobs))


def _remedies(load: Knobs) -> tuple[_Remedy, ...]:
    def with_scheme(scheme: Scheme) -> Knobs:
        return replace(load, scheme=scheme)

    return (
        _Remedy("nobody tells", "the report", with_scheme(Scheme.NOBODY)),
        _Remedy(f"a mark: {_MARK:,} out", "a limit, alone", with_scheme(Scheme.NOBODY), Marked),
        _Remedy("free the page", "by reference", with_scheme(Scheme.FREE)),
        _Remedy("half pages", "by reference, recycled", with_scheme(Scheme.HALF_PAGES)),
        _Remedy("return to the owner", "a call", with_scheme(Scheme.RETURN)),
        _Remedy("page pool", "a common pool", with_scheme(Scheme.POOL)),
    )


def memory_over_time(load: Knobs = LOAD, *, microseconds: float = _LONG_US) -> Modelled:
    """MiB of buffers over time, for as long as it takes: where nobody tells, with a mark alone, freed, called back."""
    shown = [each for each in _remedies(load) if each.name not in ("half pages", "page pool")]
    series = {
        each.name: [(moment.at_us / 1e3, moment.pages / _MIB) for moment in each.run(microseconds).history]
        for each in shown
    }
    roof = (f"all there is: {load.memory_pages // _MIB:,} MiB", load.memory_pages / _MIB)
    table = _over_time(series, microseconds / 1e3)
    picture = lines(series, "ms", "MiB", "Memory for buffers, in the model", table, roof=roof)
    gone = next((x for x, mib in series["nobody tells"] if mib >= roof[1]), None)
    return Modelled(table, {"ring-memory": None if gone is None else round(gone, 1)}, picture)


def _over_time(series: dict[str, list[tuple[float, float]]], end_ms: float) -> Table:
    """The lines at some moments: what was last seen by then."""
    rows = []
    for row in range(_ROWS + 1):
        now = end_ms * row / _ROWS
        seen = [[mib for x, mib in line if x <= now] for line in series.values()]
        rows.append((f"{now:.1f}", *(number(round(each[-1], 1)) if each else None for each in seen)))
    return Table(("ms", *(f"{name}, MiB" for name in series)), tuple(rows))


def remedies(load: Knobs = LOAD, *, microseconds: float = _LONG_US) -> Modelled:
    """Each remedy named in the thread, long enough for memory to run out without one."""
    rows, late = [], {}
    for each in _remedies(load):
        outcome = each.run(microseconds)
        late[each.name] = each.run(microseconds * 1.5).sent - outcome.sent
        rows.append(
            (
                each.name,
                each.who,
                outcome.sent,
                late[each.name],
                outcome.most_pages,
                outcome.lost["no memory"],
                "yes" if outcome.out_of_memory and outcome.most_pages >= load.memory_pages else "no",
            )
        )
    sent = f"sent in {microseconds / 1e3:.0f} ms"
    head = ("way", "in the thread", sent, "and after that", "most pages", "lost: no buffer", "memory gone")
    first, marked = late["free the page"], late[f"a mark: {_MARK:,} out"]
    fate = FATES[2] if marked == 0 else FATES[1] if marked < 0.9 * first else FATES[0]
    return Modelled(Table(head, tuple(rows), "A model"), {"ring-mark": fate})
