"""How long it takes from the key in the editor to the edited program in the driver, over the lessons' programs."""

from __future__ import annotations

import itertools
import os
import time
from pathlib import Path
from statistics import median

from labkit.bench.compilation import private_cache
from labkit.bench.measure import Progress
from labkit.bench.result import BenchResult
from labkit.compile import compile_source
from labkit.compile.source import lesson_directory
from labkit.errors import LabError
from labkit.lab import Lab
from labkit.topology import Topology
from labkit.widgets import ProgramEditor

__all__ = ["run"]


def run(runs: int, progress: Progress, *, most: int | None = None) -> BenchResult:
    """Milliseconds a program, median over all (or ``most``): a text never seen before, from the browser's message on.

    Until its answer, that is. Beside it the bare compilation of a text as new.
    """
    whole: list[float] = []
    bare: list[float] = []
    swaps: list[float] = []
    numbers = itertools.count()
    with private_cache(), Lab(Topology.pair(), name="bench-editor") as lab:
        texts = _runnable(lab, most)
        for turn in range(runs + 1):  # the first one warms up
            for file, function, text in texts:
                fresh = (f"{text}/* {os.getpid()}.{next(numbers)} */\n" for _ in range(2))
                took, swap = _edit(lab, file, function, text, next(fresh))
                began = time.perf_counter()
                compile_source(text=next(fresh), name=file.stem)
                if turn:
                    whole.append(took)
                    swaps.append(swap)
                    bare.append((time.perf_counter() - began) * 1e3)
            progress(f"  run {turn} of {runs}" if turn else "  warmed up")
    value, compiled = median(whole), median(bare)
    return BenchResult(
        value=value,
        unit="ms",
        runs=runs,
        baseline={"compile_alone": compiled},
        ratio={"compile_alone": compiled / value},
        also={"slowest_ms": max(whole), "swap_ms": median(swaps), "programs": len(texts)},
        notes=("edit to running: compile, load, swap and answer; a text never seen before each time",),
    )


def _runnable(lab: Lab, most: int | None) -> list[tuple[Path, str, str]]:
    """The lessons' programs that can run at an interface as they are: file, function and text."""
    found: list[tuple[Path, str, str]] = []
    for file in sorted(lesson_directory().glob("*.c")):
        if most is not None and len(found) >= most:
            break
        text = file.read_text()
        spec = compile_source(path=file)
        for function in list(spec.functions)[:1]:
            try:
                lab.load(spec, function).attach(lab["server"]["eth0"]).close()
            except LabError:  # of another type, or for a device of its own
                continue
            found.append((file, function, text))
    return found


def _edit(lab: Lab, file: Path, function: str, text: str, edited: str) -> tuple[float, float]:
    """Milliseconds from the message to the answer, and those of the swap alone."""
    link = lab.load(compile_source(path=file), function).attach(lab["server"]["eth0"])
    editor = ProgramEditor(link, draft=False)
    try:
        began = time.perf_counter()
        editor._heard(editor, {"type": "run", "text": edited}, [])
        editor._work.wait()
        took = (time.perf_counter() - began) * 1e3
        if editor.text != edited or editor.errors:
            raise editor.errors[-1]
        return took, editor.versions[-1].seconds["swap"] * 1e3
    finally:
        editor.close()
        link.close()
