"""Both detectors on small programs, each with one thing that matters behind its call."""

from __future__ import annotations

import pytest

from labkit.analysis import assemble as asm
from labkit.analysis.code import Code, Origin, build
from labkit.analysis.helpers import MAP_LOOKUP, REDIRECT, REDIRECT_MAP, TAIL_CALL
from labkit.analysis.report import Report, examine
from labkit.errors import AnalysisError

CALL, EXIT = asm.call(REDIRECT_MAP), asm.exit_()


def code(*parts: bytes, **more: object) -> Code:
    return build("test", b"".join(parts), origin=Origin.SPEC, **more)  # type: ignore[arg-type]


def report(*parts: bytes) -> Report:
    return examine(code(*parts))


def mov(dst: int, src: int, bits: int = 64) -> bytes:
    return asm.alu("mov", dst, src=src, bits=bits)


def number(dst: int, imm: int) -> bytes:
    return asm.alu("mov", dst, imm=imm)


KEEPS = {
    "nothing": (),
    "a move to and fro": (mov(6, 0), number(0, 9), mov(0, 6)),
    "a move of 32 bits": (mov(6, 0, 32), mov(0, 6, 32)),
    "a sign carried on": (asm.alu("movsx8", 0, src=0), asm.alu("movsx16", 0, src=0, bits=32)),
    "two shifts": (asm.alu("lsh", 0, imm=32), asm.alu("rsh", 0, imm=32)),
    "upper bits that no driver reads": (number(1, 1), asm.alu("lsh", 1, imm=40), asm.alu("or", 0, src=1)),
    "a spill": (asm.store(10, -8, 8, src=0), number(0, 0), asm.load(0, 10, -8, 8)),
    "a spill of four bytes": (asm.store(10, -4, 4, src=0), number(0, 0), asm.load(0, 10, -4, 4)),
    "a spill through a copy of r10": (
        *(mov(2, 10), asm.alu("add", 2, imm=-16), asm.store(2, 8, 8, src=0)),
        *(number(0, 0), asm.load(0, 10, -8, 8)),
    ),
    "a spilled pointer": (
        *(mov(2, 10), asm.store(10, -8, 8, src=2), asm.load(3, 10, -8, 8)),
        asm.store(3, -16, 8, src=0),
    ),
    "a pointer to the context": (asm.load(2, 8, 16, 4),),
    "a double swap": (asm.swap("bswap", 0, 64), asm.swap("bswap", 0, 64)),
    "sums that cancel": (asm.alu("add", 0, imm=5), asm.alu("sub", 0, imm=5)),
    "a branch that joins": (asm.branch("eq", 0, 1, imm=4), mov(0, 0), mov(6, 0)),
    "a branch on something else": (asm.branch("eq", 6, 1, imm=4), mov(7, 0), mov(6, 0)),
    "the same number instead": (asm.branch("ne", 0, 1, imm=4), number(0, 4)),
    "another word for 0": (asm.branch("ne", 0, 1, imm=0), number(0, 2)),
    "anything once it said 0": (asm.branch("ne", 0, 2), asm.call(5), number(0, 2)),
    "a loop": (number(6, 3), asm.alu("sub", 6, imm=1), asm.branch("ne", 6, -2)),
    "a may_goto": (asm.slot(0xE5, off=1), mov(6, 0), mov(7, 0)),
    "a long goto": (asm.slot(0x06, imm=1), asm.call(5)),
    "a function that gives it back": (mov(1, 0), asm.call(1, 1), EXIT, mov(0, 1)),
    "a function that keeps r6": (mov(6, 0), asm.call(2, 1), mov(0, 6), EXIT, number(6, 1), number(0, 1)),
}
BREAKS = {
    "another number": ((number(0, 2),), "returns XDP_PASS where bpf_redirect_map returned XDP_REDIRECT"),
    "a strange number": ((number(0, 99),), "returns 99"),
    "a sum": ((asm.alu("add", 0, imm=1),), "returns 5"),
    "only one of two answers": (
        (asm.branch("eq", 0, 2, imm=4), number(0, 2), EXIT),
        "returns XDP_PASS where bpf_redirect_map returned XDP_DROP",
    ),
    "a helper": ((mov(6, 0), asm.call(5), mov(0, 6)), "calls bpf_ktime_get_ns"),
    "a lookup": ((mov(6, 0), asm.call(MAP_LOOKUP), mov(0, 6)), "calls bpf_map_lookup_elem"),
    "a kernel function": ((mov(6, 0), asm.call(77, 2), mov(0, 6)), "calls kernel function 77"),
    "a second redirect": ((CALL,), "calls bpf_redirect_map"),
    "a store": ((asm.store(6, 0, 4, src=0),), "writes to memory that isn't its stack"),
    "a store to the context": ((asm.store(8, 0, 4, imm=1),), "writes to the context"),
    "a store to a global": ((asm.wide(2, 0, 2), asm.store(2, 0, 4, imm=1)), "writes to the map value"),
    "a read of the packet": ((asm.load(2, 7, 0, 4),), "reads memory that may be the packet"),
    "an atomic": ((asm.slot(0xDB, 10, 6, -8),), "atomic operation (add)"),
    "a spill overwritten": (
        (asm.store(10, -8, 8, src=0), asm.store(10, -5, 1, src=6), asm.load(0, 10, -8, 8)),
        "can't be told",
    ),
    "a spill overwritten somewhere": (
        (
            *(asm.store(10, -8, 8, src=0), mov(2, 10), asm.alu("add", 2, src=6)),
            *(asm.store(2, 0, 1, imm=1), asm.load(0, 10, -8, 8)),
        ),
        "can't be told",
    ),
    "the lower byte lost": ((asm.alu("rsh", 0, imm=8),), "returns XDP_ABORTED"),
    "a branch on something else": ((asm.branch("eq", 6, 1), number(0, 1)), "returns XDP_DROP"),
    "a function that changes it": ((mov(1, 0), asm.call(1, 1), EXIT, number(0, 3)), "returns XDP_TX"),
    "a function that calls": (
        (mov(6, 0), asm.call(2, 1), mov(0, 6), EXIT, asm.call(5)),
        "calls bpf_ktime_get_ns",
    ),
    "a pointer": ((mov(0, 10),), "can't be told"),
}
HEAD = mov(8, 1), asm.load(7, 1, 0, 4)


