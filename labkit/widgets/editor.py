"""ProgramEditor: the C of a running program, edited on the page, compiled on a key, swapped in without losing a packet."""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from labkit.compile import prewarm
from labkit.errors import CompileError, StateError
from labkit.interface import Interface
from labkit.lab import Lab
from labkit.program.link import Link, Mode
from labkit.widgets.comms import answer_beside_cells
from labkit.widgets.editor_asked import MOST_CHARACTERS, TRIED, asked_for
from labkit.widgets.editor_drafts import Draft, save_text
from labkit.widgets.editor_orders import EditorOrders
from labkit.widgets.editor_versions import Version, Versions
from labkit.widgets.editor_words import accepted, goes_on, good, refused

__all__ = ["ProgramEditor"]

_MOST_ERRORS = 50
_shown: dict[tuple[str, str], ProgramEditor] = {}
_watched: weakref.WeakSet[Lab] = weakref.WeakSet()
_shown_lock = threading.RLock()


class ProgramEditor(EditorOrders):
    """An editor for the program at one interface: Ctrl+Enter compiles the text and swaps it in between two packets.

    ``ProgramEditor(link)`` begins with the link's program; ``ProgramEditor(lab, interface, path=…)``, or ``text=…``, with
    a text that runs when it is asked to, in ``mode`` where nothing is attached yet. ``function`` says which one, where
    the text has several. A text that does not compile or load never touches what runs. Maps of the same name and shape
    go on. Edited text is kept on disk beside the progress file, and is there again after a restart or a second run of
    the cell (``draft=False``: not). One editor an interface: showing another ends the first. It ends with the lab.
    What could not be done is shown and kept in ``errors``. Raises LabError for what can't be edited.
    """

    _before: ProgramEditor | None = None

    def __init__(
        self,
        target: Link | Lab,
        interface: Interface | None = None,
        *,
        path: str | os.PathLike[str] | None = None,
        text: str | None = None,
        mode: Mode = "native",
        function: str | None = None,
        draft: bool = True,
    ) -> None:
        lab, at, origin, original = asked_for(target, interface, path, text, mode, function)
        self.errors: deque[Exception] = deque(maxlen=_MOST_ERRORS)
        self._draft = Draft(f"{lab.name} {at.where} {origin.path}", original) if draft else None
        kept = self._draft.read() if self._draft is not None else None
        kept = kept if kept is not None and len(kept) <= MOST_CHARACTERS else None
        history = Versions(lab, at, mode, origin)
        super().__init__(lab, at, history, original if kept is None else kept, original)
        if kept is not None:
            self._note = "This is your edited text, kept from before. “Original” puts the first one back."
        _take_over(self)
        answer_beside_cells(self)
        self.on_msg(self._heard)
        self._give("python")
        self._show()
        prewarm()

    # From Python

    @property
    def text(self) -> str:
        """The text as it stands in the editor. Setting it runs nothing."""
        return self._text

    @text.setter
    def text(self, text: str) -> None:
        self._take(text)
        self._give("python")
        self._show()

    @property
    def versions(self) -> tuple[Version, ...]:
        """Every version that ran, the first one first."""
        self.history.running  # noqa: B018  (one put there by other hands becomes a version)
        return tuple(self.history.all)

    @property
    def running(self) -> Version | None:
        """The version that runs now."""
        return self.history.running

    def run(self) -> Version:
        """Compile the text and swap it in; the version that runs then. ``stop``, from the page or a thread, ends compiling.

        Raises CompileError, VerifierError, LabError: then what ran goes on, and the editor shows why.
        """
        return self._run(self._text)

    def check(self) -> None:
        """Compile the text and let the verifier look at it; what runs is not touched. Raises like ``run``."""
        self._check(self._text)

    def back(self, number: int) -> Version:
        """Put version ``number`` in place again, and its text into the editor. Raises LabError."""
        with self._at_work("Going back"):
            version = self.history.back(number)
            self._take(version.text)
            self._found = good(f"Version {number} runs again.")
            self._give("python")
            return version

    def stop(self) -> bool:
        """Stop the compilation under way, as the page's button does; whether there was one. What runs goes on running."""
        return self._work.stop()

    def diff(self, number: int, other: int | None = None) -> str:
        """A unified diff from version ``number`` to version ``other``, or to the text. Raises StateError."""
        return self.history.diff(self._text, number, other)

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
        """Write the text to a file; its path. Raises StateError where there is one already, unless ``overwrite``."""
        return save_text(self._text, path, overwrite=overwrite)

    def reset_text(self) -> None:
        """Put the first text back into the editor. Runs nothing."""
        self.text = self.original

    def close(self) -> None:
        """Take the editor off the page; what runs goes on. Safe to call again."""
        self._end("closed")
        with _shown_lock:
            for key in [key for key, each in _shown.items() if each is self]:
                del _shown[key]
            before, self._before = self._before, None
        if before is not None:
            before.close()
        layout = self.layout  # a widget of its own, with a comm of its own
        super().close()
        if layout is not None:
            layout.close()

    # The work

    def _run(self, text: str, request: str = "") -> Version:
        began = time.perf_counter()
        with self._at_work("Compiling", request):
            version, new = self.history.run(text)
            self._found = accepted(version, new=new, seconds=time.perf_counter() - began)
            self._note = ""
            return version

    def _check(self, text: str, request: str = "") -> None:
        with self._at_work("Checking", request):
            self.history.check(text)
            self._found = good(f"The text compiles and would load. {goes_on(self.history.running)}")

    @contextmanager
    def _at_work(self, what: str, request: str = "") -> Iterator[None]:
        """A turn at the compiler and the interface; its end is shown, whatever it is, as the answer to ``request``."""
        with self._work.do(what):
            self._check_open()
            try:
                yield
            except BaseException as error:  # an interrupt of the cell too
                self._done(request)
                self._show_refusal(error)
                raise
            self._done(request)
            self._show()

    def _done(self, request: str) -> None:
        self._work.done()
        self._answered = request or self._answered

    def _check_open(self) -> None:
        if self.ended is not None:
            raise StateError(self.ended_words, tried=TRIED, remedy="run the cell of the editor again")

    def _take(self, text: Any) -> None:
        """Make ``text`` the editor's, and keep it."""
        if not isinstance(text, str):
            raise StateError(f"text can't be of type {type(text).__name__}.", tried=TRIED, remedy="give the C text")
        if len(text) > MOST_CHARACTERS:
            raise StateError(
                f"The text has {len(text):,} characters.", tried=TRIED, remedy=f"{MOST_CHARACTERS:,} are the most"
            )
        if text == self._text:
            return
        self._text = text
        self._note = ""
        if self._draft is not None and not self._draft.keep(text):
            self._note = f"The text could not be kept in {self._draft.path.parent}: it lasts as long as this kernel."

    def _show_refusal(self, error: BaseException) -> None:
        if isinstance(error, Exception):
            self.errors.append(error)
        if isinstance(error, CompileError):
            prewarm()  # a fresh compiler, where it was ended
        found = refused(error)
        self._found = {**found, "headline": f"{found['headline']} {goes_on(self.history.running)}"}
        self._show()

    # The end

    def _end(self, why: str) -> None:
        if self.ended is not None:
            return
        self.ended = why
        self._work.end()
        self._show()


def _take_over(made: ProgramEditor) -> None:
    """Make it the one of its interface; the one before says so, the one before that is closed. The lab's end is its end."""
    key = (made.lab.name, made.interface.where)
    with _shown_lock:
        before = _shown.get(key)
        _shown[key] = made
        if made.lab not in _watched:
            _watched.add(made.lab)
            weak = weakref.ref(made.lab)
            made.lab.on_close(lambda: _lab_closed(weak()))
    if before is None:
        return
    if before.lab is made.lab:
        made.history.adopt(before.history)
    before._end("replaced")
    older, before._before = before._before, None
    if older is not None:
        older.close()
    made._before = before


def _lab_closed(lab: Lab | None) -> None:
    for editor in [each for each in list(_shown.values()) if each.lab is lab]:
        editor._end("closed")
