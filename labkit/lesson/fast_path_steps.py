"""The two steps of a redirect, drawn; and what the kernel has made of the call today."""

from __future__ import annotations

from labkit.analysis import codes
from labkit.errors import PrivilegeError
from labkit.lesson.page import Table
from labkit.lesson.pictures import Picture, box_at, label_at, svg_of
from labkit.lesson.tracing import Unseen
from labkit.program.program import Program

__all__ = ["calls_in_the_kernel", "two_steps"]

_STAGES = (
    ("program", "calls the helper", "bpf_redirect_map()", "looks the slot up"),
    ("the note", "bpf_redirect_info", "one for each CPU", "target, kind of map, flags"),
    ("program's end", "returns a number", "XDP_REDIRECT", "and nothing else"),
    ("driver", "acts by the number", "xdp_do_redirect()", "reads and clears the note"),
    ("the queue", "of device, CPU, socket", "a bulk of up to 16", "sent when it is full"),
)
_WHO = ("step one", "", "", "step two", "")
_BOX_W, _STEP, _TOP = 158, 186, 34


def two_steps() -> Picture:
    """The way of a redirect: the helper writes a note, the return code goes to the driver, the driver reads the note.

    Below it the short way that was proposed in 2020: from the helper to the queue.
    """
    parts = []
    for i, (name, *lines) in enumerate(_STAGES):
        x = 4 + i * _STEP
        parts.append(box_at(x, _TOP, _BOX_W, 78))
        parts.append(label_at(x + _BOX_W / 2, _TOP + 20, name, "strong", "middle"))
        parts += [
            label_at(x + _BOX_W / 2, _TOP + 37 + 16 * k, line, "soft small", "middle") for k, line in enumerate(lines)
        ]
        if _WHO[i]:
            parts.append(label_at(x + _BOX_W / 2, _TOP - 12, _WHO[i], "strong", "middle"))
        if i:
            parts.append(
                f'<path d="M{x - 25} {_TOP + 39}h20m-6 -5l6 5l-6 5" fill="none" stroke="var(--lab-soft)" stroke-width="2"/>'
            )
    first, last, low = 4 + _BOX_W / 2, 4 + 4 * _STEP + _BOX_W / 2, _TOP + 118
    parts.append(
        f'<path d="M{first:g} {_TOP + 80}V{low}H{last:g}V{_TOP + 84}m-5 8l5 -8l5 8" fill="none" stroke="var(--lab-good)" '
        'stroke-width="2" stroke-dasharray="6 4"/>'
    )
    words = "proposed in 2020: the helper queues at once, where nothing can come between"
    parts.append(label_at((first + last) / 2, low + 18, words, "", "middle"))
    title = "The two steps of a redirect, and the short way"
    said = "; ".join(f"{name}: {', '.join(lines)}" for name, *lines in _STAGES) + f"; {words}"
    table = Table(("where", "what", "by name", "in detail"), _STAGES)
    return Picture(title, said, svg_of(title, said, 4 + 5 * _STEP, low + 28, "".join(parts)), table, open=False)


def calls_in_the_kernel(*programs: Program) -> Table | Unseen:
    """What each call of ``programs`` is as compiled, and as the kernel runs it. In a sandbox a line instead of the table."""
    rows = []
    for program in programs:
        try:
            (translated,) = codes(program)
        except PrivilegeError as error:
            return Unseen(f"{error.message} ({error.remedy}.)")
        (compiled,) = codes(program.spec, program.name)
        here = [compiled.callees[slot].name for slot in sorted(compiled.callees)]
        there = [translated.callees[slot].name for slot in sorted(translated.callees)]
        rows.append((program.name, ", ".join(here), ", ".join(there)))
    return Table(("program", "calls, as compiled", "calls, as the kernel runs it"), tuple(rows))
