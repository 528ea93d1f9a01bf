"""The exercises on the fast path: each plausible mistake is seen, and the first place to look leads to its cause.

That stubs fail and solutions pass, tests/kernel/test_exercises.py shows for every exercise.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import labkit as lk
from labkit import lesson

ROOT = Path(__file__).resolve().parents[2]
SOLUTIONS = ROOT / "notebooks" / "solutions"
ALL = ("count-first", "change-first", "one-helper")


@pytest.fixture(autouse=True)
def progress(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDP_LAB_PROGRESS", str(tmp_path / "progress.json"))


def edited(id: str, *changes: tuple[str, str]) -> str:
    text = (SOLUTIONS / f"{lesson.exercise(id).function}.c").read_text()
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return text


STUBS = {
    "count-first": ["redirect_map in line"],
    "change-first": ["redirect_map in line"],
    "one-helper": ["calls of bpf_redirect", "slot 7 emptied"],  # by its index, the uplink is there without a slot, too
}


@pytest.mark.parametrize("id", ALL)
def test_the_stub_does_its_job_and_fails_for_its_bytecode(id: str) -> None:
    result = lk.check(id)
    assert not result.passed
    assert result.error is None
    wrong = [row.what for row in result.rows if not row.good]
    assert len(wrong) == len(STUBS[id]), wrong
    for what, expected in zip(wrong, STUBS[id], strict=True):
        assert expected in what
    assert len(result.rows) >= 6


SEND = "return ports.redirect_map(slot, XDP_PASS);"
COUNT = "\tif (packets)\n\t\t(*packets)++;\n"
CHANGE = "\tset_destination(eth, mac);\n"
BACK = "if (action == XDP_PASS)"
ONE = "return ports.redirect_map(slot < UPLINK ? slot : UPLINK, XDP_PASS);"

MISTAKES = [
    # exercise, [what is changed], a row that differs, and a word of the first place to look
    ("count-first", [(SEND, f"int action = ports.redirect_map(slot, XDP_PASS);\n{COUNT}\treturn action;"),
                     (f"{COUNT}\tint", "\tint")],
     "redirect_map in line", "the counter: behind"),
    ("count-first", [(SEND, "return verdict(ctx, ports.redirect_map(slot, XDP_PASS));")], "redirect_map in line", "last thing"),
    ("count-first", [(SEND, "return ports.redirect_map(slot, XDP_PASS) == XDP_REDIRECT ? XDP_REDIRECT : XDP_PASS;")],
     "redirect_map in line", "the answer"),
    ("count-first", [(SEND, "return ports.redirect_map(slot, 0);")], "slot 7, empty", "the empty slot"),
    ("count-first", [(SEND, "return ports.redirect_map(1, XDP_PASS);")], "h1 to h2", "the slot"),
    ("count-first", [(SEND, "return bpf_redirect(slot, 0);")], "calls of redirect_map", "redirect_map()"),
    ("count-first", [(COUNT, ""), ("*packets = asked.lookup(&slot)", "*packets"), ("u64 *packets;\n", "")],
     "the map asked", "nothing is counted"),
    ("count-first", [("if (packets)", "if (packets && slot < 7)")], "asked[7]", "grows by 1"),
    ("change-first", [(f"{CHANGE}\taction", "\taction"), (BACK, "if (action == XDP_REDIRECT)"),
                      ("&before);\n\treturn", "mac);\n\treturn")],
     "redirect_map in line", "behind the redirect"),
    ("change-first", [(BACK, "if (action != XDP_REDIRECT)")], "redirect_map in line", "anything but"),
    ("change-first", [(BACK, "if (action == XDP_ABORTED)")], "slot 6", "what passes"),
    ("change-first", [(CHANGE + "\taction", "\taction")], "h1 to h2", "the MAC address"),
    ("change-first", [("redirect_map(slot, XDP_PASS)", "redirect_map(slot, 0)")], "slot 6", "the empty slot"),
    ("change-first", [("if (!eth || !mac)\n\t\treturn XDP_PASS;", "if (!eth || !mac)\n\t\treturn XDP_DROP;")],
     "doesn't have", "who isn't"),
    ("one-helper", [(ONE, f"if (slot >= UPLINK)\n\t\treturn bpf_redirect(2, 0);\n\t{ONE}")],
     "calls of bpf_redirect", "don't mix"),
    ("one-helper", [(ONE, f"if (slot >= UPLINK)\n\t\treturn XDP_PASS;\n\t{ONE}")], "far away", "the uplink"),
    ("one-helper", [(ONE, "return ports.redirect_map(slot & 7, XDP_PASS);")], "far away", "the uplink"),
    ("one-helper", [(ONE, "int action = ports.redirect_map(slot, XDP_PASS);\n\n"
                          "\tif (action == XDP_REDIRECT)\n\t\treturn action;\n"
                          "\treturn ports.redirect_map(UPLINK, XDP_PASS);")], "redirect_map in line", "one try"),
    ("one-helper", [(ONE, ONE.replace("XDP_PASS", "XDP_DROP"))], "slot 5", "the empty slot"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("id", "changes", "row", "look"), MISTAKES, ids=[f"{m[0]}-{m[3]}-{i}" for i, m in enumerate(MISTAKES)]
)
def test_a_mistake_is_seen_and_its_cause_named(id: str, changes: list[tuple[str, str]], row: str, look: str) -> None:
    result = lk.check(id, edited(id, *changes))
    assert result.error is None, str(result)
    assert any(row in each.what for each in result.rows if not each.good), str(result)
    assert look in result.looks[0], str(result)
    assert len(result.looks) <= 4, result.looks


OTHER_WAYS = [
    ("count-first", [(SEND, "int action = ports.redirect_map(slot, XDP_PASS);\n\n"
                            "\tif (action == XDP_PASS)\n\t\tbpf_ktime_get_ns();\n\treturn action;")]),
    ("change-first", [(BACK, "if (action != XDP_REDIRECT && action != XDP_DROP)")]),
    ("one-helper", [(ONE, "if (slot < UPLINK)\n\t\treturn ports.redirect_map(slot, XDP_PASS);\n"
                          "\treturn ports.redirect_map(UPLINK, XDP_PASS);")]),
]  # fmt: skip


@pytest.mark.parametrize(("id", "changes"), OTHER_WAYS, ids=[id for id, _ in OTHER_WAYS])
def test_another_way_is_right_too(id: str, changes: list[tuple[str, str]]) -> None:
    assert lk.check(id, edited(id, *changes), strict=True).passed


def test_a_program_that_passes_everything_is_no_answer() -> None:
    text = '#include "common/verdict.h"\nint all(struct xdp_md *ctx) { return XDP_PASS; }\n'
    result = lk.check("count-first", text)
    assert result.error is None, str(result)
    assert not result.passed
    assert "redirect_map()" in result.looks[0]


@pytest.mark.parametrize(
    ("id", "old", "new", "look"),
    [
        ("count-first", "LAB_PERCPU_ARRAY(asked", "LAB_PERCPU_HASH(asked, u32", "LAB_PERCPU_ARRAY(asked, u64, 8)"),
        ("count-first", "LAB_DEVMAP(ports, 8)", "LAB_DEVMAP(ports, 2)", "LAB_DEVMAP(ports, 8)"),
        ("one-helper", "LAB_DEVMAP(ports", "LAB_CPUMAP(ports", "LAB_DEVMAP(ports, 8)"),
    ],
)
def test_a_map_of_another_kind_is_told(id: str, old: str, new: str, look: str) -> None:
    result = lk.check(id, edited(id, (old, new)))
    assert result.error is None, str(result)
    assert look in result.looks[0]


def test_what_goes_on_in_another_program_is_no_answer() -> None:
    jump = "BPF_PROG_ARRAY(others, 1);\n\nint one_helper"
    text = edited("one-helper", ("int one_helper", jump), (ONE, f"if (slot == 6)\n\t\tothers.call(ctx, 0);\n\t{ONE}"))
    result = lk.check("one-helper", text)
    assert result.error is None, str(result)
    assert [row.what for row in result.rows if not row.good] == ["goes on in another program"]
