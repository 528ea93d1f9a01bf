"""The notebooks with their exercises solved, each cell run twice in a real Jupyter kernel, in a sandbox."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from runner import NOTEBOOKS, Run
from test_notebooks import (
    ALL,
    balanced_ledgers,
    code_cells,
    exercises_of,
    read,
    run,
    tagged,
)

from labkit import lesson


def solved(notebook: Any) -> Any:
    """The student's cells with the reference solutions in place of the stubs."""
    for cell in code_cells(notebook):
        if id := tagged(cell, "exercise"):
            solution = NOTEBOOKS / "solutions" / lesson.exercise(id).file_name
            cell.source = cell.source.replace(lesson.stub(id), solution.read_text())
            assert lesson.stub(id) not in cell.source
    return notebook


@pytest.mark.parametrize("name", ALL)
def test_with_the_solutions_all_is_green(name: str, tmp_path: Path, no_trace: list[Run]) -> None:
    notebook = solved(read(name))
    done = run(notebook, tmp_path)
    no_trace.append(done)
    assert {id: record["passed"] for id, record in done.progress["checks"].items()} == dict.fromkeys(
        exercises_of(notebook), True
    )
    balanced_ledgers(done)
    for cell, shown in zip(code_cells(notebook), done.rounds[1], strict=True):
        if tagged(cell, "check"):
            assert "Solved" in shown[0].data["text/plain"]
            assert "✗" not in shown[0].data["text/plain"]
