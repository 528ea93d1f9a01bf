"""What a search finds: a number however it is written, a name, a part of what is shown."""

from __future__ import annotations

import re
import socket
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from labkit.widgets.map_browser_fields import Leaf
from labkit.widgets.map_browser_text import cell

__all__ = ["IN", "MOST_CHARACTERS", "Match", "any_set", "matcher"]

IN = ("keys and values", "keys", "values")
MOST_CHARACTERS = 80

Match = Callable[[bytes, Sequence[bytes]], bool]
"""Whether an entry is found: of its key, and its value on each CPU."""

_ORDER: Any = sys.byteorder
_MAC = re.compile(r"[0-9a-f]{2}(:[0-9a-f]{2}){5}")


def any_set(_key: bytes, parts: Sequence[bytes]) -> bool:
    """Whether there is anything but 0 in a value."""
    return any(part.strip(b"\0") for part in parts)


def matcher(query: str, where: str, keys: Sequence[Leaf], values: Sequence[Leaf]) -> Match | None:
    """What finds ``query`` in keys, in values, or in both; None for nothing to look for.

    A number, decimal or hex, is found where a field is exactly that, or all CPUs together are; an address in either byte
    order. Anything else is found in what is shown, in capitals or not.
    """
    text = query.strip().lower()[:MOST_CHARACTERS]
    if not text:
        return None
    numbers, run = _numbers(text), _run(text)
    in_keys, in_values = where != IN[2], where != IN[1]

    def found(leaf: Leaf, parts: Sequence[bytes]) -> bool:
        if numbers and _is(leaf, parts, numbers):
            return True
        if run and any(run in leaf.cut(part) for part in parts) and leaf.number(parts[0]) is None:
            return True
        return not numbers and any(text in shown for shown in _shown(leaf, parts))

    def match(key: bytes, parts: Sequence[bytes]) -> bool:
        return (in_keys and any(found(leaf, (key,)) for leaf in keys)) or (
            in_values and any(found(leaf, parts) for leaf in values)
        )

    return match


def _shown(leaf: Leaf, parts: Sequence[bytes]) -> Iterator[str]:
    for part in parts:
        for text in cell(leaf, part):
            yield text.lower()


def _is(leaf: Leaf, parts: Sequence[bytes], numbers: frozenset[int]) -> bool:
    if leaf.shape == "numbers":
        return any(not numbers.isdisjoint(leaf.numbers(part)) for part in parts)
    each = [number for part in parts if (number := leaf.number(part)) is not None]
    if not each:
        return False
    if leaf.shape in ("network", "port"):
        each += [int.from_bytes(leaf.cut(part), "big") for part in parts]
    return not numbers.isdisjoint(each) or (leaf.adds_up and len(each) > 1 and sum(each) in numbers)


def _numbers(text: str) -> frozenset[int]:
    """The whole numbers that a text may stand for."""
    if text.count(".") == 3:
        try:
            packed = socket.inet_pton(socket.AF_INET, text)
        except OSError:
            return frozenset()
        return frozenset((int.from_bytes(packed, _ORDER), int.from_bytes(packed, "big")))
    try:
        return frozenset((int(text.replace(",", ""), 0),))
    except ValueError:
        return frozenset()


def _run(text: str) -> bytes:
    """The bytes that a text may stand for: of a MAC address, of an IPv4 address."""
    if _MAC.fullmatch(text):
        return bytes.fromhex(text.replace(":", ""))
    try:
        return socket.inet_pton(socket.AF_INET, text) if text.count(".") == 3 else b""
    except OSError:
        return b""
