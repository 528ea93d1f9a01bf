"""Runs a notebook in a real Jupyter kernel, every cell once or twice; in this process, or as a program in a sandbox.

python runner.py NOTEBOOK RESULT ROUNDS    reads the notebook, writes what happened as JSON
"""

from __future__ import annotations

import json
import os
import re
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

from labkit.kernel.netns import namespace_inode

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = ROOT / "notebooks"


@dataclass
class Run:
    """What a kernel did: outputs of each round by cell, the stored progress, what it held at the end."""

    rounds: list[list[Any]]
    progress: dict[str, Any]
    namespaces: set[int]
    programs: set[int]


def namespaces_of(pid: int) -> set[int]:
    found = set()
    for tid in os.listdir(f"/proc/{pid}/task"):
        try:
            found.add(namespace_inode(f"{pid}/task/{tid}"))
        except OSError:
            continue
    return found


def programs_of(pid: int) -> set[int]:
    """Ids of the BPF programs that a process holds descriptors of: /proc/PID/fdinfo."""
    text = ""
    for entry in Path(f"/proc/{pid}/fdinfo").iterdir():
        try:
            text += entry.read_text()
        except OSError:
            continue
    return {int(number) for number in re.findall(r"^prog_id:\s*(\d+)", text, re.MULTILINE)}


def run(notebook: Any, folder: Path, rounds: int) -> Run:
    """Run every cell, ``rounds`` times over in one kernel; stop at the first error. State goes to ``folder``."""
    progress = folder / "progress.json"
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "XDP_LAB_PROGRESS": str(progress),
        "XDP_LAB_STATE": str(folder / "state"),
        "LAB_SCALE": os.environ.get("LAB_SCALE", "0.03"),
    }
    client = NotebookClient(notebook, timeout=120, kernel_name="python3", resources={"metadata": {"path": NOTEBOOKS}})
    outputs = []
    with client.setup_kernel(env=environment):
        for _ in range(rounds):
            for index, cell in enumerate(notebook.cells):
                if cell.cell_type == "code":
                    client.execute_cell(cell, index)
            outputs.append([list(cell.outputs) for cell in notebook.cells if cell.cell_type == "code"])
        pid = client.km.provisioner.pid  # type: ignore[union-attr]
        held = namespaces_of(pid) - {namespace_inode()}, programs_of(pid)
    return Run(outputs, json.loads(progress.read_text()), *held)


def read_result(path: Path) -> Run:
    """What ``main`` wrote."""
    raw = json.loads(path.read_text())
    rounds = [[[nbformat.from_dict(output) for output in cell] for cell in cells] for cells in raw["rounds"]]
    return Run(rounds, raw["progress"], set(raw["namespaces"]), set(raw["programs"]))


def main() -> None:
    source, result = map(Path, sys.argv[1:3])
    done = run(nbformat.read(source, as_version=4), result.parent, int(sys.argv[3]))
    result.write_text(json.dumps(asdict(done), default=list))


if __name__ == "__main__":
    main()
