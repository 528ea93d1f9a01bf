"""What notebooks need when they are run: an event loop that stays, and a look at what they leave."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from jupyter_core.utils import ensure_event_loop
from patience import PATIENCE_S
from runner import Run

from labkit.kernel import bpf


@pytest.fixture(scope="module", autouse=True)
def event_loop() -> None:
    """nbclient's loop stays for the whole process, with a pair of sockets: no single test is to blame for them."""
    ensure_event_loop()


@pytest.fixture
def no_trace(tmp_path: Path) -> Iterator[list[Run]]:
    """After the test nothing of the given runs, which were in this folder, is left on the machine."""
    runs: list[Run] = []
    yield runs
    deadline = time.monotonic() + PATIENCE_S
    while left := [*processes_of(tmp_path), *(what for each in runs for what in programs_left(each))]:
        assert time.monotonic() < deadline, left
        time.sleep(0.05)


def processes_of(folder: Path) -> list[str]:
    """Processes whose environment names the folder, as a kernel's does and of all that it starts: with the last of them
    go the namespaces. (Those can't be asked for: their numbers come round, and then are a neighbour's.)"""
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            if os.fsencode(folder) + b"/" in path.read_bytes():
                found.append(f"process {path.parent.name}")
        except OSError:
            continue
    return found


def programs_left(each: Run) -> list[str]:
    left = []
    for ident in each.programs:
        try:
            os.close(bpf.prog_fd_by_id(ident))
        except OSError:
            continue
        left.append(f"program {ident}")
    return left
