"""What was measured in 2019, with and without the program in the way: the rates, and the times that are in them."""

from __future__ import annotations

from dataclasses import dataclass

from labkit.lesson.page import Table

__all__ = ["PUBLISHED", "Published", "published_table"]


@dataclass(frozen=True)
class Published:
    """A row of the proposal's tables, in Mpps; ``turbo`` tells which of the two. Intel Xeon 8180, 40-Gbit/s card (i40e)."""

    what: str
    turbo: bool
    with_program: float
    skipped: float

    @property
    def with_ns(self) -> float:
        """Nanoseconds a packet with the program."""
        return 1e3 / self.with_program

    @property
    def skipped_ns(self) -> float:
        """Nanoseconds a packet without it."""
        return 1e3 / self.skipped

    @property
    def saved_ns(self) -> float:
        """What the program, its call and its redirect had cost."""
        return self.with_ns - self.skipped_ns

    @property
    def precision_ns(self) -> float:
        """By how much ``saved_ns`` may be off, as rates were given to one decimal: half of the last figure, both ways."""
        return 0.05 * (1e3 / self.with_program**2 + 1e3 / self.skipped**2)


# The thread of 2019, "Add support for SKIP_BPF flag for AF_XDP sockets": its two tables.
PUBLISHED = (
    Published("receive and drop, zero-copy", True, 21.9, 38.5),
    Published("forward, zero-copy", True, 17.0, 20.5),
    Published("receive and drop, copy", True, 11.1, 13.3),
    Published("forward, copy", True, 1.9, 2.0),
    Published("receive and drop, zero-copy", False, 15.4, 29.0),
    Published("forward, zero-copy", False, 11.8, 18.2),
    Published("receive and drop, copy", False, 8.2, 10.5),
    Published("forward, copy", False, 1.7, 1.7),
)


def published_table() -> Table:
    """One row for each pair of rates, with the arithmetic that makes times of them."""
    rows = [
        (
            each.what,
            "on" if each.turbo else "off",
            each.with_program,
            each.skipped,
            f"{each.skipped / each.with_program:.2f} ×",
            f"1,000/{each.with_program} − 1,000/{each.skipped} = {each.with_ns:.1f} − {each.skipped_ns:.1f}",
            f"{each.saved_ns:.1f} ± {each.precision_ns:.1f}",
        )
        for each in PUBLISHED
    ]
    head = ("what", "turbo", "Mpps", "Mpps, skipped", "rate", "in ns a packet", "ns saved")
    caption = "Measured in 2019 by the proposal's author; ±: the rates were given to one decimal"
    return Table(head, tuple(rows), caption)
