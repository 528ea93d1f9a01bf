"""What the command prints: JSON objects, plain tables."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from typing import Any

from labkit.errors import LabError, kernel_word

__all__ = ["error_object", "print_json", "table", "tell", "usage_object"]


def print_json(value: dict[str, Any]) -> None:
    """Print the one JSON object of this run."""
    json.dump(value, sys.stdout, indent=2, ensure_ascii=False)
    sys.stdout.write("\n")


def tell(text: str) -> None:
    """Progress, for whoever watches: on standard error, so that it is never part of a result."""
    print(text, file=sys.stderr, flush=True)


def error_object(error: LabError) -> dict[str, Any]:
    """A LabError for JSON."""
    found = {
        "type": type(error).__name__,
        "message": error.message,
        "tried": error.tried,
        "on": error.on,
        "errno": error.errno,
        "kernel": kernel_word(error.errno) if error.errno is not None else "",
        "detail": error.detail,
        "remedy": error.remedy,
    }
    return {"error": {name: value for name, value in found.items() if value not in ("", None)}}


def usage_object(error: Exception) -> dict[str, Any]:
    """A wrong use for JSON."""
    return {"error": {"type": "UsageError", "message": str(error)}}


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Left-aligned columns under their heads."""
    lines = [list(head), *(list(row) for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines
    )
