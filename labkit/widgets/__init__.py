"""What is drawn on the page: the only part of labkit that knows ipywidgets and anywidget."""

from labkit.widgets.editor import ProgramEditor
from labkit.widgets.frame_map import FrameMap
from labkit.widgets.page_map import PageMap
from labkit.widgets.panel import LivePanel
from labkit.widgets.rings import Rings

__all__ = ["FrameMap", "LivePanel", "PageMap", "ProgramEditor", "Rings"]
