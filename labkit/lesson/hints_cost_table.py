"""The table of the thread of 2022, measured here: frame sizes, metadata off and on, GRO off and on, two places for the skb."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from labkit.errors import LessonError
from labkit.lesson.hints_cost import SIZES, Burst, Composer, TimedWay
from labkit.lesson.hints_cost_chart import Series, chart
from labkit.lesson.hints_cost_checks import checked_counts, checked_sizes
from labkit.lesson.hints_cost_pairs import Pairs
from labkit.lesson.page import Table, block
from labkit.lesson.workshop import ONE_CPU

__all__ = ["MetadataCell", "MetadataTable", "metadata_table"]

_PACKETS, _PAIRS = 4_001, 15
SAME, ANOTHER = "the same CPU", "another CPU"

# Kpps by frame size, metadata off and on: the cover letter of the generic hints series, June 2022. A card of the ice
# family and a CPU map within one memory node, and across two; 42 to 1 threads, fewer for larger frames.
_THREAD_SIZES = (64, 128, 256, 512, 1024, 1532)
_WITHIN = {
    False: ((30022, 31350, 21993, 12144, 6374, 3610), (33059, 28502, 21503, 12146, 6380, 3610)),
    True: ((30020, 31822, 21970, 12145, 6384, 3610), (34736, 28848, 21566, 12144, 6381, 3610)),
}
_BETWEEN = {
    False: ((21449, 18078, 16897, 11820, 6383, 3610), (16956, 19004, 14337, 8228, 5683, 2822)),
    True: ((22539, 19129, 16304, 11659, 6381, 3592), (17047, 20366, 15435, 8878, 5600, 2753)),
}


@dataclass(frozen=True)
class MetadataCell:
    """One size, one place, GRO on or off: pairs of runs without metadata and with it; ``unaccounted`` of both ledgers."""

    size: int
    gro: bool
    place: str
    pairs: Pairs
    unaccounted: int


@dataclass(frozen=True)
class MetadataTable:
    """All cells. ``ratio(size, gro=…, place=…)``: the rate with metadata as a part of the rate without."""

    packets: int
    cells: tuple[MetadataCell, ...]
    notes: tuple[str, ...]

    def cell(self, size: int, *, gro: bool = False, place: str = SAME) -> MetadataCell:
        """The one of this size, GRO and place ("the same CPU", "another CPU"). Raises LessonError."""
        for each in self.cells:
            if (each.size, each.gro, each.place) == (size, gro, place):
                return each
        sizes = ", ".join(str(size) for size in self.sizes)
        raise LessonError(
            f"There is no cell of {size!r} bytes, GRO {gro!r}, {place!r}.",
            tried="to look at the table",
            remedy=f"sizes: {sizes}; places: {', '.join(self.places)}",
        )

    def ratio(self, size: int, *, gro: bool = False, place: str = SAME) -> float:
        """The rate with metadata as a part of the rate without: above 1, it pays."""
        return self.cell(size, gro=gro, place=place).pairs.ratio

    @property
    def sizes(self) -> tuple[int, ...]:
        """Bytes of the frames."""
        return tuple(dict.fromkeys(each.size for each in self.cells))

    @property
    def places(self) -> tuple[str, ...]:
        """Where the skb is made."""
        return tuple(dict.fromkeys(each.place for each in self.cells))

    @property
    def unaccounted(self) -> int:
        """Of all ledgers together."""
        return sum(abs(each.unaccounted) for each in self.cells)

    def table(self) -> Table:
        """One row a cell, the thread's own ratio beside it."""
        head = (
            "GRO", "skb made on", "bytes", "Mpps without", "Mpps with", "with : without", "half of the pairs",
            "2022: within a node", "2022: between nodes", "unaccounted",
        )  # fmt: skip
        rows = tuple(
            (
                _on(each.gro),
                each.place,
                each.size,
                each.pairs.mpps(False),
                each.pairs.mpps(True),
                f"{each.pairs.ratio:.2f}",
                "{:.2f} – {:.2f}".format(*each.pairs.ratio_spread),
                _shown(thread_ratio(each.size, each.gro)),
                _shown(thread_ratio(each.size, each.gro, between=True)),
                each.unaccounted,
            )
            for each in self.cells
        )
        return Table(head, rows, self._caption())

    def _caption(self) -> str:
        return (
            f"Rates with metadata and without: medians of {len(self.cells[0].pairs.ratios)} pairs of runs of "
            f"{self.packets:,} packets"
        )

    def __str__(self) -> str:
        return "\n".join([str(self.table()), *self.notes])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        pictures = "".join(self._picture(gro) for gro in dict.fromkeys(each.gro for each in self.cells))
        notes = "".join(f'<p class="soft">{escape(note)}</p>' for note in self.notes)
        table = f"<details><summary>The same as a table</summary>{self.table().html()}</details>"
        return block(f"{pictures}{table}{notes}")

    def _picture(self, gro: bool) -> str:
        lines = []
        for place in self.places:
            row = [self.cell(size, gro=gro, place=place).pairs for size in self.sizes]
            lines.append(
                Series(f"here, {place}", tuple(each.ratio for each in row), tuple(each.ratio_spread for each in row))
            )
        for name, between in (("2022, within a node", False), ("2022, between nodes", True)):
            quoted = tuple(thread_ratio(size, gro, between=between) for size in self.sizes)
            if any(value is not None for value in quoted):
                lines.append(Series(name, quoted, quoted=True))
        title = f"GRO {_on(gro)}: the rate with metadata, as a part of the rate without"
        said = "; ".join(
            f"{each.name}: "
            + ", ".join(f"{size} bytes {_shown(v)}" for size, v in zip(self.sizes, each.values, strict=True))
            for each in lines
        )
        svg = chart(title, said, self.sizes, lines, level=1, level_name="above the line: metadata pays", unit="")
        return f"<figure style='margin:0'><figcaption><b>{title}</b></figcaption>{svg}</figure>"


