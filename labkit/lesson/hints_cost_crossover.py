"""From which frame size on metadata pays: the crossing, found by measuring, for composers that have more or less to do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

from labkit.errors import LessonError
from labkit.lesson.hints_cost import Burst, Composer, TimedWay
from labkit.lesson.hints_cost_chart import Mark, Series, chart
from labkit.lesson.hints_cost_checks import check_composers, checked_counts, checked_sizes
from labkit.lesson.hints_cost_pairs import Crossing, Pairs, crossing
from labkit.lesson.page import Table, block

__all__ = ["Crossover", "crossover"]

_SIZES = (64, 96, 128, 192, 256, 512, 1024)
_PACKETS, _PAIRS = 4_001, 25
_LEGEND = (
    "Thin lines: half of the pairs of runs are within. Bands below the line: where the crossing was in 90 of 100 random "
    "selections of the pairs."
)
_COMPOSERS = (Composer.GIVEN, Composer.HASH, Composer.TIME)


@dataclass(frozen=True)
class Crossover:
    """What metadata saves by frame size, for each composer; ``crossings`` says from which size on it pays."""

    packets: int
    sizes: tuple[int, ...]
    measured: Mapping[Composer, tuple[Pairs, ...]]
    crossings: Mapping[Composer, Crossing]
    unaccounted: int

    def __getitem__(self, composer: Composer) -> Crossing:
        try:
            return self.crossings[composer]
        except KeyError:
            raise LessonError(
                f"{composer!r} was not measured.",
                tried="to look a crossing up",
                remedy="these were: " + ", ".join(each.name for each in self.crossings),
            ) from None

    def table(self) -> Table:
        """One row a composer: its gain at each size, and where it crosses 0."""
        head = ("the composer", *(f"{size:,} bytes" for size in self.sizes), "metadata pays")
        rows = tuple(
            (
                composer.value,
                *(
                    f"{_sign(pairs.gain_ns)} ({_sign(pairs.gain_spread_ns[0])} … {_sign(pairs.gain_spread_ns[1])})"
                    for pairs in row
                ),
                str(self.crossings[composer]),
            )
            for composer, row in self.measured.items()
        )
        return Table(head, rows, self._caption())

    def _caption(self) -> str:
        runs = len(next(iter(self.measured.values()))[0].gains_ns)
        return (
            f"ns saved a packet, all on one CPU, GRO off: median of {runs} pairs of runs of {self.packets:,} packets "
            f"(half of the pairs within the brackets); unaccounted {self.unaccounted}"
        )

    def __str__(self) -> str:
        return str(self.table())

    __repr__ = __str__

    def _repr_html_(self) -> str:
        lines = [
            Series(
                composer.value,
                tuple(pairs.gain_ns for pairs in row),
                tuple(pairs.gain_spread_ns for pairs in row),
            )
            for composer, row in self.measured.items()
        ]
        said = "; ".join(f"{composer.value}: metadata pays {found}" for composer, found in self.crossings.items())
        marks = [
            Mark(order, each.at, each.low, each.high)
            for order, each in enumerate(self.crossings.values())
            if each.found
        ]
        title = "What metadata saves a packet, by frame size"
        names = "above the line, metadata saves time; below, it costs"
        svg = chart(title, said, self.sizes, lines, level=0, level_name=names, unit="ns", marks=marks)
        found = "".join(
            f"<li><b>{escape(composer.value)}</b>: metadata pays {escape(str(each))}</li>"
            for composer, each in self.crossings.items()
        )
        return block(
            f"<figure style='margin:0'><figcaption><b>{title}</b></figcaption>{svg}</figure>"
            f'<p class="soft">{_LEGEND}</p><ul>{found}</ul>'
            f"<details><summary>The same as a table</summary>{self.table().html()}</details>"
        )


def _sign(value: float) -> str:
    return f"{value:+.0f}".replace("-", "−")


def crossover(
    *composers: Composer,
    sizes: Sequence[int] = _SIZES,
    packets: int | None = None,
    pairs: int | None = None,
) -> Crossover:
    """Measure from which size on metadata pays where one CPU does all, GRO off; lab "crossover".

    Pairs of runs, without metadata and with it, one right after the other; by default 25 pairs of 4,001 packets for each
    size and composer, fewer where ``$LAB_SCALE`` says so. Raises TrafficError where a packet is unaccounted for.
    """
    chosen, tried = composers or _COMPOSERS, checked_sizes(sizes, least=2)
    check_composers(chosen)
    number, turns = checked_counts(packets, pairs, (_PACKETS, _PAIRS))
    measured: dict[Composer, tuple[Pairs, ...]] = {}
    unaccounted = 0
    with TimedWay("crossover", largest_bytes=max(tried)) as way:
        for composer in chosen:
            measured[composer] = tuple(
                Pairs.of(way.in_turn(turns, Burst(number, size), Burst(number, size, composer))) for size in tried
            )
            unaccounted += way.ledger(Burst(number, max(tried), composer)).unaccounted
    crossings = {composer: crossing(tried, row) for composer, row in measured.items()}
    return Crossover(number, tried, measured, crossings, unaccounted)
