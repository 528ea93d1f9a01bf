"""What a token allows is what the page for instructors says, and what the kernel then shows."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

from labkit.uapi import AttachType, BpfCmd, MapType, ProgType

ENV = Path(__file__).resolve().parents[2] / "env"
LAUNCHER = runpy.run_path(str(ENV / "sandbox"), run_name="read")


def page(first: str) -> set[str]:
    """The names in the second column of the page's table of what a token allows, in the rows that belong to ``first``."""
    table = re.search(r"## What the token allows\n\n(.*?)\n\n", (ENV / "SANDBOX.md").read_text(), re.DOTALL)
    assert table
    kind, found = "", set()
    for line in table[1].splitlines()[2:]:
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        kind = cells[0] or kind
        if kind == first:
            found |= set(cells[1].split(", "))
    return found


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        ("commands", LAUNCHER["COMMANDS"]),
        ("programs", {**LAUNCHER["PROGRAMS"], **LAUNCHER["TRACING_PROGRAMS"]}),
        ("attach types", LAUNCHER["ATTACHMENTS"]),
        ("maps", LAUNCHER["MAPS"]),
    ],
)
def test_the_page_names_all_that_is_delegated(kind: str, names: dict[str, int]) -> None:
    assert page(kind) == set(names)


@pytest.mark.parametrize(
    ("names", "numbers"),
    [
        ("COMMANDS", BpfCmd),
        ("MAPS", MapType),
        ("PROGRAMS", ProgType),
        ("TRACING_PROGRAMS", ProgType),
        ("ATTACHMENTS", AttachType),
    ],
)
def test_the_numbers_are_the_kernels(names: str, numbers: type) -> None:
    delegated = {name: number for name, number in LAUNCHER[names].items() if name != "none given"}
    assert {name: int(numbers[name]) for name in delegated} == delegated  # type: ignore[index]