def _on(gro: bool) -> str:
    return "on" if gro else "off"


def _shown(value: float | None) -> str | None:
    return None if value is None else f"{value:.2f}"


def thread_ratio(size: int, gro: bool, *, between: bool = False) -> float | None:
    """The thread's own rate with metadata as a part of its rate without; None for a size it doesn't have."""
    if size not in _THREAD_SIZES:
        return None
    off, on = (_BETWEEN if between else _WITHIN)[gro]
    at = _THREAD_SIZES.index(size)
    return on[at] / off[at]


def metadata_table(
    sizes: Sequence[int] = SIZES, *, packets: int | None = None, pairs: int | None = None
) -> MetadataTable:
    """Measure it; lab "metadata".

    The XDP program plays the card, ``Composer.GIVEN``. By default 15 pairs of runs of 4,001 packets a cell, fewer where
    ``$LAB_SCALE`` says so. Raises TrafficError where a packet is unaccounted for.
    """
    tried = checked_sizes(sizes)
    number, turns = checked_counts(packets, pairs, (_PACKETS, _PAIRS))
    cells = []
    with TimedWay("metadata", largest_bytes=max(tried)) as way:
        places = {SAME: False} if way.other == way.here else {SAME: False, ANOTHER: True}
        for gro in (False, True):
            for place, other in places.items():
                for size in tried:
                    without, with_it = (
                        Burst(number, size, each, other, gro) for each in (Composer.NOBODY, Composer.GIVEN)
                    )
                    found = Pairs.of(way.in_turn(turns, without, with_it))
                    left = sum(way.ledger(each).unaccounted for each in (without, with_it))
                    cells.append(MetadataCell(size, gro, place, found, left))
        notes = _notes(way)
    return MetadataTable(number, tuple(cells), notes)


def _notes(way: TimedWay) -> tuple[str, ...]:
    notes = [
        "Thin lines: half of the pairs of runs are within.",
        "Here one CPU makes the packets, receives them and composes the metadata; in the thread a card of its own did the "
        "first and the last. So only the ratios are beside one another.",
    ]
    if way.other == way.here:
        notes.append(ONE_CPU)
    elif node_of(way.here) == node_of(way.other):
        notes.append(
            f"CPUs {way.here} and {way.other} share one memory node: the thread's case between two nodes can't be shown."
        )
    else:
        notes.append(f"CPUs {way.here} and {way.other} are of different memory nodes.")
    return tuple(notes)


def node_of(cpu: int) -> int:
    """The memory node of a CPU; 0 where the machine tells of none (drivers/base/cpu.c)."""
    found = sorted(Path(f"/sys/devices/system/cpu/cpu{cpu}").glob("node[0-9]*"))
    return int(found[0].name.removeprefix("node")) if found else 0
