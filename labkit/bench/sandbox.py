"""What a sandbox costs: the generator's rate inside and as root, and the time to open one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

from labkit.bench.measure import Progress, paired
from labkit.bench.result import BenchResult
from labkit.errors import LabError, PrivilegeError
from labkit.sandbox.start import inside

__all__ = ["run"]

_OPEN = "ms to open a sandbox, run `true` and close it"
_LABKIT = [sys.executable, "-m", "labkit.cli"]


def run(runs: int, progress: Progress, *, packets: int = 2_000_003) -> BenchResult:
    """Mpps of 64-byte UDP frames into a veth whose peer drops them: in a sandbox, and as root, in turn.

    Raises PrivilegeError where this process isn't root outside a sandbox, as it needs both.
    """
    if os.geteuid() or inside():
        raise PrivilegeError(
            "Only root, outside a sandbox, can compare a sandbox with root.",
            tried="to run the benchmark `sandbox`",
            remedy="sudo ./env/run labkit bench sandbox",
        )
    measure = [*_LABKIT, "demo", "drop", "--packets", str(packets), "--json"]

    def in_sandbox() -> float:
        return _mpps([*_LABKIT, "sandbox", "--", *measure])

    def as_root() -> float:
        return _mpps(measure)

    def opened() -> float:
        began = time.perf_counter()
        _output([*_LABKIT, "sandbox", "--", "true"])
        return (time.perf_counter() - began) * 1e3

    return paired(
        in_sandbox,
        {"as_root": as_root},
        unit="Mpps",
        better="more",
        runs=runs,
        progress=progress,
        also={_OPEN: opened},
        notes=(f"{packets:,} packets a run, each run in a process of its own",),
    )


def _mpps(words: list[str]) -> float:
    return float(json.loads(_output(words))["pps"]) / 1e6


def _output(words: list[str]) -> str:
    # From the lab's own folder, which a sandbox is shown: `-m` finds labkit there.
    folder = Path(__file__).resolve().parents[2]
    done = subprocess.run(words, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode:
        raise LabError("A run of the benchmark failed.", tried=" ".join(words), detail=done.stderr.strip())
    return done.stdout
