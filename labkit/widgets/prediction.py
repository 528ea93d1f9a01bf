"""The form of a prediction: a question, and a field or choices; what is entered is stored at once.

Real radio buttons and a labelled field, so that the keyboard and a screen reader can use them.
"""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

import anywidget
import traitlets

from labkit.errors import LabError
from labkit.widgets.assets import PREDICTION_CSS, PREDICTION_ESM
from labkit.widgets.comms import answer_beside_cells
from labkit.widgets.still import Still

if TYPE_CHECKING:
    from labkit.lesson.prediction import Prediction

__all__ = ["PredictionForm"]

_shown: dict[str, PredictionForm] = {}


class PredictionForm(anywidget.AnyWidget):
    """Stores what is entered in ``asked``. Errors are shown in the form, never lost in a callback.

    One form a question: asking again, as by running the cell again, closes the first.
    """

    _esm = PREDICTION_ESM
    _css = PREDICTION_CSS
    question = traitlets.Unicode().tag(sync=True)
    choices: Any = traitlets.List(traitlets.Unicode()).tag(sync=True)
    unit = traitlets.Unicode().tag(sync=True)
    value = traitlets.Unicode().tag(sync=True)  # as entered; "" for nothing
    status = traitlets.Unicode().tag(sync=True)
    alert = traitlets.Bool(False).tag(sync=True)

    def __init__(self, asked: Prediction) -> None:
        self._asked = asked
        self._still = Still()
        stored = asked.answer
        shown = "" if stored is None else f"{stored:g}" if isinstance(stored, float) else str(stored)
        super().__init__(
            question=asked.question,
            choices=list(asked.choices),
            unit=asked.unit,
            value=shown,
            status=self._said(),
        )
        answer_beside_cells(self)
        self.observe(self._store, "value")
        if (before := _shown.get(asked.id)) is not None:
            before.close()
        _shown[asked.id] = self

    def close(self) -> None:
        """Take the form off the page. Safe to call again."""
        layout = self.layout  # a widget of its own
        super().close()
        if layout is not None:
            layout.close()

    def _store(self, change: Any) -> None:
        """A callback's exception would vanish in a log: every one is shown."""
        try:
            self._asked.store(str(change["new"]).strip() or None)
        except LabError as error:
            self._tell(f"Not stored: {error.message} {error.remedy}", alert=True)
        except Exception as error:
            self._tell(f"Not stored: {error}", alert=True)
        else:
            self._tell(self._said())

    def _said(self) -> str:
        said = self._asked.answer
        if said is None:
            return "Nothing stored yet."
        shown = said if isinstance(said, str) else f"{said:g} {self._asked.unit}".strip()
        return f"Stored: {shown}. Run the next cell to find out."

    def _tell(self, words: str, *, alert: bool = False) -> None:
        with self.hold_sync():
            self.status, self.alert = words, alert
        self._still.update(self._in_words())

    def _in_words(self) -> str:
        return (
            f"<p><b>Predict.</b> {escape(self.question)} {escape(self.status)} (Run the cell again to change it.)</p>"
        )

    def _ipython_display_(self) -> None:
        self._still.show(self, self._in_words())
