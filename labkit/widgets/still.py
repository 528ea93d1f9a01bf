"""What stays on the page where no kernel answers.

JupyterLab forgets the widgets of a kernel that was restarted, saves the notebook without them, and says "model not
found" when it is opened again. So a second output lies under each widget, unseen as long as the widget is there.
"""

from __future__ import annotations

from typing import Any

import anywidget

__all__ = ["Pictured", "Still"]

# Every front end here marks its element with one of these classes; the rest are JupyterLab's.
_LIVE = ".xdp-root,.lab-predict,.widget-html"
_GONE = f".jp-OutputArea:not(:has({_LIVE}))"
_STYLE = (
    "<style>"
    f"{_GONE} .lab-still{{display:block!important}}"
    f"{_GONE} .jp-OutputArea-child:has(+ .jp-OutputArea-child .lab-still){{display:none}}"
    f".jp-OutputArea:has({_LIVE}) .jp-OutputArea-child:has(.lab-still){{display:none}}"
    "</style>"
)


class Still:
    """The still picture of one widget: ``show`` puts both on the page, ``update`` changes the picture alone."""

    def __init__(self) -> None:
        self._handle: Any = None
        self._last = ""

    def show(self, widget: Any, html: str) -> None:
        """Display ``widget`` in the cell that runs, and ``html`` under it for later."""
        from IPython.display import HTML, display

        bundle = widget._repr_mimebundle_()
        data = bundle[0] if isinstance(bundle, tuple) else bundle
        if data is not None:
            display(data, raw=True)  # type: ignore[no-untyped-call]
        self._last = html
        self._handle = display(HTML(_framed(html)), display_id=True)  # type: ignore[no-untyped-call]

    def update(self, html: str) -> None:
        """Change the picture, on every page that shows it. Costs nothing where nothing is shown or new."""
        if self._handle is None or html == self._last:
            return
        from IPython.display import HTML

        self._last = html
        self._handle.update(HTML(_framed(html)))  # type: ignore[no-untyped-call]


def _framed(html: str) -> str:
    return f'{_STYLE}<div class="lab-still" style="display:none">{html}</div>'


class Pictured(anywidget.AnyWidget):
    """A widget that leaves a picture: ``_picture`` gives it as HTML, for a page that no kernel answers."""

    _still: Still

    def _picture(self) -> str:
        raise NotImplementedError

    def _ipython_display_(self) -> None:
        self._still.show(self, self._picture())

    def _repr_mimebundle_(self, **kwargs: Any) -> tuple[dict[str, Any], dict[str, Any]] | None:
        """The live view, and for a page without widgets (a notebook on the web) a still picture."""
        bundle = super()._repr_mimebundle_(**kwargs)
        if bundle is not None:
            bundle[0]["text/html"] = self._picture()
        return bundle
