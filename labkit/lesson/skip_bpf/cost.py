"""What a packet's way to an AF_XDP socket costs, step by step, and what it could cost if the program were skipped."""

from __future__ import annotations

from dataclasses import dataclass

from labkit.lesson.fast_path_budget import Bracket, Budget, Part, budget_picture
from labkit.lesson.fast_path_rig import Difference, Timed
from labkit.lesson.page import Table
from labkit.lesson.pictures import Picture
from labkit.lesson.skip_bpf.rig import SocketRig, checked_volleys, program_ns
from labkit.lesson.skip_bpf.thread import PUBLISHED

__all__ = ["ASKED", "COUNTING", "DROP", "MINIMAL", "NOBODY", "PARSING", "SkipCost", "skip_cost"]

DROP, ASKED, NOBODY = "drop", "ask for the socket, drop", "to nobody"
MINIMAL, COUNTING, PARSING = "to the socket", "to the socket, and count", "to the socket, if its port is wanted"
_FUNCTIONS = {
    DROP: "skip_drop",
    ASKED: "skip_ask",
    NOBODY: "skip_nobody",
    MINIMAL: "skip_minimal",
    COUNTING: "skip_counting",
    PARSING: "skip_parsing",
}

# Each part of the budget: name, the lane that has it, the lane that hasn't, what the difference contains.
_PARTS = (
    ("the program asks", ASKED, DROP, "bpf_redirect_map(): the slot looked up, the note written"),
    (
        "xdp_do_redirect()",
        NOBODY,
        ASKED,
        "the note read and cleared, the kind of map told apart; here also an xdp_frame, and a look through an empty map, which "
        "the way to a socket doesn't have",
    ),
    (
        "delivery",
        MINIMAL,
        NOBODY,
        "a frame out of the fill ring, the packet copied into it, its address into the receive ring; less the xdp_frame and "
        "the look through the empty map",
    ),
)


@dataclass(frozen=True, repr=False)
class SkipCost(Budget):
    """The way to a socket cut into steps. ``call_ns``: one run of a program that only returns, by the kernel's own clock."""

    timed: Timed
    call_ns: int | None

    @property
    def whole_ns(self) -> float:
        """Nanoseconds of a whole packet, from its making to its place in the receive ring."""
        return self.timed.ns(MINIMAL)

    @property
    def parts(self) -> tuple[Part, ...]:
        """The budget: what every packet costs, then each step on the way to the socket, in order."""
        first = self.timed.ns(DROP)
        every = "made, sent, polled by the receiving driver, shown to a program that drops it"
        parts = [Part("without a socket", Difference(first, first, first), every)]
        return (*parts, *(Part(name, self.timed.more(to, than), what) for name, to, than, what in _PARTS))

    @property
    def least(self) -> Difference:
        """What a skip surely saves, in ns a packet: nobody asks a map. (And the call of a program: ``call_ns``.)"""
        return self.timed.more(ASKED, DROP)

    @property
    def most(self) -> Difference:
        """What it could save at the very most: all of the redirect, too. The socket would have to be found all the same."""
        return self.timed.more(NOBODY, DROP)

    @property
    def more_by_parsing(self) -> Difference:
        """What a program that looks at headers and ports takes more than the smallest."""
        return self.timed.more(PARSING, MINIMAL)

    @property
    def more_by_counting(self) -> Difference:
        """What counting the verdict takes."""
        return self.timed.more(COUNTING, MINIMAL)

    @property
    def most_share(self) -> float:
        """``most`` and the call, as a share of the whole packet."""
        return (max(self.most.ns, 0.0) + (self.call_ns or 0)) / self.whole_ns

    def projection(self) -> Table:
        """The whole packet as it is, and as it would be: ns and Mpps, each with the middle half of the turns."""
        whole, call = self.whole_ns, self.call_ns or 0
        rows: list[tuple[object, ...]] = [
            ("as it is, the smallest program", round(whole, 1), None, round(1e3 / whole, 2), None)
        ]
        for name, saved in (("skipped, at the least", self.least), ("skipped, at the very most", self.most)):
            middle, high, low = (whole - call - each for each in (saved.ns, saved.low_ns, saved.high_ns))
            rows.append(
                (name, round(middle, 1), _range(low, high), round(1e3 / middle, 2), _range(1e3 / high, 1e3 / low, 2))
            )
        head = ("a packet to the socket", "ns", "half of the turns", "Mpps", "half of the turns ")
        clock = (
            f"and {call} ns for the run of a program that only returns"
            if self.call_ns is not None
            else "the call left in"
        )
        return Table(head, tuple(rows), f"Projected, not measured: what is left without the steps, {clock}")

    def beside_2019(self) -> Table:
        """Our saving beside the tables of 2019, in ns a packet."""
        rows = [
            (
                f"2019: {each.what}, turbo {'on' if each.turbo else 'off'}",
                round(each.with_ns, 1),
                round(each.saved_ns, 1),
            )
            for each in PUBLISHED
        ]
        call = self.call_ns or 0
        ours = f"{self.least.ns + call:.1f} to {self.most.ns + call:.1f}"
        return Table(
            ("what", "ns a packet", "ns saved"),
            (*rows, ("here: veth, copy, sender and receiver on one CPU", round(self.whole_ns, 1), ours)),
        )

    def lanes(self) -> Table:
        """One row a lane."""
        return self.timed.lanes(DROP, "waiting in the socket")

    def budget(self) -> Picture:
        """The parts one after another on one bar, and what a skip could save, with their table."""
        then = PUBLISHED[2].saved_ns
        return budget_picture(
            "Where the nanoseconds of a packet to an AF_XDP socket go",
            self.parts,
            (
                Bracket("a skip saves at least", self.least.ns, f"{self.least} ns"),
                Bracket("…and at the very most", self.most.ns, f"{self.most} ns"),
                Bracket("was saved in 2019", then, f"{then:.1f} ns: copy mode, with retpolines"),
            ),
        )

    @property
    def notes(self) -> tuple[str, ...]:
        """What the figures don't say by themselves."""
        clock = (
            "The kernel's own clock can't be asked here for the call of a program: it stays in “without a socket”."
            if self.call_ns is None
            else f"One run of a program that only returns: {self.call_ns} ns by the kernel's own clock (whole ns). It is in "
            "“without a socket”, and a skip would save it as well."
        )
        return (
            self._left(self.whole_ns),
            clock,
            f"Counting the verdict: {self.more_by_counting} ns more. Looking at headers and a map of ports: "
            f"{self.more_by_parsing} ns more.",
            *self._unsure(),
        )


def skip_cost(*, packets: int | None = None, turns: int | None = None) -> SkipCost:
    """Six programs that each go one step further, in turn, in the lab "skip-cost": see bpf/skip_cost.c.

    By default volleys of 2,003 packets and 41 turns, less where ``$LAB_SCALE`` says so. Every packet of every turn is
    accounted for, else TrafficError.
    """
    packets, turns = checked_volleys(packets, turns)
    with SocketRig("skip-cost") as rig:
        programs = rig.lanes(_FUNCTIONS)
        return SkipCost(rig.take_turns(programs, packets, turns), program_ns(programs[DROP], rig.frame))


def _range(low: float, high: float, digits: int = 1) -> str:
    return f"{low:.{digits}f} to {high:.{digits}f}"
