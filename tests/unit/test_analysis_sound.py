"""The detectors against executions: what they say of generated programs holds in every run of the interpreter."""

from __future__ import annotations

import random
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from labkit.analysis import assemble as asm
from labkit.analysis.code import Code, Origin, build
from labkit.analysis.dataflow import BINDING
from labkit.analysis.helpers import MAP_LOOKUP, REDIRECT_MAP
from labkit.analysis.interpret import Event, Execution, Interpreter
from labkit.analysis.memory import Fault
from labkit.analysis.report import Report, examine
from labkit.errors import AnalysisError

MANY = settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
RUNS = 7
REGISTERS = (0, 0, 0, 1, 2, 6, 6, 7, 8)
NUMBERS = (0, 1, 2, 3, 4, 5, 32, 255, -1, 1 << 31)
OFFSETS = (-8, -8, -16, -12, -4, -3)
BRANCHES = ("eq", "ne", "gt", "ge", "lt", "le", "set", "sgt", "sge", "slt", "sle")
OPERATIONS = ("add", "sub", "and", "or", "xor", "lsh", "rsh", "arsh", "mul", "div", "mod", "sdiv", "smod")
HARMLESS = ("move", "move", "move", "spill", "fill", "branch", "branch", "result", "alu", "redirect", "exit", "call")
HARMFUL = ("lookup", "helper", "store", "load", "atomic", "number", "pair", "pointer", "wide")


@dataclass(frozen=True)
class Item:
    """One instruction, with ``to`` the number of the item that it jumps to or calls, -1 where it does neither."""

    code: bytes
    to: int = -1


class Choices:
    """One choice after another out of one number, so that Hypothesis draws, and makes smaller, a number an item."""

    def __init__(self, number: int) -> None:
        self.number = number

    def one(self, of: Sequence[Any]) -> Any:
        self.number, index = divmod(self.number, len(of))
        return of[index]


def item(number: int, count: int, kinds: Sequence[str]) -> Item:
    """One of ``count`` items of a function."""
    choose = Choices(number)
    kind, a, b, bits = choose.one(kinds), choose.one(REGISTERS), choose.one(REGISTERS), choose.one((64, 32))
    value, off, size, to = choose.one(NUMBERS), choose.one(OFFSETS), choose.one((8, 4, 8, 1)), choose.one(range(count))
    if kind == "branch":
        return Item(asm.branch(choose.one(BRANCHES), a, 0, imm=value, bits=bits), to)
    if kind == "result":
        return Item(asm.branch(choose.one(("sgt", "eq", "ne")), 0, 0, imm=value, bits=bits), to)
    if kind == "call":
        return Item(asm.call(0, 1), count)
    if kind == "alu":
        word, by_register = choose.one(OPERATIONS), choose.one((False, True))
        return Item(asm.alu(word, a, src=b if by_register else None, imm=value, bits=bits))
    codes = {
        "move": asm.alu(choose.one(("mov", "mov", "mov", "movsx8", "movsx16")), a, src=b, bits=bits),
        "spill": asm.store(10, off, size, src=a),
        "fill": asm.load(a, 10, off, size, signed=size == 4 and choose.one((False, True))),
        "redirect": asm.call(REDIRECT_MAP),
        "exit": asm.exit_(),
        "lookup": asm.call(MAP_LOOKUP),
        "helper": asm.call(5),
        "store": asm.store(choose.one((6, 7, 0, 9)), value & 7, size, src=b),
        "load": asm.load(a, choose.one((6, 7, 0, 9)), value & 7, size),
        "atomic": asm.slot(0xDB, 10, b, -8, choose.one((0, 1, 0xE1, 0xF1))),
        "number": asm.alu("mov", a, imm=value, bits=bits),
        "pair": asm.alu("lsh", a, imm=32) + asm.alu("rsh", a, imm=32),
        "pointer": asm.alu("mov", a, src=10) + asm.alu("add", a, imm=-16),
        "wide": asm.wide(a, value & 0xFFFFFFFF, choose.one((0, 2))),
    }
    return Item(codes[kind])


def joined(main: list[Item], function: list[Item]) -> bytes:
    """The items with their jumps put right. r9 points to the packet, r8 to the context, if nothing changes them."""
    head = [Item(asm.alu("mov", 8, src=1)), Item(asm.load(9, 1, 0, 4)), Item(asm.alu("mov", 0, imm=2))]
    head += [Item(asm.alu("mov", 6, src=9)), Item(asm.alu("mov", 7, imm=4))]
    items = [*head, *main, Item(asm.exit_())]
    if any(each.code[0] == 0x85 and each.to >= 0 for each in main):
        items += [*function, Item(asm.exit_())]
    starts, at = [], 0
    for each in items:
        starts.append(at)
        at += len(each.code) // 8
    code = b""
    for i, each in enumerate(items):
        data = each.code
        if each.to >= 0:
            base = len(head) if i < len(head) + len(main) else len(head) + len(main) + 1
            target = starts[base + each.to + (1 if data[0] == 0x85 else 0)]
            way = target - starts[i] - 1
            data = (
                data[:4] + struct.pack("=i", way) if data[0] == 0x85 else data[:2] + struct.pack("=h", way) + data[4:]
            )
        code += data
    return code


