"""A form for one entry: what its fields hold now, what would fit, and for which CPUs a value is meant."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from labkit.widgets.map_browser_edit import ALL_CPUS, THE_SUM, Writing
from labkit.widgets.map_browser_fields import Leaf
from labkit.widgets.map_browser_text import cell, summed, typed, wants

__all__ = ["Form"]

_serial = count(1)
_IN_SLOTS = {
    "interface (ifindex)": "an interface of this lab by host and name, as client eth0",
    "program (id)": "none, or a program of this lab by its name or id",
    "queue in packets": "a number of packets from 1 to 16,384",
}


@dataclass
class Form:
    """For the entry ``key``, or for a new one (None)."""

    writing: Writing
    key: bytes | None
    refused: str = ""
    serial: int = field(default_factory=lambda: next(_serial))

    def shown(self) -> dict[str, Any]:
        """What the page draws; ``text`` is what its inputs begin with."""
        writing, key = self.writing, self.key
        reading = writing.reading
        raw = reading.lookup(key) if key is not None else None
        there = raw is not None
        parts = reading.parts(raw if raw is not None else bytes(reading.bytes))
        choices = _cpu_choices(len(parts), writing.values)
        blank = bytes(reading.spec.key_size)
        return {
            "serial": self.serial,
            "new": key is None,
            "title": "A new entry" if key is None else writing.named(key),
            "keys": [_asked(leaf, typed(leaf, blank), "key") for leaf in writing.keys] if key is None else [],
            "fields": [_field(leaf, parts, choices) for leaf in writing.values] if writing.can_write else [],
            "cpus": choices,
            "row": key.hex() if key is not None else "",
            "can_delete": key is not None and writing.can_delete,
            "note": self._note(len(parts)),
            "refused": self.refused if there or key is None else "This entry isn't there any more.",
        }

    def _note(self, cpus: int) -> str:
        """What a write does beside what was typed."""
        several = len(self.writing.values) > 1 and self.key is not None and self.writing.can_write
        others = ["the other fields"] if several else []
        others += ["the other CPUs' values"] if cpus > 1 else []
        if not others or self.writing.values[0].name in _IN_SLOTS:
            return ""
        return (
            f"The kernel takes an entry as a whole: {' and '.join(others)} are written back as they were read. "
            "What a program adds in between is lost."
        )


def _cpu_choices(cpus: int, values: Sequence[Leaf]) -> list[list[str]]:
    """What a value may be meant for, the likely one first."""
    if cpus == 1:
        return []
    both = [
        [THE_SUM, "the sum (CPU 0 gets it, the others 0)"],
        [ALL_CPUS, f"each of the {cpus} CPUs"],
    ]
    if not all(leaf.adds_up for leaf in values):
        both.reverse()
    return both + [[str(i), f"CPU {i} alone"] for i in range(cpus)]


def _field(leaf: Leaf, parts: Sequence[bytes], choices: Sequence[Sequence[str]]) -> dict[str, Any]:
    if not choices:
        text = cell(leaf, parts[0])[0].replace(",", "") if leaf.name in _IN_SLOTS else typed(leaf, parts[0])
        return {**_asked(leaf, text, "value"), "now": [cell(leaf, parts[0])[0]], "texts": []}
    total = summed(leaf, parts)[0]
    same = len({leaf.cut(part) for part in parts}) == 1
    now, texts = [], []
    for value, _ in choices:
        if value.isdecimal():
            now.append(cell(leaf, parts[int(value)])[0])
            texts.append(typed(leaf, parts[int(value)]))
        elif value == THE_SUM and leaf.adds_up:
            now.append(total)
            texts.append(_total_typed(leaf, parts))
        else:
            now.append(cell(leaf, parts[0])[0] if same else "not the same on each CPU")
            texts.append(typed(leaf, parts[0]) if same else "")
    return {**_asked(leaf, texts[0], "value"), "now": now, "texts": texts}


def _total_typed(leaf: Leaf, parts: Sequence[bytes]) -> str:
    if leaf.shape == "numbers":
        return ", ".join(str(sum(column)) for column in zip(*map(leaf.numbers, parts), strict=True))
    return str(sum(leaf.number(part) or 0 for part in parts))


def _asked(leaf: Leaf, text: str, name: str) -> dict[str, Any]:
    return {"name": leaf.name or name, "wants": _IN_SLOTS.get(leaf.name, wants(leaf)), "text": text}
