"""The front ends as strings, read once from the package's own files.

The panel's JavaScript is kept in small files without imports and joined here, so that no bundler, no
network and no file watching is needed: anywidget takes one module as a string.
"""

from importlib.resources import files

from labkit.lesson.frame_map_style import FRAME_MAP_CSS as _DRAWN

__all__ = [
    "BYTECODE_CSS",
    "BYTECODE_ESM",
    "BYTECODE_PARTS",
    "CSS",
    "EDITOR_CSS",
    "EDITOR_ESM",
    "EDITOR_PARTS",
    "ESM",
    "FRAME_INSPECTOR_CSS",
    "FRAME_INSPECTOR_ESM",
    "FRAME_INSPECTOR_PARTS",
    "FRAME_MAP_CSS",
    "FRAME_MAP_ESM",
    "FRAME_MAP_PARTS",
    "MAP_BROWSER_CSS",
    "MAP_BROWSER_ESM",
    "MAP_BROWSER_PARTS",
    "PAGE_MAP_CSS",
    "PAGE_MAP_ESM",
    "PAGE_MAP_PARTS",
    "PARTS",
    "PREDICTION_CSS",
    "PREDICTION_ESM",
    "RINGS_CSS",
    "RINGS_ESM",
    "RINGS_PARTS",
    "RING_MODEL_CSS",
    "RING_MODEL_ESM",
    "RING_MODEL_PARTS",
]

PARTS = (
    *("format", "dom", "layout", "layout_narrow", "flow", "detail", "topology", "chart", "ledger"),
    *("cpus", "statistics", "controls", "export", "panel_parts", "panel"),
)
FRAME_MAP_PARTS = ("format", "dom", "controls", "frame_map_bytes", "frame_map")
FRAME_INSPECTOR_PARTS = (
    *(
        "format",
        "dom",
        "controls",
        "live",
        "editor_code",
        "frame_map_bytes",
        "frame_inspector_bytes",
        "frame_inspector",
    ),
)
BYTECODE_PARTS = ("format", "dom", "controls", "editor_code", "bytecode_arrows", "bytecode")
EDITOR_PARTS = ("dom", "format", "editor_code", "editor_said", "editor_work", "editor_versions", "editor")

PAGE_MAP_PARTS = ("format", "dom", "controls", "live", "page_map_art", "page_map")
MAP_BROWSER_PARTS = (
    *("format", "dom", "controls", "live"),
    *("map_browser_table", "map_browser_form", "map_browser"),
)
RINGS_PARTS = ("format", "dom", "controls", "live", "rings_art", "rings")
RING_MODEL_PARTS = (
    *("format", "dom", "controls", "chart", "ledger", "live"),
    *("ring_model_way", "ring_model_plots", "ring_model"),
)


def _read(name: str) -> str:
    return files(__package__).joinpath("static", name).read_text(encoding="utf-8")


def _script(parts: tuple[str, ...]) -> str:
    return "\n".join(_read(f"{part}.js") for part in parts)


def _styles(*sheets: str) -> str:
    return "\n".join(sheets)


ESM: str = _script(PARTS)
CSS: str = _read("panel.css")

PREDICTION_ESM: str = _read("prediction.js")
PREDICTION_CSS: str = _read("prediction.css")

# The panel's look for the controls, and the picture's for the drawing.
FRAME_MAP_ESM: str = _script(FRAME_MAP_PARTS)
FRAME_MAP_CSS: str = _styles(CSS, _DRAWN, _read("frame_map.css"))

EDITOR_ESM: str = _script(EDITOR_PARTS)
EDITOR_CSS: str = _styles(CSS, _read("editor.css"))

BYTECODE_ESM: str = _script(BYTECODE_PARTS)
BYTECODE_CSS: str = _styles(EDITOR_CSS, _read("bytecode.css"))

RINGS_ESM: str = _script(RINGS_PARTS)
RINGS_CSS: str = _styles(CSS, _read("rings.css"))

PAGE_MAP_ESM: str = _script(PAGE_MAP_PARTS)
PAGE_MAP_CSS: str = _styles(CSS, _read("page_map.css"))

FRAME_INSPECTOR_ESM: str = _script(FRAME_INSPECTOR_PARTS)
FRAME_INSPECTOR_CSS: str = _styles(CSS, _read("frame_inspector.css"))

MAP_BROWSER_ESM: str = _script(MAP_BROWSER_PARTS)
MAP_BROWSER_CSS: str = _styles(CSS, _read("map_browser.css"))

RING_MODEL_ESM: str = _script(RING_MODEL_PARTS)
RING_MODEL_CSS: str = _styles(CSS, _read("ring_model.css"))
