"""The browser's messages go where the browser asks, and the still picture lies under the widget."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from labkit.widgets.comms import answer_beside_cells
from labkit.widgets.still import Still


class Comm:
    """As ipykernel 7.4's: answers go to the thread that spoke last."""

    def _reply_subshell_for(self, _data: Any, _wanted: str | None) -> str | None:
        return None


def test_a_message_is_handled_where_the_browser_asked() -> None:
    widget = SimpleNamespace(comm=Comm())
    answer_beside_cells(widget)
    assert widget.comm._reply_subshell_for({"method": "custom"}, "subshell-1") == "subshell-1"


@pytest.mark.parametrize("comm", [None, object()])
def test_an_older_kernel_is_left_alone(comm: object) -> None:
    answer_beside_cells(SimpleNamespace(comm=comm))


def test_the_still_picture_is_hidden_and_changes_only_for_news(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[Any] = []
    changed: list[str] = []
    handle = SimpleNamespace(update=lambda page: changed.append(page.data))

    def display(what: Any, **_: Any) -> Any:
        shown.append(what)
        return handle

    monkeypatch.setattr("IPython.display.display", display)
    still = Still()
    still.update("<p>never shown</p>")
    still.show(SimpleNamespace(_repr_mimebundle_=lambda: {"text/plain": "a widget"}), "<p>first</p>")
    assert shown[0] == {"text/plain": "a widget"}
    assert '<div class="lab-still" style="display:none"><p>first</p></div>' in shown[1].data
    still.update("<p>first</p>")
    still.update("<p>second</p>")
    assert len(changed) == 1
    assert "<p>second</p>" in changed[0]
