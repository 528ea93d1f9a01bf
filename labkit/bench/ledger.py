"""How long one reading of all counters takes: the lab's ledger, and the commands that show a part of the same."""

from __future__ import annotations

import os
import shutil
import subprocess

from labkit.bench.measure import Measure, Progress, elapsed_ms, paired
from labkit.bench.result import BenchResult
from labkit.lab import Lab
from labkit.topology import Topology

__all__ = ["run"]


def run(runs: int, progress: Progress, *, readings: int = 50) -> BenchResult:
    """Milliseconds a ledger of an idle client – server pair."""
    with Lab(Topology.pair(), name="bench-ledger") as lab:
        baselines: dict[str, Measure] = {}
        notes = [f"mean of {readings} readings a run"]
        if shutil.which("ip") and shutil.which("nsenter"):
            commands = [
                ["nsenter", f"--net=/proc/{os.getpid()}/task/{host.thread.tid}/ns/net", "ip", "-s", "-s", "link"]
                for host in lab.hosts.values()
            ]

            def by_command() -> None:
                for command in commands:
                    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)

            baselines["ip_s_link_each_host"] = lambda: elapsed_ms(by_command)
        else:
            notes.append("no ip or nsenter command on this machine to compare with")
        return paired(
            lambda: elapsed_ms(lab.ledger, readings),
            baselines,
            unit="ms",
            better="less",
            runs=runs,
            progress=progress,
            notes=tuple(notes),
        )
