"""What is drawn on the page: the only part of labkit that knows ipywidgets and anywidget."""

from labkit.widgets.panel import LivePanel

__all__ = ["LivePanel"]
