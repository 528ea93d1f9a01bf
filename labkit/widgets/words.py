"""Words of errors, made fit to be read on the page."""

from __future__ import annotations

__all__ = ["sentence"]


def sentence(words: str) -> str:
    """A remedy as a sentence of its own: "close it first" → "Close it first."."""
    words = words.strip()
    if not words:
        return ""
    return words[0].upper() + words[1:] + ("" if words[-1] in ".!?…" else ".")
