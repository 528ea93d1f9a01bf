"""The frame inspector's list: a row a frame. No comm, no kernel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from labkit.errors import StateError
from labkit.follow import Trace
from labkit.program.program import Program
from labkit.widgets.frame_inspector_data import verdict_mark

__all__ = ["TRIED", "Row", "check", "shown_row", "waiting"]

TRIED = "to inspect frames"


@dataclass
class Row:
    """A frame of the list; ``time_s`` since the view began, None for one that was given; ``of`` the frame it was edited from."""

    frame: bytes
    time_s: float | None
    of: int = 0
    summary: str = ""
    trace: Trace | None = None
    failed: str = ""


def shown_row(number: int, row: Row, program: Program | None) -> dict[str, Any]:
    """A row for the browser."""
    sign, role = verdict_mark(row.trace.verdict) if row.trace is not None else ("?", "plain")
    verdict = row.trace.verdict_name if row.trace is not None else "not replayed" if row.failed else "…"
    if row.trace is None and not row.failed and program is None:
        verdict = "no program"
    came = f"edited #{row.of}" if row.of else "given" if row.time_s is None else f"{row.time_s:.2f} s"
    return {
        "number": number,
        "time": came,
        "length": len(row.frame),
        "summary": row.summary,
        "verdict": verdict,
        "sign": sign,
        "role": role,
    }


def waiting(program: Program | None) -> str:
    """What is said of a frame that was not replayed as yet."""
    if program is None:
        return "No program is attached: attach one to see what it does."
    return "It is being replayed …"


def check(fits: bool, given: object, wanted: str, remedy: str) -> None:
    """Raise StateError for what does not fit."""
    if not fits:
        text = repr(given)
        raise StateError(f"{text if len(text) <= 60 else text[:59] + '…'} is not {wanted}.", tried=TRIED, remedy=remedy)
