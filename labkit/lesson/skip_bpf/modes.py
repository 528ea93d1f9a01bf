"""The same steps in native and in generic mode: what a skip could save is less and less of what a packet costs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from labkit.lesson.fast_path_rig import Timed
from labkit.lesson.page import Table
from labkit.lesson.pictures import Picture, bars
from labkit.lesson.skip_bpf.cost import ASKED, DROP, MINIMAL
from labkit.lesson.skip_bpf.rig import SocketRig, checked_volleys
from labkit.program.link import Mode

__all__ = ["SkipModes", "skip_modes"]

# All of them count: in generic mode nobody else does. What the counter takes is in each lane, and in no difference.
_FUNCTIONS = {DROP: "skip_drop_counted", ASKED: "skip_ask_counted", MINIMAL: "skip_counting"}
_MODES: tuple[Mode, ...] = ("native", "generic")


@dataclass(frozen=True, repr=False)
class SkipModes:
    """``timed`` has each mode's lanes."""

    timed: Mapping[str, Timed]

    def whole_ns(self, mode: str) -> float:
        """Nanoseconds of a whole packet to the socket."""
        return self.timed[mode].ns(MINIMAL)

    def share(self, mode: str) -> float:
        """What asking the map is of a whole packet to the socket: a fraction of 1."""
        timed = self.timed[mode]
        return timed.more(ASKED, DROP).ns / self.whole_ns(mode)

    def table(self) -> Table:
        """One row a mode."""
        rows = []
        for mode, timed in self.timed.items():
            asked = timed.more(ASKED, DROP)
            share = f"{self.share(mode):.1%}".replace("%", " %")
            spread = f"{asked.low_ns:.1f} to {asked.high_ns:.1f}"
            rows.append((mode, round(timed.ns(MINIMAL), 1), round(asked.ns, 1), spread, share, timed.unaccounted))
        head = (
            "mode",
            "ns a packet to the socket",
            "ns for the program's question",
            "half of the turns",
            "share",
            "unaccounted",
        )
        return Table(head, tuple(rows), "One CPU for sender and receiver; each mode in a lab of its own")

    def picture(self) -> Picture:
        """A bar for each mode, with the table."""
        times = {f"{mode}, to the socket": timed.ns(MINIMAL) for mode, timed in self.timed.items()}
        asked = {
            f"{mode}, the question alone": max(0.0, timed.more(ASKED, DROP).ns) for mode, timed in self.timed.items()
        }
        title = "A packet to the socket, and the part of it that a skip surely saves"
        drawn = bars({**times, **asked}, "ns", title)
        return Picture(drawn.title, drawn.description, drawn.svg, self.table())

    def __str__(self) -> str:
        return str(self.picture())

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return self.picture()._repr_html_()


def skip_modes(*, packets: int | None = None, turns: int | None = None) -> SkipModes:
    """Three programs in native mode, then in generic mode, in the labs "skip-native" and "skip-generic".

    Counts as in ``skip_cost``. Every packet of every turn is accounted for, else TrafficError.
    """
    packets, turns = checked_volleys(packets, turns)
    found: dict[str, Timed] = {}
    for mode in _MODES:
        with SocketRig(f"skip-{mode}", mode) as rig:
            found[mode] = rig.take_turns(rig.lanes(_FUNCTIONS), packets, turns)
    return SkipModes(found)
