"""What the editor shows: its text, what was said of it, the versions and what differs; and the picture that stays."""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import Any

import traitlets

from labkit.compile.source import shown
from labkit.interface import Interface
from labkit.lab import Lab
from labkit.lesson.source import Listing
from labkit.widgets.assets import EDITOR_CSS, EDITOR_ESM
from labkit.widgets.editor_asked import MOST_CHARACTERS
from labkit.widgets.editor_versions import Versions
from labkit.widgets.editor_words import NOTHING_SAID, cleaned, diff_lines, version_rows
from labkit.widgets.editor_work import Work
from labkit.widgets.still import Pictured, Still

__all__ = ["EditorView"]

_MOST_DIFF_LINES = 2000
_ENDED = {
    "closed": "The lab is closed. Run the cells that make the lab and this editor again to go on; the text is kept.",
    "replaced": "This was shown again: go on there.",
}


class EditorView(Pictured):
    """The side of an editor that the page sees. Every answer to the browser has a new ``turn``."""

    _esm = EDITOR_ESM
    _css = EDITOR_CSS
    given = traitlets.Dict().tag(sync=True)  # the text, and whose it is: a view takes no text that came from itself
    state = traitlets.Dict().tag(sync=True)
    versions_shown: Any = traitlets.List().tag(sync=True)
    diff_shown = traitlets.Dict().tag(sync=True)
    alive = traitlets.Int().tag(sync=True)  # counts the answers to a page that asks whether anyone is there
    ended: str | None = "closed"  # until it has begun

    def __init__(self, lab: Lab, interface: Interface, history: Versions, text: str, original: str) -> None:
        self.lab, self.interface, self.history = lab, interface, history
        self.original = original
        self._text = text
        self._found: dict[str, Any] = NOTHING_SAID
        self._note = ""
        self._answered = ""  # which question of the browser's the last finding is the answer to
        self._turn = 0
        self._still = Still()
        self._work = Work(self._show_work)
        self.ended = None
        super().__init__()

    @property
    def mode(self) -> str:
        """The mode of what runs, or else of what will."""
        link = self.history.link if self.ended is None else None
        return link.mode if link is not None else self.history.mode

    @property
    def ended_words(self) -> str:
        """Why nothing can be done here any more; "" while it can."""
        return _ENDED.get(self.ended or "", "")

    def _give(self, whose: str) -> None:
        """The text for the browser: for every view but the one that it came from."""
        self.given = {"turn": self.given.get("turn", 0) + 1, "text": cleaned(self._text), "whose": whose}

    def _show(self) -> None:
        """Everything anew, and the picture that stays."""
        self._turn += 1
        with self.hold_sync():
            self.state = self._state()
            self._look()
            self._compare_again()
        self._still.update(self._picture())

    def _show_work(self) -> None:
        """That work has begun: the page shows what, for how long, and how to stop it."""
        self.state = {**self.state, **self._work_shown()}

    def _work_shown(self) -> dict[str, Any]:
        return {"working": self._work.at_work, "since_s": round(self._work.seconds, 1)}

    def _state(self) -> dict[str, Any]:
        running = self.history.running if self.ended is None else None
        origin = self.history.origin
        return {
            "turn": self._turn,
            "answered": self._answered,
            **self._work_shown(),
            "title": f"{self.interface.where}, {self.mode} mode",
            "file": shown(Path(origin.path)) if origin.path else "",
            "found": self._found,
            "note": cleaned(self._note),
            "edited": self._text != self.original,
            "functions": list(self.history.functions),
            "function": origin.function or (running.name if running is not None else ""),
            "most": MOST_CHARACTERS,
            "ended": self.ended_words,
        }

    def _look(self) -> None:
        """The versions and their verdicts, where something is new."""
        if self.ended is None:
            running = self.history.running
            self.versions_shown = version_rows(list(self.history.all), running)

    def _compare(self, number: int | None, other: int | None = None) -> None:
        """Show what differs from version ``number`` on; None puts the comparison away. Raises StateError."""
        if number is None:
            self.diff_shown = {}
            return
        lines = diff_lines(self.history.diff(self._text, number, other))
        more = max(0, len(lines) - _MOST_DIFF_LINES)
        self.diff_shown = {"of": number, "to": other, "lines": lines[:_MOST_DIFF_LINES], "more": more}

    def _compare_again(self) -> None:
        """The comparison that is shown, after a change of the text; without it where its version has gone."""
        of, to = self.diff_shown.get("of"), self.diff_shown.get("to")
        if of is not None:
            known = {each.number for each in self.history.all}
            self._compare(of if of in known else None, to if to in known else None)

    def _picture(self) -> str:
        """What a page shows where no kernel answers: the text, as it was left."""
        where = f"The editor of {self.interface.where} in the lab {self.lab.name}."
        note = (
            f"<p><b>A still picture.</b> {escape(where)} Run this notebook's cells again to edit and run this text.</p>"
        )
        return note + Listing(cleaned(self._text))._repr_html_()

    def __repr__(self) -> str:
        if self.ended is not None:
            return f"<editor of {self.interface.where}: {self.ended}>"
        running = self.history.running
        return f"<editor of {self.interface.where}: {f'version {running.number}' if running else 'nothing'} runs>"
