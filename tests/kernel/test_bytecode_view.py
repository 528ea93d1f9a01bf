"""Bytecode and machine code of real programs: what the listing counts is what the kernel counts."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

import labkit as lk
from labkit.analysis.listing import listing
from labkit.compile import compile_source
from labkit.errors import AnalysisError, StateError
from labkit.kernel.bpf_info import prog_info
from labkit.widgets import BytecodeView

BPF = Path(__file__).resolve().parents[2] / "bpf"
FILES = sorted(each for each in BPF.rglob("*.c") if each.parent.name != "rejected")


@pytest.fixture
def program(lab: lk.Lab) -> lk.Program:
    return lab.load(compile_source(path="bpf/drop_by_protocol.c"), "drop_by_protocol")


def test_every_count_is_the_kernels(program: lk.Program) -> None:
    found, told = listing(program), prog_info(program.fd)
    assert found.compiled.instructions == len(program.function)
    assert found.kernel is not None
    assert found.kernel.instructions * 8 == told.translated_bytes
    assert found.jit is not None
    assert sum(found.jit.functions) == told.jited_bytes == len(found.jit.code)
    costs = found.costs
    assert sum(each.compiled for each in costs) == found.compiled.instructions
    assert sum(each.kernel or 0 for each in costs) == found.kernel.instructions
    assert sum(each.jited or 0 for each in costs) == told.jited_bytes
    assert found.notes == ()


@pytest.mark.parametrize("file", FILES, ids=[str(file.relative_to(BPF)) for file in FILES])
def test_every_program_is_listed(file: Path) -> None:
    spec = compile_source(path=file)
    for name, function in spec.functions.items():
        found = listing(spec, name)
        assert found.compiled.instructions == len(function)
        assert name in str(found)
        slots = {row.slot for row in found.compiled.rows}
        assert all(row.target is None or row.target in slots for row in found.compiled.rows)


def test_words_say_what_the_bytes_are(lab: lk.Lab, program: lk.Program) -> None:
    text = str(listing(program))
    assert "call bpf_map_lookup_elem" in text
    assert "r1 = map packets_by_protocol" in text
    assert "→ 11 if r3 > r2" in text
    opcode, registers, off, imm = struct.unpack_from("=BBhi", program.function.instructions, 8)
    assert (opcode, registers, off, imm) == (0x61, 0x11, 0, 0)
    assert "    1  r1 = *(u32 *)(r1 + 0)" in text
    kernel = listing(program).kernel
    assert kernel is not None
    assert any(row.words == "r1 = map packets_by_protocol" for row in kernel.rows), "by its name, not its id"


@pytest.mark.parametrize("name", ["pass", "drop_by_protocol", "redirect_devmap", "router", "tx_back"])
def test_machine_code_adds_up_by_function_and_by_line(lab: lk.Lab, name: str) -> None:
    spec = compile_source(path=BPF / f"{name}.c")
    for function in spec.functions:
        made = lab.load(spec, function)
        found, told = listing(made), prog_info(made.fd)
        assert found.jit is not None
        assert sum(found.jit.functions) == told.jited_bytes > 0
        assert sum(each.jited or 0 for each in found.costs) == told.jited_bytes


def test_the_view_says_when_its_program_is_replaced_or_closed(lab: lk.Lab, program: lk.Program) -> None:
    link = program.attach(lab["server"]["eth0"])
    view = BytecodeView(program)
    assert view.state == {"notice": ""}
    other = lab.load(compile_source(path="bpf/pass.c"))
    link.replace(other)
    view._heard(view, {"type": "look"}, [])
    assert f"{other.name} #{other.id} runs at server eth0 in its place now" in view.state["notice"]
    program.close()
    view._heard(view, {"type": "look"}, [])
    assert "has been closed since" in view.state["notice"]
    for rubbish in (None, 3, [], {}, {"type": []}, {"type": "look", "x": 1}):
        view._heard(view, rubbish, [])
    assert not view.errors
    with pytest.raises(StateError):
        BytecodeView(program)
    view.close()
    view.close()
    assert view.notice.startswith("Closed.")


def test_what_is_no_program_is_refused() -> None:
    for wrong in (None, 3, b"\x95", object()):
        with pytest.raises(AnalysisError, match="can't be listed"):
            listing(wrong)  # type: ignore[arg-type]
    with pytest.raises(lk.LabError):
        listing("bpf/drop_by_protocol.c", "nobody")


def test_text_of_the_author_is_never_markup() -> None:
    body = '{ return ctx->rx_queue_index > 1 ? 1 : 2; /* <img src="x"> */ }'
    text = f"#include <uapi/linux/bpf.h>\nint f(struct xdp_md *ctx) {body}\n"
    assert "<img" not in listing(compile_source(text=text))._repr_html_()
