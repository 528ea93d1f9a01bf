"""The form of a prediction: a question, and a field or choices; what is entered is stored at once.

Usable by keyboard and by screen reader.
"""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

import ipywidgets as widgets

from labkit.errors import LabError

if TYPE_CHECKING:
    from labkit.lesson.prediction import Prediction

__all__ = ["prediction_form"]


def prediction_form(asked: Prediction) -> widgets.Widget:
    """A form that stores what is entered in ``asked``. Errors are shown in the form, never lost in a callback."""
    field = _choices(asked) if asked.choices else _number(asked)
    status = widgets.HTML()
    _tell(status, asked)

    def store(_: Any) -> None:
        """A callback's exception would vanish in a log: every one is shown."""
        try:
            asked.store(field.value if asked.choices else field.value.strip() or None)
        except LabError as error:
            status.value = _line(f"Not stored: {error.message} {error.remedy}", alert=True)
        except Exception as error:
            status.value = _line(f"Not stored: {error}", alert=True)
        else:
            _tell(status, asked)

    field.observe(store, "value")
    question = widgets.HTML(f"<b>Predict.</b> {escape(asked.question)}")
    return widgets.VBox([question, field, status], layout=widgets.Layout(padding="4px 0"))


def _choices(asked: Prediction) -> Any:
    """Buttons, as JupyterLab keeps the arrow keys, which radio buttons need, to itself: Tab to one, Space to choose."""
    stored = asked.answer if asked.answer in asked.choices else None
    return widgets.ToggleButtons(
        options=list(asked.choices),
        value=stored,
        tooltips=list(asked.choices),
        style={"button_width": "auto"},
        layout=widgets.Layout(width="auto"),
    )


def _number(asked: Prediction) -> Any:
    stored = asked.answer
    return widgets.Text(
        value="" if stored is None else f"{stored:g}" if isinstance(stored, float) else str(stored),
        placeholder="a number, then Enter",
        description=asked.unit or "value",
        continuous_update=False,
        tooltip=asked.question,
        layout=widgets.Layout(width="22em"),
    )


def _tell(status: widgets.HTML, asked: Prediction) -> None:
    said = asked.answer
    if said is None:
        status.value = _line("Nothing stored yet.")
    else:
        shown = said if isinstance(said, str) else f"{said:g} {asked.unit}".strip()
        status.value = _line(f"Stored: {shown}. Run the next cell to find out.")


def _line(text: str, *, alert: bool = False) -> str:
    return f'<span role="{"alert" if alert else "status"}">{escape(text)}</span>'
