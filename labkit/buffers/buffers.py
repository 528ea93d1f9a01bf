"""All page pools of a lab at one moment: what they hold, what is out, and whether the witnesses agree."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from labkit.buffers.pool import Pool
from labkit.errors import LabError

__all__ = ["Buffers", "Ended"]


@dataclass(frozen=True)
class Ended:
    """Pools that ended, added up in the kernel: none is lost, however many.

    ``stalled`` of them still had pages out when they were first asked to end. ``disconnected`` is a second witness of the
    end (mem_disconnect), for those that frames name by number: the generator's.
    """

    pools: int = 0
    held: int = 0
    released: int = 0
    taken: int = 0
    tries: int = 0
    stalled: int = 0
    disconnected: int = 0
    missed: int = 0


@dataclass(frozen=True)
class Buffers:
    """``pools`` are alive, ``gone`` the last few hundred that ended, ``ended`` the sums of all that did.

    ``frames`` is what the lab's generators sent since the watch began, by their own count; ``run_taken`` the pages that
    their pools took from the page allocator for them. ``unattributed`` counts events for which there was no row: 0, or
    what is shown is too little. ``missed_runs``: how often the kernel left a probe out, machine-wide, as that was running
    on the same CPU already (a page released by an interrupt, amid the event of another). The pools' own counters are
    shown, so no page is missing for it.
    """

    pools: tuple[Pool, ...]
    gone: tuple[Pool, ...]
    ended: Ended
    frames: int
    run_taken: int
    unattributed: int
    missed_runs: int = 0
    notes: tuple[str, ...] = ()

    @property
    def held(self) -> int:
        """Pages taken from the page allocator, by all pools, those that ended included."""
        return self.ended.held + sum(each.held for each in self.pools)

    @property
    def released(self) -> int:
        """Pages given back to it."""
        return self.ended.released + sum(each.released for each in self.pools)

    @property
    def in_flight(self) -> int:
        """``held - released``: what the kernel calls so. Pages that wait in their pool are among them."""
        return self.held - self.released

    @property
    def out(self) -> int:
        """Pages that are really away from their pool."""
        return sum(each.out for each in self.pools)

    @property
    def taken(self) -> int:
        """Pages taken since the watch began."""
        return self.ended.taken + sum(each.taken for each in self.pools)

    @property
    def closing(self) -> tuple[Pool, ...]:
        """Pools that were asked to end and wait for pages."""
        return tuple(each for each in self.pools if each.closing)

    @property
    def recycle_ratio(self) -> float | None:
        """1 - pages that the generator's pools took from the page allocator / frames it sent; None without a frame.

        0 or less where no page came back in time to be used again.
        """
        return 1 - self.run_taken / self.frames if self.frames else None

    @property
    def missed(self) -> int:
        """Events that no probe saw: the difference of two counts, of the pools themselves and of the probes."""
        return self.ended.missed + sum(each.missed for each in self.pools)

    @property
    def agrees(self) -> bool:
        """Whether the pools' own counters and the events agree, but for events that the kernel says it left out."""
        whole = not self.unattributed and self.ended.held == self.ended.released
        return whole and 0 <= self.missed <= self.missed_runs

    def pool(self, number: int) -> Pool:
        """The pool of this number, alive or among the last that ended. Raises LabError."""
        for each in (*self.pools, *self.gone):
            if each.number == number:
                return each
        raise LabError(
            f"There is no pool {number!r} here.",
            tried="to look a page pool up",
            remedy=f"the numbers are: {', '.join(str(each.number) for each in (*self.pools, *self.gone)) or 'none'}",
        )

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        names = ("held", "released", "in_flight", "out", "taken", "frames", "recycle_ratio", "unattributed", "agrees")
        found = {name: getattr(self, name) for name in names}
        pools = [{**asdict(each), "in_flight": each.in_flight, "out": each.out} for each in self.pools]
        return {**found, "pools": pools, "ended": asdict(self.ended)}

    def __str__(self) -> str:
        lines = [f"{'pool':<40} {'held':>9} {'released':>9} {'in flight':>9} {'at home':>9} {'out':>9}"]
        lines += [_line(each) for each in self.pools]
        if self.ended.pools:
            lines.append(
                f"{f'{self.ended.pools:,} that ended':<40} {self.ended.held:>9,} {self.ended.released:>9,} "
                f"{self.ended.held - self.ended.released:>9,}"
            )
        if self.frames:
            lines.append(
                f"{self.frames:,} frames, {self.run_taken:,} pages taken for them: {self.recycle_ratio:.2%} recycled"
            )
        if self.unattributed:
            lines.append(f"{self.unattributed:,} events found no row: the numbers are too small.")
        return "\n".join([*lines, *self.notes])


def _line(pool: Pool) -> str:
    times = "once" if pool.tries == 1 else f"{pool.tries:,} times"
    waits = f"  waits to end, tried {times}" if pool.closing else ""
    return (
        f"{pool.number:>3} {pool.what:<36} {pool.held:>9,} {pool.released:>9,} {pool.in_flight:>9,} "
        f"{pool.home:>9,} {pool.out:>9,}{waits}"
    )
