"""The analysis beside the kernel: the interpreter computes what the kernel computes, and its own form of a program can be
read back.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

import labkit as lk
from labkit.analysis import analyse
from labkit.analysis import assemble as asm
from labkit.analysis.code import Origin, build
from labkit.analysis.from_kernel import code_of_program
from labkit.analysis.from_spec import code_of_spec
from labkit.analysis.helpers import TAIL_CALL
from labkit.analysis.instruction import decode
from labkit.analysis.interpret import Interpreter
from labkit.analysis.opcodes import Kind
from labkit.analysis.report import examine
from labkit.compile import compile_source
from labkit.compile.diagnose import verifier_error
from labkit.kernel import bpf
from labkit.kernel.translated import prog_translated, symbols
from labkit.program import load_program
from labkit.uapi import MapType, ProgType

BPF = Path(__file__).resolve().parents[2] / "bpf"
PROGRAMS = 211  # a prime number
FRAME_BYTES = 64
OPERATIONS = ("add", "sub", "mul", "div", "mod", "sdiv", "smod", "or", "and", "xor", "lsh", "rsh", "arsh", "neg", "mov")
MOVES = {64: ("movsx8", "movsx16", "movsx32"), 32: ("movsx8", "movsx16")}
BRANCHES = ("eq", "ne", "gt", "ge", "lt", "le", "set", "sgt", "sge", "slt", "sle")
NUMBERS = (0, 1, -1, 2, 7, 31, 32, 63, 255, 1 << 31, (1 << 31) - 1, -128, 0x1234567)
STACK = 64


class Maker:
    """Programs that the verifier accepts, made of numbers only: from the packet into registers, through arithmetic, the
    stack, branches and a function, and folded into one result.
    """

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)

    def register(self) -> int:
        return self.chance.choice((0, 2, 3, 4, 5, 6, 7, 8, 9))

    def number(self) -> int:
        return self.chance.choice(NUMBERS) if self.chance.random() < 0.7 else self.chance.getrandbits(32)

    def program(self) -> bytes:
        """Entry, a body, the fold, and a function behind it where the body calls one."""
        head = asm.load(2, 1, 0, 4) + asm.load(3, 1, 4, 4) + asm.alu("mov", 4, src=2)
        head += (
            asm.alu("add", 4, imm=FRAME_BYTES) + asm.branch("le", 4, 2, src=3) + asm.alu("mov", 0, imm=0) + asm.exit_()
        )
        head += b"".join(asm.store(10, -off, 8, imm=self.number()) for off in range(8, STACK + 1, 8))
        for register in (0, 4, 5, 6, 7, 8, 9, 3, 2):
            size = self.chance.choice((1, 2, 4, 8))
            signed = size < 8 and self.chance.random() < 0.5
            head += asm.load(register, 2, self.chance.randrange(0, FRAME_BYTES - 8), size, signed=signed)
        body = self.block(self.chance.randrange(8, 40))
        fold = b"".join(asm.alu("mul", 0, imm=31) + asm.alu("xor", 0, src=r) for r in range(2, 10))
        fold += b"".join(asm.load(2, 10, -off, 8) + asm.alu("add", 0, src=2) for off in range(8, STACK + 1, 8))
        fold += asm.alu("mov", 2, src=0) + asm.alu("rsh", 2, imm=32) + asm.alu("xor", 0, src=2) + asm.exit_()
        if self.chance.random() < 0.5:
            return head + body + fold
        # A function: of r2 and r3 into r0; r2 to r5 are lost to the caller.
        again = b"".join(asm.alu("mov", r, imm=self.number()) for r in range(2, 6))
        inner = asm.alu("mov", 0, src=2) + asm.alu(self.chance.choice(OPERATIONS[:-2]), 0, src=3) + asm.exit_()
        call = asm.call(len(again + fold) // 8, 1)
        return head + body + call + again + fold + inner

    def block(self, count: int) -> bytes:
        """``count`` instructions, some of them jumping over a smaller block."""
        code = b""
        for _ in range(count):
            if count > 2 and self.chance.random() < 0.15:
                inner = self.block(self.chance.randrange(1, 4))
                code += self.branch(len(inner) // 8) + inner
            code += self.instruction()
        return code

    def branch(self, way: int) -> bytes:
        """A conditional jump over ``way`` slots."""
        choose, bits = self.chance.choice, self.chance.choice((32, 64))
        if choose((True, False)):
            return asm.branch(choose(BRANCHES), self.register(), way, src=self.register(), bits=bits)
        return asm.branch(choose(BRANCHES), self.register(), way, imm=self.number(), bits=bits)

    def instruction(self) -> bytes:
        """Anything that goes on to the next one."""
        choose, a, b = self.chance.choice, self.register(), self.register()
        kind, bits, size = self.chance.random(), choose((32, 64)), choose((1, 2, 4, 8))
        off = -size * self.chance.randrange(1, STACK // size + 1)
        if kind < 0.12:
            return (
                asm.store(10, off, size, src=a)
                if choose((True, False))
                else asm.store(10, off, size, imm=self.number())
            )
        if kind < 0.24:
            return asm.load(a, 10, off, size, signed=size < 8 and choose((True, False)))
        if kind < 0.34:
            return asm.alu(choose(MOVES[bits]), a, src=b, bits=bits)
        if kind < 0.42:
            return asm.swap(choose(("le", "be", "bswap")), a, choose((16, 32, 64)))
        if kind < 0.47:
            return asm.wide(a, self.chance.getrandbits(64))
        if kind < 0.55:
            opcode, step = choose(((0xDB, 8), (0xC3, 4)))
            what = choose((0x00, 0x01, 0x40, 0x41, 0x50, 0x51, 0xA0, 0xA1, 0xE1, 0xF1))
            return asm.slot(opcode, 10, b, -step * self.chance.randrange(1, STACK // step + 1), what)
        operation = choose(OPERATIONS)
        if operation == "neg" or (operation != "mov" and choose((True, False))):
            return self.with_number(operation, a, bits)
        return asm.alu(operation, a, src=b, bits=bits)

    def with_number(self, operation: str, register: int, bits: int) -> bytes:
        """Arithmetic with a number, within what the verifier allows: no division by 0, no shift by the width or more."""
        number = self.number()
        if operation in ("lsh", "rsh", "arsh"):
            number %= bits
        if operation in ("div", "mod", "sdiv", "smod"):
            number = number or 7
        return asm.alu(operation, register, imm=0 if operation == "neg" else number, bits=bits)


def no_helper(number: int, _: tuple[int, ...]) -> int:
    raise AssertionError(f"helper {number} in a program of numbers")


def test_the_kernel_computes_what_the_interpreter_computes() -> None:
    agreed, kinds = 0, set()
    for seed in range(PROGRAMS):
        code = Maker(seed).program()
        program = build(f"seed{seed}", code, origin=Origin.SPEC)
        kinds |= {(each.kind, each.operation, each.bits) for each in program.instructions.values()}
        frame = random.Random(PROGRAMS + seed).randbytes(FRAME_BYTES)
        ours = Interpreter(program, no_helper, packet=frame, seed=seed).run()
        fd = bpf.prog_load(ProgType.XDP, code, name=program.name)
        try:
            theirs = bpf.prog_test_run(fd, frame, repeat=1).retval
        finally:
            os.close(fd)
        assert theirs == ours.verdict, f"seed {seed}"
        agreed += 1
    assert agreed == PROGRAMS
    # Every operation in each of its widths: 30 and 5 moves that extend, 9 swaps, 22 branches, 6 atomics, and 5 without one.
    assert len(kinds) == 77


SAMPLES = {  # peephole, dataflow, mixes
    "asks_for_one_answer": (False, False, False),
    "changed_behind": (False, False, False),
    "counted_before": (True, True, False),
    "counted_behind": (False, False, False),
    "mixed": (True, True, True),
    "plain_tail": (True, True, False),
    "softer_miss": (False, True, False),
    "two_tails": (False, True, False),
}


def test_there_is_an_answer_for_each_sample() -> None:
    assert sorted(SAMPLES) == sorted(path.stem for path in (BPF / "analysis").glob("*.c"))


@pytest.mark.parametrize("name", SAMPLES)
def test_the_kernels_own_form_of_a_sample_gets_the_same_answer(name: str) -> None:
    spec = compile_source(path=BPF / "analysis" / f"{name}.c")
    ours = examine(code_of_spec(spec))
    with load_program(spec, explain=verifier_error) as program:
        theirs = examine(code_of_program(program))
    for found in (ours, theirs):
        assert (found.peephole, found.dataflow, found.mixes) == SAMPLES[name], str(found)
    assert [site.line for site in theirs.sites] == [site.line for site in ours.sites]
    assert theirs.code.origin is Origin.KERNEL
    assert all(site.line is not None for site in theirs.sites)


def lesson_programs() -> Iterator[Path]:
    """The C of the lessons and of the exercises' solutions; bpf/lab has the lab's own."""
    yield from sorted(BPF.glob("*.c"))
    yield from sorted((BPF.parent / "notebooks" / "solutions").glob("*.c"))


def test_every_lesson_program_gets_an_answer() -> None:
    answered = {}
    for path in lesson_programs():
        spec = compile_source(path=path)
        for name in spec.functions:
            found = examine(code_of_spec(spec, name))
            assert found.dataflow or not found.peephole, str(found)
            answered[path.stem, name] = found
    assert len(answered) > 30
    # The lessons count what a redirect answered, so none of them could have the fast path; each is told why.
    sites = [(found, site) for found in answered.values() for site in found.sites]
    assert len(sites) > 10
    counting = [found for found, site in sites if "verdict.h" in found.why(site)]
    assert {found.code.name for found in counting} >= {"to_port", "broadcast", "spread_cpus"}
    assert not any(found.qualifies for found in counting)


OBJECTS = sorted(Path("/usr/lib").glob("*/bpf/*.o"))


@pytest.mark.skipif(not OBJECTS, reason="no XDP programs of other projects here: apt-get install libxdp1")
def test_the_programs_of_other_projects_get_an_answer() -> None:
    for path in OBJECTS:
        for found in analyse(path):
            assert found.dataflow or not found.peephole or len(found.code.functions) > 1
            if path.name.startswith("xsk_def_xdp_prog"):  # the AF_XDP program, for newer and for older kernels
                assert found.qualifies


ANSWERS = """\
#include "common/maps.h"

