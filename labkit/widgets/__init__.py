"""What is drawn on the page: the only part of labkit that knows ipywidgets and anywidget."""

from labkit.widgets.bytecode import BytecodeView
from labkit.widgets.editor import ProgramEditor
from labkit.widgets.frame_inspector import FrameInspector
from labkit.widgets.frame_map import FrameMap
from labkit.widgets.map_browser import MapBrowser
from labkit.widgets.page_map import PageMap
from labkit.widgets.panel import LivePanel
from labkit.widgets.ring_model import RingModel
from labkit.widgets.rings import Rings

__all__ = [
    "BytecodeView",
    "FrameInspector",
    "FrameMap",
    "LivePanel",
    "MapBrowser",
    "PageMap",
    "ProgramEditor",
    "RingModel",
    "Rings",
]
