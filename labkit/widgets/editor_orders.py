"""What the page asks of an editor. Long work goes to a thread, so that the button that stops it is heard meanwhile."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from labkit.errors import StateError
from labkit.widgets.editor_view import EditorView

__all__ = ["EditorOrders"]


class EditorOrders(EditorView):
    """The side of an editor that hears the page; what it is asked for is the editor's own to do."""

    errors: deque[Exception]

    def _run(self, text: str, request: str) -> object:
        """Compile ``text`` and swap it in; what comes of it is the answer to ``request``."""
        raise NotImplementedError

    def _check(self, text: str, request: str) -> None:
        """Compile ``text`` and let the verifier look at it, likewise."""
        raise NotImplementedError

    def back(self, number: int) -> object:
        """Put a version in place again."""
        raise NotImplementedError

    def save(self, path: str) -> Path:
        """Write the text to a file."""
        raise NotImplementedError

    def reset_text(self) -> None:
        """Put the first text back."""
        raise NotImplementedError

    def _take(self, text: Any) -> None:
        raise NotImplementedError

    def _show_refusal(self, error: BaseException) -> None:
        raise NotImplementedError

    def _heard(self, _widget: object, message: Any, _buffers: object) -> None:
        """Nothing escapes: a callback's exception would go unseen. It is shown, and kept in ``errors``."""
        if not isinstance(message, dict) or self.ended is not None:
            return
        obey: dict[object, Callable[[dict[str, Any]], object]] = {
            "text": self._typed,
            "run": lambda told: self._ask(told, self._run),
            "check": lambda told: self._ask(told, self._check),
            "back": lambda told: self._soon(lambda: self.back(told.get("number", 0))),
            "stop": lambda _: self._work.stop(),
            "diff": lambda told: self._compare(told.get("of"), told.get("to")),
            "save": self._save,
            "original": lambda _: self.reset_text(),
            "function": self._choose,
            "look": lambda _: self._answer(),
        }
        kind = message.get("type")
        if not isinstance(kind, str):
            return
        if kind in obey:
            self._guarded(obey[kind], message)

    def _soon(self, work: Callable[[], object]) -> None:
        """Work that takes its time: this thread has to hear the order to stop it."""
        self._work.order(lambda: self._guarded(lambda _: work(), None))

    def _ask(self, told: dict[str, Any], work: Callable[[str, str], object]) -> None:
        request = str(told.get("request", ""))
        try:
            self._typed(told)
            text = self._text
            self._soon(lambda: work(text, request))
        except StateError:
            self._answered = request
            raise

    def _guarded(self, work: Callable[[Any], object], what: Any) -> None:
        known = len(self.errors), self.errors[-1] if self.errors else None
        try:
            work(what)
        except Exception as error:
            if known == (len(self.errors), self.errors[-1] if self.errors else None):  # else it is shown already
                self._guarded_refusal(error)

    def _guarded_refusal(self, error: Exception) -> None:
        try:
            if not self.lab.closed:
                self._show_refusal(error)
        except Exception as worse:  # as where the lab goes down at this very moment
            self.errors.append(worse)

    def _typed(self, told: dict[str, Any]) -> None:
        if "text" not in told or told["text"] == self._text:
            return
        before = self._text != self.original, self._note
        self._take(told["text"])
        self._give(str(told.get("view", "")))
        if told.get("type") == "text":
            if before != (self._text != self.original, self._note):
                self._show()
            else:
                self._compare_again()
                self._still.update(self._picture())

    def _answer(self) -> None:
        self._look()
        self.alive += 1

    def _choose(self, told: dict[str, Any]) -> None:
        name = str(told.get("name", ""))
        self.history.origin = replace(self.history.origin, function=name)
        self._note = f"{name} is the function that runs next."
        self._show()

    def _save(self, told: dict[str, Any]) -> None:
        try:
            path = self.save(str(told.get("path", "")).strip())
            self._note = f"Saved as {path.absolute()}."
        except StateError as error:
            self._note = f"Not saved. {error.message} {error.remedy[:1].upper()}{error.remedy[1:]}."
        self._show()
