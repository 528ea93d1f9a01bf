"""How what compiler and verifier say is looked up in a catalogue of meanings and remedies."""

from __future__ import annotations

import re

__all__ = ["Entry", "explain"]

# (pattern, searched for; meaning; remedy). Meaning and remedy may use the pattern's groups as {0},
# {1}, …
Entry = tuple[str, str, str]


def explain(catalogue: tuple[Entry, ...], text: str) -> tuple[str, str]:
    """Meaning and remedy of the first entry that fits ``text``; empty where none does."""
    for pattern, meaning, remedy in catalogue:
        found = re.search(pattern, text)
        if found:
            groups = [group or "" for group in found.groups()]
            return meaning.format(*groups), remedy.format(*groups)
    return "", ""