LAB_DEVMAP(ports, 8);
LAB_ARRAY(flags, u64, 1);

int answers(struct xdp_md *ctx)
{
	u32 only = 0;
	u64 *wanted = flags.lookup(&only);

	return wanted ? ports.redirect_map(3, *wanted) : XDP_TX;
}
"""


def test_the_helper_answers_what_the_analysis_takes_for_all_its_answers(lab: lk.Lab) -> None:
    """XDP_REDIRECT for a filled slot; for an empty one the flags, of which only two bits are allowed."""
    with lab.load(lk.compile(text=ANSWERS)) as program:

        def answer(flags: int) -> int:
            program.maps["flags"][0] = flags
            return lab["client"].run(lambda: bpf.prog_test_run(program.fd, bytes(64), repeat=1).retval)

        assert [answer(flags) for flags in (0, 1, 2, 3, 4, 1 << 40)] == [0, 1, 2, 3, 0, 0]
        program.maps["ports"][3] = lab["client"]["eth0"]
        assert [answer(flags) for flags in (0, 1, 2, 3)] == [4, 4, 4, 4]


def test_a_tail_call_is_shown_with_its_number_in_the_kernels_own_form() -> None:
    """All other calls are shown by where the helper lies."""
    programs = bpf.map_create(MapType.PROG_ARRAY, 4, 4, 1, name="programs")
    try:
        code = asm.wide(2, programs, 1) + asm.alu("mov", 3, imm=0) + asm.call(TAIL_CALL)
        fd = bpf.prog_load(ProgType.XDP, code + asm.call(5) + asm.exit_(), name="leaves")
    finally:
        os.close(programs)
    try:
        shown = prog_translated(fd)
    finally:
        os.close(fd)
    calls = [each.imm for each in decode(shown.instructions, translated=True).values() if each.kind is Kind.CALL]
    assert calls[0] == TAIL_CALL
    assert symbols(calls[1:])[calls[1]] == "bpf_ktime_get_ns"
