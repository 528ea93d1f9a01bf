"""Where the nanoseconds of a redirected packet go, from the differences of real runs; and what one step less could save."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from labkit.errors import LabError
from labkit.kernel import bpf
from labkit.lesson.fast_path_budget import Bracket, Budget, Part, budget_picture
from labkit.lesson.fast_path_rig import Difference, Rig, Timed, checked_turns
from labkit.lesson.page import Table
from labkit.lesson.pictures import Picture
from labkit.program.program import Program

__all__ = [
    "ABORTED",
    "CALL",
    "DROP",
    "INDEX",
    "INDEX_SENT",
    "MISS",
    "NOBODY",
    "PASSED",
    "SENT",
    "TAKEN",
    "RedirectCost",
    "redirect_cost",
    "saved_in_2020_ns",
]

_MPPS_2020 = (21.5, 23.2)  # AF_XDP rxdrop without and with the proposal: its cover letter, June 2020
_TEST_RUNS = 100_003

DROP, CALL, INDEX = "drop", "call, drop", "call by index, drop"
MISS, ABORTED, PASSED = "empty slot, drop", "empty slot, aborted", "empty slot, to the stack"
NOBODY, TAKEN, SENT, INDEX_SENT = "to nobody", "taken at the way out", "redirect", "redirect by index"
_FUNCTIONS = {
    DROP: "fast_drop",
    MISS: "fast_miss",
    ABORTED: "fast_abort",
    CALL: "fast_call",
    INDEX: "fast_index",
    NOBODY: "fast_nobody",
    TAKEN: "fast_send",
    SENT: "fast_send",
    INDEX_SENT: "fast_by_index",
    PASSED: "fast_pass",
}

# Each part of the budget: name, the lane that has it, the lane that hasn't, what the difference contains.
_PARTS = (
    ("step one: the helper", CALL, DROP, "the call, the slot looked up, the note written"),
    (
        "step two: xdp_do_redirect()",
        NOBODY,
        CALL,
        "the call, the note read and cleared, an xdp_frame made in the headroom, the kind of map told apart; and a look "
        "through a map of one empty slot, which a redirect to one target doesn't have",
    ),
    (
        "the queue",
        TAKEN,
        NOBODY,
        "put into the bulk, and a bulk of up to 16 taken out again; the way-out's program, which counts; less the look "
        "through the empty map",
    ),
    (
        "the other end",
        SENT,
        TAKEN,
        "the driver's transmit, the ring of the peer, its poll, its program, which counts; less the way-out's program",
    ),
)


def saved_in_2020_ns() -> float:
    """Nanoseconds a packet that the proposal of 2020 saved on its author's machine, from both rates of its cover letter."""
    without, with_it = (1e3 / rate for rate in _MPPS_2020)
    return without - with_it


@dataclass(frozen=True, repr=False)
class RedirectCost(Budget):
    """A redirect cut into steps. ``timed`` has the lanes; ``clock`` what the kernel's own clock says of step one."""

    timed: Timed
    clock: str

    @property
    def parts(self) -> tuple[Part, ...]:
        """The budget: what every packet costs, then each step of a redirect, in order."""
        first = self.timed.ns(DROP)
        every = "made, handed to the router, shown to its program, dropped: no step of a redirect"
        parts = [Part("without a redirect", Difference(first, first, first), every)]
        parts += [Part(name, self.timed.more(to, than), what) for name, to, than, what in _PARTS]
        return tuple(parts)

    @property
    def most_saved(self) -> Difference:
        """Both steps as far as the queue: more than that nobody saves who still has to look the target up and queue."""
        return self.timed.more(NOBODY, DROP)

    @property
    def redirect_ns(self) -> float:
        """Nanoseconds of a whole packet, from its making to the receiver's drop."""
        return self.timed.ns(SENT)

    @property
    def notes(self) -> tuple[str, ...]:
        """What the figures don't say by themselves."""
        saved, without, with_it = saved_in_2020_ns(), *_MPPS_2020
        return (
            self._left(self.redirect_ns),
            f"One step less can save {self.most_saved} ns here at the very most: all of both steps. The look-up and the "
            "xdp_frame would stay, so it is less.",
            f"In 2020: 1,000 / {without} − 1,000 / {with_it} = {1e3 / without:.1f} − {1e3 / with_it:.1f} = {saved:.1f} ns.",
            self.clock,
            *self._unsure(),
        )

    def lanes(self) -> Table:
        """One row a lane."""
        return self.timed.lanes(DROP)

    def budget(self) -> Picture:
        """The parts one after another on one bar, with their table."""
        most, then = self.most_saved, saved_in_2020_ns()
        return budget_picture(
            "Where the nanoseconds of a redirected packet go",
            self.parts,
            (
                Bracket("could be saved, at most", most.ns, f"{most} ns"),
                Bracket("was saved in 2020", then, f"{then:.1f} ns, another machine"),
            ),
        )


def redirect_cost(*, packets: int | None = None, turns: int | None = None) -> RedirectCost:
    """Ten programs that each go one step further, in turn, in the lab "steps": see bpf/fast_cost.c.

    By default 41 turns each, fewer where ``$LAB_SCALE`` says so. Every packet of every turn is accounted for, else
    TrafficError.
    """
    packets, turns = checked_turns(packets, turns)
    with Rig("steps") as rig:
        programs = {name: rig.load("fast_cost.c", function) for name, function in _FUNCTIONS.items()}
        for name in (CALL, SENT):
            programs[name].maps["ports"][0] = rig.out
        programs[TAKEN].maps["ports"][0] = rig.out, rig.load("fast_cost.c", "fast_egress", at_the_way_out=True)
        for name in (INDEX, INDEX_SENT):
            programs[name].maps["out"][0] = rig.out.ifindex
        timed = rig.take_turns(programs, packets, turns)
        return RedirectCost(timed, _by_the_kernels_clock(programs, rig.frame))


def _by_the_kernels_clock(programs: Mapping[str, Program], frame: bytes) -> str:
    """The mean of many runs over one frame: no driver, and nobody does the second step."""
    found = []
    try:
        for name in (DROP, MISS, CALL, INDEX):
            tries = [bpf.prog_test_run(programs[name].fd, frame, repeat=_TEST_RUNS).duration_ns for _ in range(5)]
            found.append(f"{name} {min(tries)}")
    except (OSError, LabError) as error:
        return f"The kernel's own clock (BPF_PROG_TEST_RUN) can't be asked here: {error}"
    return (
        f"The kernel's own clock, the program alone, whole ns, the quickest of 5 × {_TEST_RUNS:,}: {', '.join(found)}."
    )
