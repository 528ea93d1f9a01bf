"""What a student in a sandbox can do that one might not expect: each a fact of today's kernels, none hidden here."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from helpers import PYTHON, process, run_inside


@pytest.fixture(scope="module", params=[True, False], ids=["with tracing", "without tracing"])
def surprises(request: pytest.FixtureRequest, scripts: Path) -> dict[str, object]:
    """Outcomes inside by name, and "tracing"."""
    with process(["sleep", "601"]) as victim:
        facts = {"address": 0xFFFFFFFF81000000, "root_pid": victim.pid}
        ended = run_inside([PYTHON, str(scripts / "surprising.py"), json.dumps(facts)], tracing=request.param)
    assert ended.status == 0, ended
    return {**json.loads(ended.out), "tracing": request.param}


def test_a_tracing_program_reads_any_memory_of_the_kernel(surprises: dict[str, object]) -> None:
    """A tracepoint's arguments are addresses in the kernel, and what follows them follows any. Kernel memory holds every
    file and every process of the machine: so tracing programs are for machines on which the student may know all.
    """
    outcome = str(surprises["read_kernel_memory_by_a_tracepoint"])
    assert outcome.startswith("SUCCEEDED") if surprises["tracing"] else outcome.startswith("refused: E")


def test_the_list_of_processes_is_beneath_proc(surprises: dict[str, object]) -> None:
    """A student may unmount what the sandbox mounted over /proc, and then sees the machine's, with a user's rights:
    command lines of everybody, as every user of the machine does. Environments and memory stay shut.
    """
    assert surprises["see_the_machines_processes"] == "SUCCEEDED: 'sleep 601 '"


def test_limits_of_the_sandbox_are_its_own(surprises: dict[str, object]) -> None:
    """/proc/sys/user can be written: it is the sandbox's, beneath the machine's limits, which hold still."""
    assert str(surprises["set_a_limit_of_its_own_namespace"]).startswith("SUCCEEDED")
    assert Path("/proc/sys/user/max_net_namespaces").read_text().strip() != "1000"