@pytest.mark.parametrize("behind", KEEPS.values(), ids=KEEPS)
def test_a_result_that_is_kept(behind: tuple[bytes, ...]) -> None:
    found = report(*HEAD, CALL, *behind, EXIT)
    assert found.qualifies, str(found)
    assert found.peephole == (behind == ())


@pytest.mark.parametrize(("behind", "reason"), BREAKS.values(), ids=BREAKS)
def test_a_result_that_is_not_kept_or_not_the_last(behind: tuple[bytes, ...], reason: str) -> None:
    found = report(*HEAD, CALL, *behind, EXIT)
    site = found.sites[0]
    assert site.broken is not None
    assert reason in site.broken.reason
    assert not found.dataflow
    assert not found.peephole


def test_the_peephole_of_2020() -> None:
    """Exit, or a jump for more than 0 to an exit; and it goes on from jump to jump."""
    positive = asm.branch("sgt", 0, 2)
    tail = (number(0, 2), EXIT, EXIT)
    assert report(CALL, EXIT).peephole
    assert report(CALL, positive, *tail).peephole
    assert report(CALL, asm.branch("sgt", 0, 2, bits=32), *tail).peephole
    assert report(CALL, positive, *tail[:2], asm.branch("sgt", 0, 1), EXIT, EXIT).peephole
    for other in (
        asm.branch("sgt", 0, 2, imm=1),
        asm.branch("sgt", 6, 2),
        asm.branch("sgt", 0, 2, src=6),
        asm.branch("ne", 0, 2),
        asm.branch("sge", 0, 2),
    ):
        assert not report(CALL, other, *tail).peephole
    for behind in (mov(0, 0), asm.goto(0), asm.load(0, 10, -8, 8)):
        assert not report(CALL, behind, EXIT).peephole
    assert not report(CALL, asm.branch("sgt", 0, -1), EXIT).peephole  # in a circle: the patch would never end


def test_the_peephole_takes_any_functions_exit_for_the_programs() -> None:
    """It says yes to a redirect whose answer the caller throws away; dataflow says where."""
    found = report(asm.call(2, 1), number(0, 1), EXIT, CALL, EXIT)
    site = found.sites[0]
    assert site.peephole
    assert site.broken is not None
    assert site.broken.path == (3, 4, 1, 2)
    assert site.broken.reason == "returns XDP_DROP where bpf_redirect_map returned XDP_REDIRECT"


