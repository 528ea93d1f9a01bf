"""The exercises of lesson 05's third part: each plausible mistake is seen, and the first place to look leads to its cause."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import labkit as lk
from labkit import lesson

FIELD, HASH = "add-a-field", "use-the-hash"
Check = Callable[..., lesson.CheckResult]


@pytest.fixture
def check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Check:
    """Checks the solution with these changes made to it; progress goes to a file of the test's own."""
    monkeypatch.setenv("XDP_LAB_PROGRESS", str(tmp_path / "progress.json"))
    solutions = Path(__file__).resolve().parents[2] / "notebooks" / "solutions"

    def checked(id: str, *changes: tuple[str, str]) -> lesson.CheckResult:
        text = (solutions / f"{lesson.exercise(id).function}.c").read_text()
        for old, new in changes:
            assert old in text, f"the solution has changed: {old}"
            text = text.replace(old, new)
        return lk.check(id, text)

    return checked


@pytest.mark.parametrize("id", [FIELD, HASH])
def test_stub_fails_and_solution_passes(id: str, check: Check) -> None:
    stub = lk.check(id)
    assert not stub.passed
    assert stub.error is None, "it loads: what is wrong are the packets"
    assert 0 < len(stub.looks) <= 2, stub.looks
    solved = check(id)
    assert solved.passed, str(solved)
    assert len(solved.rows) >= 13


LEFT, RIGHT = "\tu32 frame_bytes;\n\tstruct meta_generic generic;", "\tstruct meta_generic generic;\n\tu32 frame_bytes;"
LENGTH = "(void *)(long)ctx->data_end - (void *)(long)ctx->data;"
PACKED = "packed, aligned(4)"
GENERIC = "META_GENERIC_OF(ctx)"
CHOICE = "(u64)generic->hash * *count >> 32"
ALL_OF = "(void *)(long)ctx->data_meta, (void *)(long)ctx->data"
FIRST = (
    "(void *)(long)ctx->data_meta;\n\n\tif ((void *)(generic + 1) > (void *)(long)ctx->data || !meta_is_ours(&generic->id))"
    "\n\t\treturn verdict(ctx, XDP_PASS)"
)
TO_ZERO = "\t\treturn verdict(ctx, cpus.redirect_map(0, 0));"

MISTAKES = [
    # exercise, [what is changed], a row that differs, and a word of the first place to look
    (FIELD, [(LEFT, RIGHT)], "an old reader", "the generic part has to stay the last"),
    (FIELD, [("META_OWN", "META_GENERIC")], "a new reader", "needs ids of its own"),
    (FIELD, [("META_OWN", "META_FLOW")], "a new reader", "needs ids of its own"),
    (FIELD, [("META_OWN", "META_OWN + 1")], "an old reader", "yours are in META_OWN"),
    (FIELD, [("u32 frame_bytes", "u16 frame_bytes")], "an old reader", "a multiple of 4 bytes"),
    (FIELD, [("u32 frame_bytes", "u16 frame_bytes"), (PACKED, "packed")], "struct meta_mine", "a multiple of 4 bytes"),
    (FIELD, [("sizeof(*mine)", "sizeof(struct meta_generic)")], "an old reader", "asked for fewer bytes"),
    (FIELD, [(LENGTH, LENGTH.replace("data;", "data_meta;"))], "a new reader", "what is before ctx->data"),
    (FIELD, [(f"mine->frame_bytes = {LENGTH}", ";")], "a new reader", "is it written"),
    (FIELD, [(LENGTH, "htonl(ctx->data_end - ctx->data);")], "a new reader", "the byte order"),
    (FIELD, [("frame_bytes", "length")], "struct meta_mine", "the field's name"),
    (FIELD, [("\tu32 frame_bytes;\n", ""), (f"\t\tmine->frame_bytes = {LENGTH}\n", "")], "struct meta_mine", "added like"),
    (FIELD, [("mine->generic.hash = flow.hash;", ";")], "an old reader", "the generic fields"),
    (FIELD, [("XDP_PASS", "XDP_DROP")], "the packet itself", "every packet passes"),
    (HASH, [('meta.h"', 'meta.h"\n#include "common/flow.h"'), ("generic->hash *", "flow_of(ctx).hash *")],
     "packets, one hash", "nothing of the packet"),
    (HASH, [(f"{GENERIC};", f"{FIRST};")], "in meta_flow", "from which side"),
    (HASH, [(GENERIC, f"meta_end({ALL_OF}, sizeof(*generic), sizeof(*generic))")], "another magic", "the magic"),
    (HASH, [("!generic->hash_type || ", "")], "hash_type 0", "nobody filled the hash in"),
    (HASH, [("!generic->hash_type", "!generic->hash")], "the hash 0", "a hash like any other"),
    (HASH, [("XDP_PASS", "XDP_DROP")], "no metadata", "metadata is advice"),
    (HASH, [("\t\treturn verdict(ctx, XDP_PASS);", TO_ZERO)], "no metadata", "metadata is advice"),
    (HASH, [(CHOICE, "generic->hash & 63")], "by CPU", "cpus_in_use says how many"),
    (HASH, [(CHOICE, "generic->hash >> 31")], "cpus_in_use is 1", "cpus_in_use says how many"),
    (HASH, [(CHOICE, "(u64)generic->hash * *count >> 40")], "by CPU", "which bits"),
    (HASH, [("!generic->hash_type", "!generic->hash_type || generic->id.btf_id")], "one hash", "they go to a CPU"),
    (HASH, [("cpus_in_use", "in_use")], "the map cpus_in_use", "the maps as the stub has them"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("id", "changes", "row", "look"), MISTAKES, ids=[f"{m[0]}-{number}" for number, m in enumerate(MISTAKES)]
)
def test_a_mistake_is_seen_and_its_cause_named(
    id: str, changes: list[tuple[str, str]], row: str, look: str, check: Check
) -> None:
    result = check(id, *changes)
    said = str(result)
    assert result.error is None, said
    assert any(row in each.what and not each.good for each in result.rows), said
    assert look in result.looks[0], said
    assert len(result.looks) <= 2, said


def test_other_right_answers_pass(check: Check) -> None:
    assert check(HASH, (CHOICE, "generic->hash % *count")).passed
    assert check(FIELD, ("u32 frame_bytes;", "u16 pad;\n\tu16 frame_bytes;")).passed


def test_a_program_without_metadata_is_told_where_to_begin(check: Check) -> None:
    text = '#include "common/verdict.h"\nint add_a_field(struct xdp_md *ctx) { return verdict(ctx, XDP_PASS); }\n'
    result = lk.check(FIELD, text)
    assert not result.passed
    assert "never calls meta_compose()" in str(result)


def test_with_one_cpu_the_exercise_is_the_same(monkeypatch: pytest.MonkeyPatch, check: Check) -> None:
    monkeypatch.setattr("labkit.lesson.workshop.usable_cpus", lambda: (0,))
    assert not lk.check(HASH).passed
    assert check(HASH).passed


def test_hints_go_from_a_nudge_to_nearly_the_answer() -> None:
    for id in (FIELD, HASH):
        hints = lesson.exercise(id).hints
        assert len(set(hints)) == len(hints) >= 4
