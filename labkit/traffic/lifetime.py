"""Things that end with their lab at the latest."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from labkit.lab import Lab

__all__ = ["close_with"]


class _Closable(Protocol):
    def close(self) -> None: ...


def close_with(lab: Lab, owner: _Closable) -> None:
    """Close ``owner`` before ``lab`` is taken down; it isn't kept alive until then."""
    known = weakref.ref(owner)

    def close() -> None:
        if (still := known()) is not None:
            still.close()

    lab.on_close(close)