def test_one_function_called_from_two_places_breaks_where_one_of_them_breaks() -> None:
    found = report(
        asm.branch("eq", 1, 2),  # 0
        asm.call(4, 1),  # 1: to 6
        EXIT,  # 2
        asm.call(2, 1),  # 3: to 6
        number(0, 2),  # 4
        EXIT,  # 5
        CALL,  # 6
        EXIT,  # 7
    )
    assert found.sites[0].broken is not None
    assert found.sites[0].broken.path == (6, 7, 4, 5)


def test_a_program_that_mixes_both_helpers_is_flagged() -> None:
    found = report(asm.branch("eq", 1, 2), CALL, EXIT, asm.call(REDIRECT), EXIT)
    assert found.dataflow
    assert found.peephole
    assert found.mixes
    assert not found.qualifies
    assert "calls bpf_redirect too" in found.conclusion()
    # The one that can't be reached doesn't count.
    assert not report(number(1, 0), asm.branch("eq", 1, 1), asm.call(REDIRECT), CALL, EXIT).mixes


def test_a_program_that_goes_on_in_others_is_flagged() -> None:
    """What bpf_tail_call leads to isn't seen; an own redirect before it is broken by it, one after its failure isn't."""
    found = report(asm.call(TAIL_CALL), CALL, EXIT)
    assert found.dataflow
    assert not found.qualifies
    assert "goes on in other programs" in found.conclusion()
    assert found.as_dict()["calls_other_programs"]


def test_a_function_that_is_called_and_handed_to_a_helper_is_followed_as_both() -> None:
    found = report(asm.wide(2, 4, 4), asm.call(181), asm.call(1, 1), EXIT, CALL, EXIT)
    assert found.sites[0].broken is not None
    assert "returns to the helper" in found.sites[0].broken.reason
    with pytest.raises(AnalysisError, match="call the program itself"):
        report(asm.wide(2, -1, 4), asm.call(181), EXIT)


def test_a_program_without_a_redirect_does_not_qualify() -> None:
    found = report(number(0, 2), EXIT)
    assert (found.peephole, found.dataflow, found.qualifies) == (False, False, False)
    assert found.as_dict()["sites"] == []


def test_a_call_that_is_never_reached_breaks_nothing() -> None:
    found = report(number(1, 0), asm.branch("eq", 1, 2), CALL, number(0, 7), CALL, EXIT)
    assert [(site.reached, site.dataflow) for site in found.sites] == [(False, True), (True, True)]
    assert found.why(found.sites[0]) == "never reached"


def test_a_redirect_in_a_function_that_a_helper_calls_is_not_the_end() -> None:
    found = report(asm.wide(2, 3, 4), asm.call(181), EXIT, CALL, EXIT)
    assert [function.callback for function in found.code.functions] == [False, True]
    assert found.sites[0].broken is not None
    assert "returns to the helper" in found.sites[0].broken.reason


def test_of_very_many_ways_it_still_tells() -> None:
    """Every branch doubles what can be known; past some thousands they are joined, and the answer stays sound."""
    many = b"".join(asm.branch("eq", 6, 1) + asm.alu("add", 7, imm=1 << i) for i in range(16))
    assert report(mov(6, 1), CALL, number(7, 0), many, EXIT).qualifies
    found = report(mov(6, 1), CALL, number(7, 0), many, number(0, 2), EXIT)
    assert found.sites[0].broken is not None
    assert "returns XDP_PASS" in found.sites[0].broken.reason


def test_calls_in_a_circle_are_an_error() -> None:
    with pytest.raises(AnalysisError, match="9 functions deep"):
        report(asm.call(1, 1), EXIT, asm.call(-1, 1), CALL, EXIT)


def test_the_report_is_for_people_and_for_programs() -> None:
    found = report(CALL, number(0, 2), EXIT)
    assert "1 of 1 calls of bpf_redirect_map: not a tail call" in str(found)
    broken = found.as_dict()["sites"][0]["broken"]
    assert broken["path"] == [0, 1, 2]
    assert broken["result"] == "XDP_REDIRECT"
    assert found.rows()[0][1] == "(no line information)"
