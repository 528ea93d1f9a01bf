"""What a token allows is what the page for instructors says, and what the kernel then shows."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

from labkit.compile import compile_source
from labkit.kernel.btf import kernel_btf
from labkit.program.relocate import resolve_functions
from labkit.uapi import AttachType, BpfCmd, MapType, ProgType

ENV = Path(__file__).resolve().parents[2] / "env"
GATE = runpy.run_path(str(ENV / "gate"), run_name="read")
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


def test_the_gates_numbers_are_the_kernels() -> None:
    kernels = {name.removeprefix("BPF_FUNC_"): number for number, name in kernel_btf().enum("bpf_func_id").items()}
    listed = {**GATE["HELPERS"], **GATE["TRACING_HELPERS"]}
    assert {name: kernels[name] for name in listed} == listed


def test_no_program_at_all_may_signal_or_write_elsewhere() -> None:
    listed = {*GATE["HELPERS"], *GATE["TRACING_HELPERS"]}
    assert not [name for name in listed if re.search("signal|write_user|printk|override|task_storage|d_path", name)]
    assert not [name for name in GATE["HELPERS"] if "probe_read" in name]


def test_the_gate_sees_every_call_of_the_labs_programs() -> None:
    """What lessons load must get through; each of them by the gate's own eyes, as with tracing programs withheld."""
    root = ENV.parent
    for path in sorted([*root.glob("bpf/*.c"), *root.glob("notebooks/solutions/*.c"), root / "bpf/lab/generator.c"]):
        for function in compile_source(path=path).functions.values():
            tracing = bool(re.search("watch|see_drops", function.name))
            code = bytearray(function.instructions)
            resolve_functions(code, function.name)
            GATE["admitted"](bytes(code), tracing, GATE["function_ids"])
