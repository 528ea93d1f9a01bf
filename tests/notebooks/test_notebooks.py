"""The notebooks as shipped, run in a real Jupyter kernel; test_solutions.py has them with the exercises solved."""

from __future__ import annotations

import itertools
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest
import runner
from runner import NOTEBOOKS, Run

from labkit import lesson

ALL = sorted(path.name for path in NOTEBOOKS.glob("*.ipynb"))
_WIDGET = "application/vnd.jupyter.widget-view+json"
_WIDEST = 100  # characters: more would scroll sideways
_LONGEST = 15  # lines of a cell; an exercise's C may be longer
_LONGEST_C = 25
# Lessons of which root sees more than a sandbox does (programs bound to a device, the kernel's own code), and the first.
_MORE_FOR_ROOT = ("00-tour.ipynb", "05-hints.ipynb", "10-redirect-fast-path.ipynb")


def read(name: str) -> Any:
    return nbformat.read(NOTEBOOKS / name, as_version=4)


def code_cells(notebook: Any) -> list[Any]:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def tagged(cell: Any, kind: str) -> str:
    """The exercise's id from a tag as ``check:low-ttl``; "" without one."""
    return next((t.partition(":")[2] for t in cell.metadata.get("tags", []) if t.startswith(f"{kind}:")), "")


def exercises_of(notebook: Any) -> list[str]:
    return [tagged(cell, "check") for cell in code_cells(notebook) if tagged(cell, "check")]


def run(notebook: Any, tmp_path: Path, place: str = "sandbox", rounds: int = 2) -> Run:
    """Run the notebook's cells, as root does with --root or in a sandbox as students do."""
    if place == "root":
        return runner.run(notebook, tmp_path, rounds)
    home = tmp_path / "home"
    home.mkdir()
    nbformat.write(notebook, home / "in.ipynb")
    options = ["--without-tracing"] if place == "sandbox without tracing" else []
    words = [sys.executable, runner.__file__, home / "in.ipynb", home / "out.json", str(rounds)]
    done = subprocess.run(
        [Path(sys.prefix) / "bin" / "labkit", "sandbox", *options, "--", *words],
        env={**os.environ, "XDP_LAB_HOME": str(home)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return runner.read_result(home / "out.json")


def balanced_ledgers(done: Run) -> int:
    """How many ledgers were shown; each must balance."""
    shown = [
        output.data["text/plain"] for outputs in done.rounds for cell in outputs for output in cell if "data" in output
    ]
    ledgers = [text for text in shown if text.startswith("what became of it")]
    for text in ledgers:
        assert "unaccounted ✓" in text, text
    return len(ledgers)


def widgets_in(outputs: list[Any]) -> int:
    return sum(_WIDGET in output.get("data", {}) for output in outputs)


@pytest.mark.parametrize(
    ("name", "place"),
    [(name, "sandbox without tracing") for name in ALL] + [(name, "root") for name in ALL if name in _MORE_FOR_ROOT],
)
def test_as_shipped_exactly_the_exercises_fail(name: str, place: str, tmp_path: Path, no_trace: list[Run]) -> None:
    notebook, rounds = read(name), 1
    done = run(notebook, tmp_path, place, rounds)
    no_trace.append(done)
    checks = done.progress["checks"]
    assert sorted(checks) == sorted(exercises_of(notebook))
    for id, record in checks.items():
        assert (record["passed"], record["attempts"]) == (False, rounds), id
    assert done.namespaces
    assert done.programs
    assert balanced_ledgers(done) >= 2 * rounds
    for outputs in done.rounds:
        for cell, shown in zip(code_cells(notebook), outputs, strict=True):
            if tagged(cell, "check"):
                assert "Not yet" in shown[0].data["text/plain"]
            if cell.source.startswith("lk.predict(") or "LivePanel(" in cell.source or "live_rates(" in cell.source:
                assert widgets_in(shown) == 1, cell.source


@pytest.mark.parametrize("name", ALL)
def test_the_file_is_ready_for_students(name: str) -> None:
    notebook = read(name)
    nbformat.validate(notebook)
    assert notebook.metadata.kernelspec.name == "python3"
    for cell in code_cells(notebook):
        assert cell.outputs == [], "outputs are to be stripped"
        assert cell.execution_count is None
        limit = _LONGEST_C if tagged(cell, "exercise") else _LONGEST
        assert len(cell.source.splitlines()) <= limit, cell.source
        assert max(len(line.expandtabs(4)) for line in cell.source.splitlines()) <= _WIDEST, cell.source
    assert len({cell.id for cell in notebook.cells}) == len(notebook.cells)


@pytest.mark.parametrize("name", ALL)
def test_headings_have_an_order(name: str) -> None:
    levels = [
        len(found[1])
        for cell in read(name).cells
        if cell.cell_type == "markdown"
        for found in re.finditer(r"^(#+) ", cell.source, re.MULTILINE)
    ]
    assert levels.count(1) == 1
    assert levels[0] == 1
    assert all(later <= earlier + 1 for earlier, later in itertools.pairwise(levels))


@pytest.mark.parametrize("name", ALL)
def test_every_prediction_is_compared_after_it(name: str) -> None:
    source = "\n".join(cell.source for cell in code_cells(read(name)))
    asked = re.findall(r'predict\(\s*"([^"]+)"', source)
    assert asked
    for id in asked:
        assert source.find(f'compare("{id}"') > source.find(f'"{id}"'), id


def test_student_cells_hold_the_stubs() -> None:
    """bpf/exercises and the notebooks must not drift apart."""
    found = []
    for name in ALL:
        cells = code_cells(read(name))
        for cell, after in itertools.pairwise(cells):
            if id := tagged(cell, "exercise"):
                found.append(id)
                assert lesson.stub(id) in cell.source
                assert tagged(after, "check") == id
    assert sorted(found) == sorted(each.id for each in lesson.exercises())


@pytest.mark.parametrize("name", ALL)
def test_links_lead_somewhere(name: str) -> None:
    for cell in read(name).cells:
        if cell.cell_type == "markdown":
            for target in re.findall(r"\]\(([^)#:]+)\)", cell.source):
                assert (NOTEBOOKS / target).is_file(), target


def test_a_cell_sees_the_sandbox_and_not_the_machine(tmp_path: Path, no_trace: list[Run]) -> None:
    cells = (
        "!ip -o link",
        "!cat /proc/self/uid_map",
        "import labkit as lk\nlk.predict('x', '?', unit='Mpps', answer=1)",
    )
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in cells])
    done = run(notebook, tmp_path)
    no_trace.append(done)
    links, ids = ("".join(o.get("text", "") for o in cell) for cell in done.rounds[0][:2])
    assert [line.split(": ")[1] for line in links.splitlines()] == ["lo"]
    assert ids.split() == ["0", "65534", "1"]