ITEMS = st.integers(0, (1 << 48) - 1)


@st.composite
def programs(draw: st.DrawFn) -> bytes:
    """A program of up to 14 items, one of them a redirect, and perhaps a function of up to 6 that it calls."""
    kinds = HARMLESS + (HARMFUL if draw(st.booleans()) else ())
    numbers, inner = draw(st.lists(ITEMS, min_size=1, max_size=13)), draw(st.lists(ITEMS, max_size=6))
    kinds = kinds if inner else tuple(kind for kind in kinds if kind != "call")
    main = [item(number, len(numbers) + 1, kinds) for number in numbers]
    main.insert(draw(st.integers(0, len(numbers))), Item(asm.call(REDIRECT_MAP)))
    within = tuple(kind for kind in kinds if kind != "call")
    return joined(main, [item(number, len(inner), within) for number in inner])


def executions(code: Code) -> list[Execution]:
    """Some runs with all kinds of answers from the kernel; those that no accepted program can have are left out."""
    done = []
    for seed in range(RUNS):
        chance = random.Random(seed)

        def helper(number: int, _: tuple[int, ...], chance: random.Random = chance) -> int:
            return chance.choice([4, 4, 4, 1, 0, 2, 3]) if number == REDIRECT_MAP else chance.choice([0, 1, 4, 1 << 63])

        try:
            done.append(Interpreter(code, helper, packet=chance.randbytes(64), seed=seed, most=400).run())
        except (Fault, AnalysisError):
            continue
    return done


def check(report: Report, run: Execution) -> None:
    """What a "tail call" promises: the frame sent, or not to be sent, nothing happened but the program's end."""
    tail = {site.slot for site in report.sites if site.dataflow}
    for i, seen in enumerate(run.events):
        if seen.helper == REDIRECT_MAP and seen.slot in tail and seen.result in [int(each) for each in BINDING]:
            assert run.events[i + 1 :] == ()
            assert run.verdict == seen.result


@MANY
@given(programs())
def test_what_dataflow_says_holds_in_every_execution(code: bytes) -> None:
    program = build("generated", code, origin=Origin.SPEC)
    report = examine(program)
    runs = executions(program)
    for run in runs:
        check(report, run)
        if report.dataflow:
            last = [seen for seen in run.events if seen.helper == REDIRECT_MAP][-1:]
            assert all(seen.result not in (1, 4) or run.verdict == seen.result for seen in last)
    called = any(seen.helper == REDIRECT_MAP and seen.result in (1, 4) for run in runs for seen in run.events)
    event(f"{'yes' if report.dataflow else 'no'}, {'seen' if called else 'not seen'} in an execution")


@MANY
@given(programs())
def test_no_site_of_the_main_function_that_the_peephole_accepts_is_refused(code: bytes) -> None:
    report = examine(build("generated", code, origin=Origin.SPEC))
    main = report.code.functions[0].name
    for site in report.sites:
        assert site.dataflow or not site.peephole or site.function != main
        event(f"peephole {site.peephole}, dataflow {site.dataflow}")


@MANY
@given(programs())
def test_a_path_that_breaks_is_a_way_of_the_program(code: bytes) -> None:
    program = build("generated", code, origin=Origin.SPEC)
    for site in examine(program).sites:
        if site.broken is None:
            continue
        path = site.broken.path
        assert path[0] == site.slot
        assert path[-1] == site.broken.slot
        for here, there in pairwise(path):
            each = program.instructions[here]
            exits = {call + 1 for call in program.callees if program.callees[call].target is not None}
            callee = program.callees[here].target if here in program.callees else None
            allowed = {callee} if callee is not None else exits if not each.successors else set(each.successors)
            assert there in allowed


def test_the_check_finds_a_wrong_yes() -> None:
    """The measure itself: a detector that always says yes would be caught."""
    code = asm.call(REDIRECT_MAP) + asm.alu("mov", 0, imm=2) + asm.exit_()
    program = build("wrong", code, origin=Origin.SPEC)
    report = examine(program)
    assert not report.dataflow
    runs = executions(program)
    assert len(runs) == RUNS
    assert any(run.verdict != run.events[-1].result for run in runs)
    assert Event(0, "bpf_redirect_map", REDIRECT_MAP, 4) in runs[0].events + runs[1].events + runs[2].events
