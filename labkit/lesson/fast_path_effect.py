"""What one step less would do for each program of the lessons that redirects: whether it may, and for how much."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from html import escape

from labkit.analysis import Report, analyse
from labkit.compile.source import lesson_directory
from labkit.errors import LessonError
from labkit.lesson.fast_path_cost import RedirectCost
from labkit.lesson.fast_path_rig import Rig, Timed, checked_turns
from labkit.lesson.page import Table, block
from labkit.program.program import Program

__all__ = ["LessonEffect", "effect_on_lessons", "lesson_reports"]


def _slot(rig: Rig, program: Program, *, slot: int = 0) -> None:
    program.maps["ports"][slot] = rig.out


def _own_index(rig: Rig, program: Program) -> None:
    _slot(rig, program, slot=rig.out.ifindex)


# Programs that send to a device: how each is told which one. The others of _WITHOUT_A_CLOCK go to CPUs and sockets.
_TO_A_DEVICE: Mapping[tuple[str, str], Callable[[Rig, Program], None]] = {
    ("redirect_devmap.c", "redirect_devmap"): _slot,
    ("egress.c", "to_port"): _slot,
    ("hold_back.c", "hold_back"): _slot,
    ("router.c", "router"): _own_index,
    ("analysis/counted_behind.c", "counted_behind"): _slot,
    ("analysis/counted_before.c", "counted_before"): _slot,
}
_WITHOUT_A_CLOCK = (
    ("broadcast.c", "broadcast"),
    ("to_cpu.c", "to_cpu"),
    ("spread_cpus.c", "spread_cpus"),
    ("on_cpu.c", "on_cpu"),
    ("generic_spread.c", "spread_by_hash"),
    ("to_socket.c", "to_socket"),
)


def lesson_reports() -> dict[tuple[str, str], Report]:
    """Both detectors on each program of the lessons that redirects by a map: (file, function) to its report."""
    known = (*_TO_A_DEVICE, *_WITHOUT_A_CLOCK)
    return {(file, name): analyse(lesson_directory() / file, name)[0] for file, name in known}


@dataclass(frozen=True, repr=False)
class LessonEffect:
    """``reports`` by (file, function); ``timed`` has a lane for each that sends to a device, named by its function."""

    reports: Mapping[tuple[str, str], Report]
    timed: Timed
    most_ns: float

    @property
    def qualified(self) -> tuple[str, ...]:
        """Functions of the programs that could have one step less as they are."""
        return tuple(name for (_, name), report in self.reports.items() if report.qualifies)

    def table(self) -> Table:
        """One row a program."""
        rows, marks = [], []
        for i, ((file, name), report) in enumerate(self.reports.items()):
            why = next((report.why(site) for site in report.sites if not site.dataflow), "")
            total = self.timed.ns(name) if name in self.timed.turns_ns else None
            share = f"{max(self.most_ns, 0.0) / total:.0%}".replace("%", " %") if total else None
            rows.append((file, "yes" if report.qualifies else "no", why, total and round(total), share))
            marks.append((i, 1, "good" if report.qualifies else "bad"))
        head = ("program", "fast path", "why not", "ns a packet", "saved at the very most, if it could")
        caption = (
            f"A whole packet, medians of the quieter half of {self.timed.turns} turns; at the very most {self.most_ns:.1f} ns "
            "of it would be saved. Programs without a time send to CPUs, sockets, or several devices"
        )
        return Table(head, tuple(rows), caption, tuple(marks))

    def __str__(self) -> str:
        return f"{self.table()}\n{self._sentence}"

    __repr__ = __str__

    @property
    def _sentence(self) -> str:
        return f"{len(self.qualified)} of {len(self.reports)} could leave out the second step as they are."

    def _repr_html_(self) -> str:
        return block(f"{self.table().html()}<p>{escape(self._sentence)}</p>")


def effect_on_lessons(cost: RedirectCost, *, packets: int | None = None, turns: int | None = None) -> LessonEffect:
    """Each program of the lessons that redirects by a map: may it, and what would it be worth beside what it takes?

    Lab "lessons". Timed as ``redirect_cost`` is, whose ``most_saved`` counts.
    """
    if not isinstance(cost, RedirectCost):
        raise LessonError(
            f"{cost!r} is no cost of a redirect.",
            tried="to tell what one step less would do for the lessons",
            remedy="give what lesson.redirect_cost() returned",
        )
    packets, turns = checked_turns(packets, turns)
    reports = lesson_reports()
    with Rig("lessons") as rig:
        programs = {}
        for (file, name), aim in _TO_A_DEVICE.items():
            programs[name] = rig.load(file, name)
            aim(rig, programs[name])
        timed = rig.take_turns(programs, packets, turns)
    return LessonEffect(reports, timed, cost.most_saved.ns)
