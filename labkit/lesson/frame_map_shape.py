"""Shapes of a drawing as data: written as SVG for a page, or sent to a widget that makes the same nodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

__all__ = ["Shape", "label", "line", "rect", "shape"]


@dataclass(frozen=True)
class Shape:
    """An SVG element: its tag, attributes, text and children."""

    tag: str
    attributes: tuple[tuple[str, str], ...]
    text: str = ""
    children: tuple[Shape, ...] = ()

    def svg(self) -> str:
        """As SVG text."""
        attributes = "".join(f' {name}="{escape(value)}"' for name, value in self.attributes)
        inner = escape(self.text) + "".join(each.svg() for each in self.children)
        return f"<{self.tag}{attributes}>{inner}</{self.tag}>" if inner else f"<{self.tag}{attributes}/>"

    def json(self) -> list[Any]:
        """As [tag, attributes, text, children] for a front end."""
        return [self.tag, dict(self.attributes), self.text, [each.json() for each in self.children]]


def shape(tag: str, text: str = "", children: Sequence[Shape] = (), **attributes: object) -> Shape:
    """A shape; ``kind`` becomes its class, an underscore in a name a dash, numbers are rounded to a tenth."""
    written = tuple((_name(name), _number(value)) for name, value in attributes.items() if value not in (None, ""))
    return Shape(tag, written, text, tuple(children))


def rect(x: float, y: float, width: float, height: float, kind: str, rx: float = 0, fill: str = "") -> Shape:
    """A rectangle of class ``kind``."""
    return shape("rect", x=x, y=y, width=max(width, 0.0), height=height, kind=kind, rx=rx or None, fill=fill)


def line(way: str, kind: str) -> Shape:
    """A path of class ``kind``."""
    return shape("path", d=way, kind=kind)


def label(x: float, y: float, text: str, kind: str, anchor: str = "start") -> Shape:
    """A text of class ``kind``."""
    return shape("text", text, x=x, y=y, kind=kind, text_anchor=anchor)


def _name(name: str) -> str:
    return "class" if name == "kind" else name.replace("_", "-")


def _number(value: object) -> str:
    return f"{value:.1f}".removesuffix(".0") if isinstance(value, float) else str(value)
