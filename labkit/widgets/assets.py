"""The panel's front end as two strings, read once from the package's own files.

The JavaScript is kept in small files without imports and joined here, so that no bundler, no
network and no file watching is needed: anywidget takes one module as a string.
"""

from importlib.resources import files

__all__ = ["CSS", "ESM", "PARTS"]

PARTS = ("format", "dom", "layout", "flow", "topology", "chart", "ledger", "controls", "panel")


def _read(name: str) -> str:
    return files(__package__).joinpath("static", name).read_text(encoding="utf-8")


ESM: str = "\n".join(_read(f"{part}.js") for part in PARTS)
CSS: str = _read("panel.css")
