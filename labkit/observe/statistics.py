"""Statistics of interfaces, only what changed: the view in which the 2017 thread found its losses."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from labkit.lab import Lab
    from labkit.observe.sample import Sample

__all__ = ["Moved", "WhatChanged", "counters_of", "what_changed"]

_HEAD = ("interface", "of", "counter", "by", "per second")
_RIGHT = (3, 4)  # columns of numbers


@dataclass(frozen=True)
class Moved:
    """A counter that moved: ``interface`` as ``host name``; ``of`` "driver" (``ethtool -S``) or "link" (``ip -s link``).

    ``by`` packets, bytes or events, as the counter's name says; ``per_second`` over the time that was watched.
    """

    interface: str
    of: str
    counter: str
    by: int
    per_second: float


class WhatChanged:
    """Counters of a lab's interfaces that moved while the ``with`` block ran, or since then and until ``read``.

    ``rows`` are in order of the interfaces; ``seconds`` is the time watched. In a notebook and in print it is a table.
    """

    def __init__(self, lab: Lab) -> None:
        self._lab = lab
        self.rows: tuple[Moved, ...] = ()
        self.seconds = 0.0
        self._still = 0
        self._before = lab.sample()

    def read(self) -> WhatChanged:
        """Compare with the beginning. Raises StateError where the lab is closed."""
        now = self._lab.sample()
        self.seconds = now.time_s - self._before.time_s
        before, after = counters_of(self._before), counters_of(now)
        moved = ((key, count - before.get(key, 0)) for key, count in after.items())
        self.rows = tuple(Moved(*key, by, by / self.seconds) for key, by in moved if by)
        self._still = len(after) - len(self.rows)
        return self

    def __enter__(self) -> WhatChanged:
        self._before = self._lab.sample()
        return self

    def __exit__(self, *_: object) -> None:
        self.read()

    def __getitem__(self, key: tuple[str, str]) -> int:
        """By how much a counter moved: ``changed["server eth0", "rx_queue_0_xdp_drops"]``; 0 where it stood still."""
        interface, counter = key
        return next((row.by for row in self.rows if (row.interface, row.counter) == (interface, counter)), 0)

    def _cells(self) -> Iterator[tuple[str, ...]]:
        last = ("", "")
        for row in self.rows:
            place = (row.interface, row.of)
            shown = place if place != last else ("", "")
            yield (*shown, row.counter, f"{row.by:,}", f"{row.per_second:,.0f}")
            last = place

    def __str__(self) -> str:
        cells = [_HEAD, *self._cells()]
        widths = [max(len(line[i]) for line in cells) for i in range(len(_HEAD))]
        lines = [
            "  ".join(
                text.rjust(w) if i in _RIGHT else text.ljust(w)
                for i, (text, w) in enumerate(zip(line, widths, strict=True))
            )
            for line in cells
        ]
        lines.insert(1, "  ".join("─" * width for width in widths))
        return "\n".join([*(line.rstrip() for line in lines), self._summary()])

    __repr__ = __str__

    def _summary(self) -> str:
        return f"in {self.seconds:.3g} s; {self._still:,} counters stood still and are not shown"

    def _repr_html_(self) -> str:
        body = "".join(f"<tr>{_line('td', cells)}</tr>" for cells in self._cells())
        return (
            '<table style="font-variant-numeric:tabular-nums"><caption style="text-align:left">Statistics, only what '
            f"changed</caption><thead><tr>{_line('th', _HEAD)}</tr></thead><tbody>{body}</tbody></table>"
            f"<p>{escape(self._summary())}</p>"
        )


def _aligned(cells: tuple[str, ...], widths: list[int]) -> Iterator[str]:
    for i, (text, width) in enumerate(zip(cells, widths, strict=True)):
        yield text.rjust(width) if i in _RIGHT else text.ljust(width)


def _line(tag: str, cells: tuple[str, ...]) -> str:
    scope = ' scope="col"' if tag == "th" else ""
    sides = ("right" if i in _RIGHT else "left" for i in range(len(cells)))
    return "".join(
        f'<{tag}{scope} style="text-align:{side}">{escape(text)}</{tag}>'
        for side, text in zip(sides, cells, strict=True)
    )


def what_changed(lab: Lab) -> WhatChanged:
    """Watch the statistics of a lab's interfaces: ``with lk.what_changed(lab) as changed: …``, then look at ``changed``."""
    return WhatChanged(lab)


def counters_of(sample: Sample) -> dict[tuple[str, str, str], int]:
    """Every counter of every interface: (interface, "driver" or "link", name) → count."""
    return {
        (where, of, name): count
        for where, counters in sample.interfaces.items()
        for of, group in (("driver", counters.driver), ("link", counters.link))
        for name, count in group.items()
    }
