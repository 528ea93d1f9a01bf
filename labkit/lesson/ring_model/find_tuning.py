"""The exercise "find the tuning": a setting for each of some workloads, scored in the model."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from labkit.lesson.practice import Exercise, Row, register
from labkit.lesson.python_answer import AnswerError
from labkit.lesson.ring_model.bounded import within
from labkit.lesson.ring_model.score import PARTS, WORKLOADS, Score, Scores, Workload, scores

__all__ = ["FIND_THE_TUNING", "LEAST_EACH", "LEAST_MEAN"]

LEAST_EACH, LEAST_MEAN = 80, 90
"""Points of each workload, and of all on average, at least."""

_LOOKS = {
    "losses": "losses: packets that come between two clean-ups need an entry each in the transmit ring, or they are dropped: "
    "shorten the time between (rx_usecs), or lengthen the ring; but a longer transmit ring than receive ring needs new pages",
    "waits": "waits: where more comes than goes out the rings are always full, and the longer they are the longer each packet "
    "waits; where little comes it waits for the interrupt",
    "memory": "memory: a ring holds a buffer for each of its entries, whether packets wait there or not",
    "interrupts": "interrupts: a short time between them wakes the CPU more often than the load asks for; rx_usecs 0 is the "
    "driver's own choice",
}
_SAME = "one tuning for all is not enough: look at work.line_pps and work.offered_pps, and choose by them. "


def _on_trial(answer: Callable[..., Any], _: str | None = None) -> AbstractContextManager[Callable[..., Any]]:
    return nullcontext(answer)


def _run(answer: Callable[..., Any]) -> list[Row]:
    def asked(work: Workload) -> Any:
        try:
            return within(answer, work)
        except AnswerError as error:
            error.detail = f"It was called with the workload “{work.name}”."
            raise

    found = scores(asked)
    rows = [
        Row(
            each.workload.name, f"{LEAST_EACH} points or more", each.words, each.total >= LEAST_EACH, _LOOKS[each.worst]
        )
        for each in found.of
    ]
    enough = found.total >= LEAST_MEAN
    return [
        *rows,
        Row("all together, on average", f"{LEAST_MEAN} points or more", f"{found.total:.1f}", enough, _gain(found)),
    ]


def _gain(found: Scores) -> str:
    """Where most is to be had."""
    poorest: Score = min(found.of, key=lambda each: each.total)
    same = len({tuple(each.settings.values()) for each in found.of}) == 1
    where = f"most is to be had at “{poorest.workload.name}”, by {poorest.worst}"
    if poorest.total >= LEAST_EACH:  # else its own row says what that is about
        where += ": " + _LOOKS[poorest.worst].partition(": ")[2]
    return (_SAME if same else "") + where


_points = ", ".join(f"{most} for {part}" for part, most in PARTS.items())

FIND_THE_TUNING = register(
    Exercise(
        "find-the-tuning",
        "Find the tuning",
        f"find_tuning(work) returns a dict: rx_ring and tx_ring (entries, 16 to 32,768) and rx_usecs (µs between two "
        f"interrupts of a card, 1 to 1,000; 0 is the driver's choice). It is called for {len(WORKLOADS)} workloads; work.name, "
        f"work.offered_pps and work.line_pps tell which. Points of 100: {_points}; the fewer, the more points. Each workload "
        f"needs {LEAST_EACH}, all together {LEAST_MEAN} on average. There is no chance in the model: the same tuning has the "
        f"same points. Nothing is best for everything, and full points for everything can't be had.",
        "find_tuning",
        (
            "lesson.ring_model.scores(find_tuning) shows the points of your function, part by part. Which part loses most?",
            "Losses first: how many packets come in rx_usecs, and has the transmit ring so many entries? "
            "rx_usecs of 25 to 40 does it for a full line with the rings as they are.",
            "On a slow line a long ring is only a long wait: as many entries as the line sends between two clean-ups will do. "
            "if work.line_pps < work.offered_pps: …",
            "Where little comes, wake the CPU less often: rx_usecs 60. Where much comes without filling the line, a longer "
            "transmit ring lets the CPU sleep, too.",
        ),
        _run,
        _on_trial,
        "Python",
    )
)
