"""Decoding: every opcode that there is, and nothing else; jumps, functions, blocks."""

from __future__ import annotations

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from labkit.analysis import assemble as asm
from labkit.analysis.arithmetic import compute, holds, swapped
from labkit.analysis.code import Code, Origin, build
from labkit.analysis.graph import calls, flow
from labkit.analysis.instruction import decode
from labkit.analysis.opcodes import Kind
from labkit.errors import AnalysisError


def made(*codes: bytes, **more: object) -> Code:
    return build("test", b"".join(codes), origin=Origin.SPEC, **more)  # type: ignore[arg-type]


def accepted() -> set[int]:
    """Opcodes of which some form decodes."""
    found = set()
    for opcode in range(256):
        for imm, src, off in ((0, 0, 0), (16, 0, 0), (0, 1, 0), (0, 0, 1)):
            try:
                decode(asm.slot(opcode, 0, src, off, imm) + bytes(8 * (opcode == 0x18)))
            except AnalysisError:
                continue
            found.add(opcode)
    return found


def test_the_coverage_is_what_the_instruction_set_has() -> None:
    found = accepted()
    alu = {number | source | width for number in range(0, 0xD0, 0x10) for source in (0, 8) for width in (4, 7)}
    alu -= {0x8C, 0x8F}  # a negation has no second operand
    swaps = {0xD4, 0xDC, 0xD7}
    branches = {n | s | w for n in (*range(0x10, 0x80, 0x10), 0xA0, 0xB0, 0xC0, 0xD0) for s in (0, 8) for w in (5, 6)}
    others = {0x05, 0x06, 0x85, 0x95, 0xE5}  # goto, gotol, call, exit, may_goto
    memory = {mode | size for mode in (0x61, 0x62, 0x63) for size in (0, 8, 0x10, 0x18)} | {0x81, 0x89, 0x91}
    packet = {0x20, 0x28, 0x30, 0x40, 0x48, 0x50}
    atomics = {0xC3, 0xDB}
    assert found == alu | swaps | branches | others | memory | packet | atomics | {0x18}
    assert len(found) == 50 + 3 + 44 + 5 + 15 + 6 + 2 + 1
    for opcode in (0xCB, 0xD3):  # the two of 16 and 8 bits, which only acquire and release
        assert decode(asm.slot(opcode, 1, 2, 0, 0x100))[0].operation == "load_acquire"
        assert decode(asm.slot(opcode, 1, 2, 0, 0x110))[0].operation == "store_release"
        with pytest.raises(AnalysisError, match=r"atomic of [12] bytes"):
            decode(asm.slot(opcode, 1, 2, 0, 0))


@given(st.binary(min_size=8, max_size=80))
def test_any_bytes_decode_or_are_refused_by_place_and_opcode(code: bytes) -> None:
    code = code[: len(code) // 8 * 8]
    found, refused = {}, None
    try:
        found = decode(code)
    except AnalysisError as error:
        refused = error
    if refused is None:
        assert sum(each.slots for each in found.values()) == len(code) // 8
    else:
        assert refused.slot is not None
        assert refused.opcode == code[refused.slot * 8]
        assert f"Instruction {refused.slot}, opcode {refused.opcode:#04x}" in str(refused)


@pytest.mark.parametrize(
    ("code", "told"),
    [
        (b"", "0 bytes are not a program"),
        (bytes(9), "9 bytes are not a program"),
        (asm.slot(0xFF), "opcode 0xff, is not an eBPF instruction"),
        (asm.slot(0x8D), "calls through a register"),
        (asm.slot(0x0D), "is not an eBPF instruction"),
        (asm.slot(0x18), "second half is missing"),
        (asm.slot(0x18) + asm.exit_(), "second slot is another instruction"),
        (asm.slot(0x18, 0, 9) + bytes(8), "source 9"),
        (asm.slot(0xB7, 10), "writes r10"),
        (asm.slot(0xB7, 11), "no such register"),
        (asm.slot(0xBF, 0, 1, 4), "off 4: it extends 8, 16 or 32 bits"),
        (asm.slot(0xBC, 0, 1, 32), "off 32"),
        (asm.slot(0x37, 0, 0, 2, 3), "a division is unsigned"),
        (asm.slot(0x07, 0, 1, 0, 3), "src 1, which is reserved"),
        (asm.slot(0xD7, 0, 0, 0, 24), "imm 24: it swaps"),
        (asm.slot(0xDB, 0, 1, 0, 0x20), "imm 0x20, which is no atomic operation"),
        (asm.slot(0x99, 0, 1), "is not an eBPF instruction"),
        (asm.slot(0x85, 0, 3), "call of kind 3"),
        (asm.slot(0x95, imm=1), "imm 1, which is reserved"),
    ],
)
def test_what_is_no_instruction_is_refused_with_its_reason(code: bytes, told: str) -> None:
    with pytest.raises(AnalysisError) as caught:
        decode(code)
    assert told in str(caught.value)


def test_a_wide_load_has_64_bits_and_two_slots() -> None:
    found = decode(asm.wide(3, 0x1122334455667788) + asm.exit_())
    assert found[0].imm == 0x1122334455667788
    assert list(found) == [0, 2]
    assert found[0].following == 2


def test_the_kernels_own_form_has_a_register_and_instructions_more() -> None:
    for code in (asm.alu("mov", 11, src=1), asm.slot(0xBF, 0, 1, -1), asm.slot(0xC2)):
        decode(code, translated=True)
        with pytest.raises(AnalysisError):
            decode(code)
    call = decode(asm.slot(0x85, 0, 1, 5, 1), translated=True)[0]
    assert call.target == 6


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ((asm.goto(5), asm.exit_()), "leads to slot 6"),
        ((asm.goto(-2), asm.exit_()), "leads to slot -1"),
        ((asm.branch("eq", 0, 1), asm.wide(0, 1), asm.exit_()), "leads to slot 2"),
        ((asm.alu("mov", 0, imm=1),), "leads to slot 1"),
        ((asm.call(9, 1), asm.exit_()), "A call leads to slot 10"),
    ],
)
def test_a_way_that_leads_astray_is_refused(code: tuple[bytes, ...], told: str) -> None:
    with pytest.raises(AnalysisError) as caught:
        made(*code)
    assert told in str(caught.value)


