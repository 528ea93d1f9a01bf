"""The exercises on metadata: each plausible mistake is seen, and the first place to look leads to its cause.

That stubs fail and solutions pass, tests/kernel/test_exercises.py shows for every exercise.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from test_redirect_exercises import edited

import labkit as lk
from labkit import lesson

LEAVE, ROOM = "leave-a-note", "note-if-room"


@pytest.fixture(autouse=True)
def progress(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDP_LAB_PROGRESS", str(tmp_path / "progress.json"))


PORT = "ntohs(udp->dest)"
NUMBER = "(*number)++"
ADJUST = "bpf_xdp_adjust_meta(ctx, -(int)sizeof(*note))"
SHOT = "note->mark == *mark ? TC_ACT_SHOT : TC_ACT_OK"
MISSING = "if (!mark || (void *)(note + 1) > (void *)(long)skb->data)\n\t\treturn TC_ACT_OK"
REFUSED = "return verdict(ctx, XDP_PASS); /* whatever the reason: the packet isn't to blame */"
PRESENT = "if ((void *)(note + 1) <= (void *)(long)skb->data && note->mark == 1)"
LENGTH = "if ((void *)(note + 1) <= (void *)(long)skb->data)"

MISTAKES = [
    # exercise, [what is changed], a row that differs, and a word of the first place to look
    (LEAVE, [(PORT, "udp->dest")], "UDP to port 9999", "byte order"),
    (LEAVE, [(f"note->number = {NUMBER};", "")], "UDP to port 9999", "the number"),
    (LEAVE, [("note->mark = mark;", "")], "UDP to port 9999", "isn't cleared"),
    (LEAVE, [(" || is_later_fragment(ip)", "")], "later fragment", "fragments"),
    (LEAVE, [("-(int)sizeof(*note)", "-16")], "UDP to port 9999", "the length"),
    (LEAVE, [(ADJUST, "0")], "UDP to port 9999", "room"),
    (
        LEAVE,
        [("note->number = (*number)++;\n\treturn verdict(ctx, XDP_PASS)", "return XDP_DROP")],
        "UDP",
        "the verdict",
    ),
    (LEAVE, [(SHOT, "TC_ACT_OK")], "the mark 4242, closed[0] is 4242", "skb->data_meta"),
    (LEAVE, [(SHOT, "note->mark == 9999 ? TC_ACT_SHOT : TC_ACT_OK")], "closed[0] is 4242", "closed[0]"),
    (LEAVE, [(MISSING, MISSING.replace("TC_ACT_OK", "TC_ACT_SHOT"))], "no metadata", "no mark, not even 0"),
    (
        LEAVE,
        [(MISSING, MISSING.replace("OK", "OK + (mark && !*mark ? TC_ACT_SHOT : 0)"))],
        "closed[0] is 0",
        "not even 0",
    ),
    (LEAVE, [("LAB_ARRAY(closed", "LAB_ARRAY(shut"), ("closed.lookup", "shut.lookup")], "the map closed", "map closed"),
    (ROOM, [(REFUSED, "return verdict(ctx, XDP_DROP);")], "no headroom left", "whatever reason"),
    (
        ROOM,
        [
            (
                f"if ({ADJUST})",
                f"int no = {ADJUST};\n\tif (no && no != -22)\n\t\treturn verdict(ctx, XDP_DROP);\n\tif (no)",
            )
        ],
        "252 bytes of somebody's metadata",
        "whatever reason",
    ),
    (ROOM, [("note->mark = 1", "note->mark = 2")], "headroom as usual", "to be 1"),
    (ROOM, [(PRESENT, LENGTH)], "mark 77", "is yours if its mark is 1"),
    (ROOM, [(PRESENT, "if (skb->data_meta != skb->data)")], "four bytes: 1", "note_or_none"),
    (ROOM, [("slot = 0;", "slot = 1;")], "a note with the mark 1", "notes[0]"),
    (ROOM, [("notes.lookup", "counts.lookup"), ("(notes,", "(counts,")], "the map notes", "count in it"),
]


@pytest.mark.parametrize(("id", "changes", "row", "look"), MISTAKES)
def test_a_mistake_is_seen_and_named(id: str, changes: list[tuple[str, str]], row: str, look: str) -> None:
    result = lk.check(id, edited(id, *changes))
    assert not result.passed
    assert result.error is None, str(result)
    assert any(row in wrong.what for wrong in result.rows if not wrong.good), str(result)
    assert look in result.looks[0], result.looks
    assert len(result.looks) < 4


def test_a_forgotten_check_is_the_verifiers_to_tell() -> None:
    text = edited(LEAVE, ("if ((void *)(note + 1) > (void *)(long)ctx->data)\n\t\treturn verdict(ctx, XDP_PASS);", ""))
    result = lk.check(LEAVE, text)
    assert "refused by the verifier" in result.sentence
    assert "note->mark = mark" in str(result.error)


@pytest.mark.parametrize(("id", "lost"), [(LEAVE, "read_note"), (ROOM, "note_if_room")])
def test_a_function_of_another_name_is_told(id: str, lost: str) -> None:
    result = lk.check(id, edited(id, (f"int {lost}(", "int something(")))
    assert not result.passed
    assert lost in str(result.error)


@pytest.mark.parametrize("id", [LEAVE, ROOM])
def test_hints_end_with_nearly_the_answer(id: str) -> None:
    hints = lesson.exercise(id).hints
    assert len(hints) == 4
    assert "TC_ACT_" in hints[-1]
