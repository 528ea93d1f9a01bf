"""What a lesson does where tracing programs are withheld: says so in a line, and goes on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from html import escape
from typing import Any

from labkit.compile import compile_source
from labkit.compile.source import lesson_directory
from labkit.errors import LabError
from labkit.lab import Lab
from labkit.lesson.page import block
from labkit.uapi import ProgType

__all__ = ["Unseen", "if_traced", "untraced"]


@dataclass(frozen=True)
class Unseen:
    """The line that stands where something can't be shown; false."""

    text: str

    def __bool__(self) -> bool:
        return False

    def __str__(self) -> str:
        return self.text

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return block(f"<p class='soft'>{escape(self.text)}</p>")


def untraced(lab: Lab) -> str:
    """Why no program may run at a tracepoint here; "" where one may."""
    try:
        spec = compile_source(path=lesson_directory() / "per_packet_watch.c")
        with lab.load(spec, type=ProgType.RAW_TRACEPOINT) as program:
            program.watch("xdp_redirect").close()
    except LabError as error:
        return f"Tracing programs don't run here ({error.message.rstrip('.')})"
    return ""


def if_traced(lab: Lab, what: str, show: Callable[[], Any]) -> Any:
    """What ``show()`` returns; where tracing programs don't run here, a line that says that ``what`` can't be shown."""
    reason = untraced(lab)
    return Unseen(f"{reason}: {what} can't be shown.") if reason else show()