def test_blocks_and_functions() -> None:
    code = made(
        asm.branch("eq", 1, 2),  # 0
        asm.call(3, 1),  # 1: to 5
        asm.goto(1),  # 2
        asm.alu("mov", 0, imm=1),  # 3
        asm.exit_(),  # 4
        asm.alu("mov", 0, imm=2),  # 5
        asm.exit_(),  # 6
        names={5: "inner"},
    )
    assert [(f.name, f.start, f.end) for f in code.functions] == [("test", 0, 5), ("inner", 5, 7)]
    graph = flow(code, code.functions[0])
    assert {start: graph.nodes[start]["block"].slots for start in graph} == {0: (0,), 1: (1, 2), 3: (3,), 4: (4,)}
    assert set(graph.edges.data("way")) == {(0, 1, "next"), (0, 3, "taken"), (1, 4, "goto"), (3, 4, "next")}
    assert list(calls(code).edges.data("slots")) == [("test", "inner", (1,))]
    assert nx.is_directed_acyclic_graph(graph)


def test_a_loop_of_one_instruction_is_a_block_that_follows_itself() -> None:
    graph = flow(made(asm.goto(-1)), made(asm.goto(-1)).functions[0])
    assert list(graph.edges) == [(0, 0)]


@pytest.mark.parametrize(
    ("operation", "left", "right", "bits", "result"),
    [
        ("div", 7, 0, 64, 0),
        ("mod", (1 << 40) + 7, 0, 32, 7),
        ("sdiv", 1 << 63, (1 << 64) - 1, 64, 1 << 63),
        ("smod", 1 << 63, (1 << 64) - 1, 64, 0),
        ("sdiv", (1 << 64) - 7, 2, 64, (1 << 64) - 3),
        ("smod", (1 << 32) - 7, 2, 32, (1 << 32) - 1),
        ("lsh", 1, 65, 64, 2),
        ("arsh", 1 << 31, 4, 32, 0xF8000000),
        ("mov", 0, 1 << 40 | 4, 32, 4),
        ("movsx8", 0, 0x80, 32, 0xFFFFFF80),
        ("movsx32", 0, 1 << 31, 64, 0xFFFFFFFF80000000),
        ("neg", 1, 0, 32, 0xFFFFFFFF),
    ],
)
def test_arithmetic(operation: str, left: int, right: int, bits: int, result: int) -> None:
    assert compute(operation, left, right, bits) == result


def test_comparisons_and_swaps() -> None:
    assert holds("sgt", 1, (1 << 64) - 1, 64)
    assert not holds("gt", 1, (1 << 64) - 1, 64)
    assert holds("slt", 1 << 31, 0, 32)
    assert holds("set", 6, 2, 64)
    assert not holds("set", 4, 2, 64)
    assert swapped("bswap", 0x1234, 16) == 0x3412
    assert {swapped("le", 0xAABB, 16), swapped("be", 0xAABB, 16)} == {0xAABB, 0xBBAA}


def test_the_old_packet_loads_are_known() -> None:
    assert decode(asm.slot(0x20, imm=4))[0].kind is Kind.PACKET_LOAD
