"""BytecodeView: the C of a program beside the instructions it became, and what each line costs."""

from __future__ import annotations

import os
from collections import deque
from typing import Any

import traitlets

from labkit.analysis.listing import Form, ProgramListing, listing
from labkit.lab import Lab
from labkit.program.program import Program
from labkit.program.spec import ProgramSpec
from labkit.widgets.assets import BYTECODE_CSS, BYTECODE_ESM
from labkit.widgets.comms import answer_beside_cells
from labkit.widgets.editor_words import cleaned
from labkit.widgets.still import Pictured, Still

__all__ = ["BytecodeView"]

_MOST_ERRORS = 50
_MOST_ROWS = 4000
_FORMS = {"compiled": "as compiled", "kernel": "as the kernel rewrote it"}


class BytecodeView(Pictured):
    """C lines on the left, with what each costs; instructions on the right, as compiled or as the kernel has rewritten them.

    ``what`` is a loaded program, what ``lk.compile`` returned, or the path of a C file; ``function`` says which, where
    there are several. Read once: when the program is closed, or another one runs in its place, the view says so.
    ``listing`` has all of it as data. Raises LabError for what can't be listed.
    """

    _esm = BYTECODE_ESM
    _css = BYTECODE_CSS
    shown = traitlets.Dict().tag(sync=True)
    state = traitlets.Dict().tag(sync=True)

    def __init__(self, what: Program | ProgramSpec | str | os.PathLike[str], function: str | None = None) -> None:
        self.listing = listing(what, function)
        self.program = what if isinstance(what, Program) else None
        self.errors: deque[Exception] = deque(maxlen=_MOST_ERRORS)
        self._place = _place_of(self.program)
        self._closed = False
        self._still = Still()
        super().__init__()
        answer_beside_cells(self)
        self.on_msg(self._heard)
        self.shown = _payload(self.listing)
        self.state = {"notice": self.notice}

    @property
    def notice(self) -> str:
        """What has become of the program since it was read; "" while nothing has."""
        if self._closed:
            return "Closed. Run the cell that shows it again to go on."
        if self.program is None:
            return ""
        lab, where = self._place
        if self.program.closed:
            return "The program has been closed since; this is what it was."
        if lab is None or lab.closed or not where:
            return ""
        now = next((link.program for link in list(lab.attached) if link.interface.where == where), None)
        if now is self.program:
            return ""
        if now is None:
            return f"The program has been taken off {where} since; it is loaded still."
        return f"{now.name} #{now.id} runs at {where} in its place now; this is what #{self.program.id} was."

    def close(self) -> None:
        """Take it off the page. Safe to call again."""
        self._closed = True
        layout = self.layout  # a widget of its own, with a comm of its own
        super().close()
        if layout is not None:
            layout.close()

    def _heard(self, _widget: object, message: Any, _buffers: object) -> None:
        """The page asks, now and then, whether the program is still the one that runs. Nothing escapes."""
        try:
            if isinstance(message, dict) and message.get("type") == "look":
                self._place = self._place if self._place[1] else _place_of(self.program)
                self.state = {"notice": self.notice}
        except Exception as error:
            self.errors.append(error)
            self.state = {"notice": cleaned(f"{type(error).__name__}: {error}")}

    def _picture(self) -> str:
        note = "<p><b>A still picture.</b> Run this notebook's cells again to choose lines and to search.</p>"
        return note + self.listing._repr_html_()

    def __repr__(self) -> str:
        return f"<bytecode of {self.listing.name}: {self.listing.compiled.instructions:,} instructions>"


def _place_of(program: Program | None) -> tuple[Lab | None, str]:
    """The lab that a program belongs to, and where it is attached now; "" for nowhere."""
    lab = getattr(getattr(program, "attacher", None), "__self__", None)
    if not isinstance(lab, Lab) or lab.closed:
        return None, ""
    return lab, next((link.interface.where for link in list(lab.attached) if link.program is program), "")


def _payload(what: ProgramListing) -> dict[str, Any]:
    """All that the page draws. A line's key is its file and its number."""
    return {
        "title": f"{what.name}, {what.file}",
        "file": what.file,
        "source": cleaned(what.source),
        "facts": [list(each) for each in what.facts],
        "notes": list(what.notes),
        "costs": [
            {
                "key": f"{each.line.file}:{each.line.number}",
                "file": each.line.file,
                "number": each.line.number,
                "text": cleaned(each.line.text),
                "compiled": each.compiled,
                "kernel": each.kernel,
                "jited": each.jited,
            }
            for each in what.costs
        ],
        "forms": [_form(form) for form in what.forms],
        "code": what.jit.code.hex(" ") if what.jit is not None else "",
    }


def _form(form: Form) -> dict[str, Any]:
    rows = form.rows[:_MOST_ROWS]
    return {
        "name": form.name,
        "label": _FORMS[form.name],
        "more": len(form.rows) - len(rows),
        "rows": [
            {
                "slot": row.slot,
                "words": cleaned(row.words),
                "key": f"{row.line.file}:{row.line.number}" if row.line is not None else "",
                "function": row.function,
                "target": row.target,
            }
            for row in rows
        ],
    }
