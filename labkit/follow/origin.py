"""Where a value came from: bytes of the frame, an entry of a map, the context, a helper's answer."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["NOWHERE", "Origin", "Origins", "merged"]

_MOST = 8  # a sum over a whole packet comes from more places than anybody reads


@dataclass(frozen=True)
class Origin:
    """``kind`` "frame", "map", "context", "answer" or "more".

    Of the frame: ``offset`` counts from its start as it came (below 0: in front of it), ``length`` in bytes. Of a map:
    ``name``, ``key`` and the place in the value. Of the context: ``name`` is the field. An answer: the helper's ``name``.
    """

    kind: str
    name: str = ""
    offset: int = 0
    length: int = 0
    key: bytes = b""


Origins = frozenset[Origin]
NOWHERE: Origins = frozenset()
_MORE = Origin("more")


def merged(*given: Origins) -> Origins:
    """All of them; where there are too many, so many and that there are more."""
    found = frozenset().union(*given)
    if len(found) <= _MOST:
        return found
    return frozenset(sorted(found, key=lambda each: (each.kind, each.name, each.offset))[: _MOST - 1]) | {_MORE}
