"""The editor of a running program: swaps under traffic, refusals that touch nothing, and what is kept."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from patience import until

import labkit as lk
from labkit.compile import client
from labkit.errors import CompileError, StateError, VerifierError
from labkit.widgets import ProgramEditor, editor_versions

N = 10_007  # prime
MANY = 400_009  # prime

TEXT = """\
#include "common/maps.h"
#include "common/verdict.h"

LAB_PERCPU_ARRAY(seen, u64, 1);

int judge(struct xdp_md *ctx)
{
	u32 first = 0;
	u64 *packets = seen.lookup(&first);

	if (!packets)
		return verdict(ctx, XDP_ABORTED);
	(*packets)++;
	return verdict(ctx, XDP_DROP);
}
"""
UNCHECKED = TEXT.replace(
    "	(*packets)++;", "	(*packets)++;\n	if (((u8 *)(long)ctx->data)[23] == 17)\n		return 1;"
)


@pytest.fixture(autouse=True)
def progress(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDP_LAB_PROGRESS", str(tmp_path / "progress.json"))


@pytest.fixture
def editor(lab: lk.Lab) -> Iterator[ProgramEditor]:
    made = ProgramEditor(lab, lab["server"]["eth0"], text=TEXT)
    yield made
    made.close()


def say(editor: ProgramEditor, what: str, **values: Any) -> dict[str, Any]:
    """What the browser says, and the state after it."""
    editor._heard(editor, {"type": what, **values}, [])
    until(lambda: editor._work.idle, "the editor's work")
    state: dict[str, Any] = editor.state
    return state


def send(lab: lk.Lab, packets: int) -> None:
    assert lk.generate(lab["client"]["eth0"], lk.udp(lab["client"], lab["server"]), packets=packets).sent == packets


def test_swaps_in_the_midst_of_traffic_lose_and_miscount_nothing(lab: lk.Lab, editor: ProgramEditor) -> None:
    server = lab["server"]["eth0"]
    first = editor.run()
    before = server.statistics()["rx_packets"]
    traffic = lk.Generator(lab["client"]["eth0"], lk.udp(lab["client"], lab["server"]), packets=MANY, rate_pps=300_000)
    verdicts = ("XDP_PASS", "XDP_ABORTED", "XDP_DROP")
    swaps = 0
    with lk.UdpSink(lab["server"]):  # else the server would answer what passes
        traffic.start()
        try:
            while traffic.running:
                editor.text = f"/* {swaps} */\n{TEXT.replace('XDP_DROP', verdicts[swaps % 3])}"
                editor.run()
                swaps += traffic.running
            assert traffic.wait().sent == MANY
        finally:
            traffic.stop()
    assert swaps >= 3, "the test swaps while packets come"
    ledger = lab.ledger()
    assert (ledger.sent, ledger.unaccounted) == (MANY, 0)
    running = editor.running
    assert running is not None
    assert running.program.maps["seen"][0] == MANY, "the program's own count goes on over every swap"
    counts = [version.verdicts() or {} for version in editor.versions]
    assert sum(sum(each.values()) for each in counts) == MANY
    assert server.statistics()["rx_packets"] - before == MANY, "and the driver, which knows nothing of it, agrees"
    assert first.verdicts() is not None
    assert not editor.errors


def test_counters_go_on_and_what_could_not_be_kept_is_named(lab: lk.Lab, editor: ProgramEditor) -> None:
    assert editor.run().handover.fresh == ("seen", "verdicts")
    send(lab, N)
    editor.text = TEXT.replace("XDP_DROP", "XDP_PASS")
    second = editor.run()
    assert set(second.handover.kept) == {"seen", "verdicts"}
    assert not second.handover.lost
    send(lab, 997)
    assert second.program.maps["seen"][0] == N + 997
    for change, why in (
        (("u64, 1)", "u64, 2)"), "it had 1 entries and has 2 now"),
        (("LAB_PERCPU_ARRAY(seen", "LAB_ARRAY(seen"), "of type percpu_array and is array now"),
        (("(seen, u64", "(seen, s64"), "its value was an unsigned number and is a signed number now"),
        (("seen", "counted"), "the new text has no map of this name"),
    ):
        editor.back(2)
        editor.text = second.text.replace(*change)
        made = editor.run()
        assert why in dict(made.handover.lost)["seen"], change
        assert "verdicts" in made.handover.kept
        fates = {row["name"]: row for row in editor.state["found"]["maps"]}
        assert fates["verdicts"]["fate"] == "goes on"
        assert why in str(fates), "named on the page, too"
    assert editor.back(2).program.maps["seen"][0] == N + 997, "and whoever goes back finds the old ones"


def test_a_structure_of_other_fields_is_another_map(lab: lk.Lab, editor: ProgramEditor) -> None:
    text = TEXT.replace("LAB_PERCPU", "struct pair { u64 packets, bytes; };\nLAB_PERCPU").replace(
        "seen, u64", "seen, struct pair"
    )
    text = text.replace("u64 *packets =", "struct pair *packets =").replace("(*packets)++", "packets->packets++")
    editor.text = text
    editor.run()
    editor.text = text.replace("u64 packets, bytes;", "u64 bytes, packets;")
    assert "was a structure of packets, bytes and is" in dict(editor.run().handover.lost)["seen"]


@pytest.mark.parametrize(
    ("broken", "error", "headline"),
    [
        (TEXT.replace("XDP_DROP", "XDP_DRO"), CompileError, "Not compiled: 1 error."),
        (UNCHECKED, VerifierError, "the verifier refuses it."),
    ],
)
def test_a_refusal_never_touches_what_runs(
    lab: lk.Lab, editor: ProgramEditor, broken: str, error: type[Exception], headline: str
) -> None:
    running = editor.run()
    send(lab, 997)
    editor.text = broken
    with pytest.raises(error):
        editor.run()
    with pytest.raises(error):
        editor.check()
    found = editor.state["found"]
    assert found["headline"].endswith(f"{headline} Version 1 goes on running, untouched.")
    at = lab["server"]["eth0"].xdp()
    assert at is not None
    assert at.program_id == running.program.id
    send(lab, N)
    assert running.verdicts() == {"XDP_DROP": N + 997}
    assert [version.number for version in editor.versions] == [1]
    assert len(lab.programs) == 1, "what was tried is let go of"


def test_the_registers_at_a_refusal_in_words(editor: ProgramEditor) -> None:
    editor.text = UNCHECKED
    with pytest.raises(VerifierError) as refused:
        editor.run()
    line = 1 + UNCHECKED.split("\n").index("	if (((u8 *)(long)ctx->data)[23] == 17)")
    assert [remark.line for remark in refused.value.remarks] == [line]
    named = next(each for each in refused.value.registers if each.named)
    assert named.words.startswith("points to the start of the packet (data); no byte has been shown to be there")
    assert named.line == line
    assert editor.state["found"]["registers"]
    assert "[23]" in named.text


def test_what_a_header_is_blamed_for_is_shown_at_its_include(editor: ProgramEditor) -> None:
    editor.text = TEXT.replace("#include", "#define verdicts 5 +\n#include", 1)
    with pytest.raises(CompileError) as refused:
        editor.run()
    first = refused.value.remarks[0]
    assert (first.line, first.header.partition(",")[0]) == (3, "bpf/common/verdict.h")


NONSENSE = {
    "nothing": "",
    "a zero byte": TEXT + "\0",
    "half a character": TEXT + "/* \ud800 */",
    "an unclosed comment": TEXT + "/* and so on",
    "an endless include": '#include "common/maps.h"\n' * 3 + "#define A A A\nint f(void) { A }",
    "a macro that explodes": "".join(f"#define M{i + 1} M{i} M{i}\n" for i in range(14))
    + "#define M0 x\nint f() { M14 }",
    "too much stack": (Path(__file__).resolve().parents[2] / "bpf/rejected/large_stack.c").read_text(),
    "no function": "/* nothing */\n",
    "a crash of the compiler": "#pragma clang __debug crash\n",
    "not C": "import labkit as lk\n",
}


def test_no_text_harms_the_kernel_or_what_runs(lab: lk.Lab, editor: ProgramEditor) -> None:
    running = editor.run()
    for what, text in NONSENSE.items():
        state = say(editor, "run", text=text, view="v", request=what)
        assert state["found"]["kind"] == "bad", what
        assert state["found"]["remarks"], what
        assert "Version 1 goes on running" in state["found"]["headline"], what
        assert state["answered"] == what
        assert editor.running is running
    state = say(editor, "run", text="x" * 200_001)
    assert "200,000 are the most" in state["found"]["remarks"][0]["remedy"]
    pid = client.child_pid()
    assert pid is not None
    assert say(editor, "run", text=TEXT.replace("DROP", "PASS"))["found"]["kind"] == "good"
    assert len(editor.errors) == len(NONSENSE) + 1


def test_every_callback_that_fails_is_shown(editor: ProgramEditor, monkeypatch: pytest.MonkeyPatch) -> None:
    for what, values, words in (
        ("back", {"number": 9}, "There is no version 9."),
        ("back", {"number": "one"}, "There is no version 'one'."),
        ("diff", {"of": 3}, "There is no version 3."),
        ("text", {"text": 5}, "text can't be of type int."),
        ("function", {"name": "nobody"}, ""),
    ):
        turn = editor.state["turn"]
        state = say(editor, what, **values)
        assert state["turn"] > turn, what
        assert not words or state["found"]["remarks"][0]["said"] == words

    def broken(*_: object) -> None:
        raise RuntimeError("a fault of <our> own")

    monkeypatch.setattr(editor.history, "run", broken)
    assert "a fault of <our> own" in say(editor, "run", text=TEXT)["found"]["remarks"][0]["said"]
    assert isinstance(editor.errors[-1], RuntimeError)
    monkeypatch.setattr(editor, "_look", broken)
    say(editor, "look")
    assert isinstance(editor.errors[-1], RuntimeError)
    monkeypatch.undo()
    editor._heard(editor, "nonsense", [])
    say(editor, "nonsense")


def test_back_to_a_version_and_what_differs(lab: lk.Lab, editor: ProgramEditor) -> None:
    first = editor.run()
    say(editor, "run", text=TEXT.replace("XDP_DROP", "XDP_PASS"))
    assert editor.diff(1).splitlines()[-2:] == ["+\treturn verdict(ctx, XDP_PASS);", " }"]
    assert editor.diff(2) == ""
    say(editor, "diff", of=1, to=2)
    assert ["-", "\treturn verdict(ctx, XDP_DROP);"] in editor.diff_shown["lines"]
    say(editor, "back", number=1)
    assert (editor.running, editor.text) == (first, TEXT)
    assert editor.diff_shown["lines"], "between two versions: the text's change is nothing to it"
    send(lab, N)
    assert first.verdicts() == {"XDP_DROP": N}
    rows = {row["number"]: row for row in editor.versions_shown}
    say(editor, "look")
    rows = {row["number"]: row for row in editor.versions_shown}
    assert (rows[1]["running"], rows[1]["verdicts"]) == (True, [["DROP", N]])
    assert rows[2]["verdicts"] == []
    assert say(editor, "run", text=TEXT)["found"]["headline"] == "Version 1 runs already: the text is the same."
    first.program.close()  # by other hands; it goes on running
    assert say(editor, "run", text=TEXT + "\n")["found"]["kind"] == "good"
    assert editor.back(1).program.closed is False


def test_old_versions_leave_the_kernel_and_come_back(editor: ProgramEditor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(editor_versions, "_KEPT_LOADED", 2)
    for number in range(5):
        editor.text = f"{TEXT}/* {number} */\n"
        editor.run()
    assert [version.number for version in editor.versions if version.program.closed] == [1, 2]
    assert editor.back(2).handover.kept == ("seen", "verdicts")


def test_what_others_put_there_becomes_a_version(lab: lk.Lab, editor: ProgramEditor, verdicts: lk.ProgramSpec) -> None:
    editor.run()
    link = editor.history.link
    assert link is not None
    link.replace(lab.load(verdicts, "pass"))
    assert [version.name for version in editor.versions] == ["judge", "pass"]
    link.close()
    assert editor.running is None
    editor.text = TEXT + "\n"
    editor.run()
    assert lab["server"]["eth0"].xdp() is not None
    with lab.load(verdicts, "drop").attach(lab["client"]["eth0"], mode="generic") as other:
        again = ProgramEditor(other, draft=False)
        again.text = again.text.replace("ctx, 42", "ctx, 43")
        assert (again.run().name, again.mode) == ("drop", "generic")
        assert "strange" in again.state["functions"]
        assert say(again, "function", name="pass")["function"] == "pass"
        assert again.running is not None
        assert again.running.name == "drop", "a choice alone runs nothing"
        assert again.run().name == "pass"
        again.close()


def test_the_text_outlives_the_kernel_and_the_cell(lab: lk.Lab, tmp_path: Path) -> None:
    server = lab["server"]["eth0"]
    editor = ProgramEditor(lab, server, text=TEXT)
    editor.run()
    say(editor, "text", text=TEXT + "/* mine */\n", view="v")
    assert editor.given["whose"] == "v", "a view does not get its own text back"
    assert "/* mine */" in editor._repr_mimebundle_()[0]["text/html"]
    again = ProgramEditor(lab, server, text=TEXT)
    assert again.text == TEXT + "/* mine */\n"
    assert "kept from before" in again.state["note"]
    assert "shown again" in editor.state["ended"]
    assert [version.number for version in again.versions] == [1], "with its versions"
    other = ProgramEditor(lab, server, text=TEXT + "\n")
    assert other.text == TEXT + "\n", "another original has another draft"
    other.close()
    third = ProgramEditor(lab, server, text=TEXT)
    say(third, "original")
    assert third.text == TEXT
    third.close()
    assert not list((tmp_path / "drafts").iterdir())


def test_a_draft_that_cannot_be_written_is_told(lab: lk.Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDP_LAB_PROGRESS", str(tmp_path / "file" / "progress.json"))
    for _ in range(2):
        editor = ProgramEditor(lab, lab["server"]["eth0"], text=TEXT)
        editor.text = TEXT + "/* only here */\n"
        assert "could not be kept" in editor.state["note"] or editor.text.endswith("/* only here */\n")
        editor.close()
    assert ProgramEditor(lab, lab["server"]["eth0"], text=TEXT).text.endswith("/* only here */\n")


def test_saving_never_overwrites_by_surprise(editor: ProgramEditor, tmp_path: Path) -> None:
    target = tmp_path / "new" / "mine.c"
    assert editor.save(target).read_text() == TEXT
    with pytest.raises(StateError, match="is there already"):
        editor.save(target)
    editor.text = TEXT + "\n"
    assert editor.save(target, overwrite=True).read_text() == TEXT + "\n"
    for path in ("", 5, "a\0b", tmp_path):
        with pytest.raises(StateError):
            editor.save(path)  # type: ignore[arg-type]
    source = Path(__file__).resolve().parents[2] / "bpf" / "pass.c"
    text = source.read_text()
    assert "Not saved." in say(editor, "save", path=str(source))["note"]
    assert source.read_text() == text
    assert "Saved as" in say(editor, "save", path=str(tmp_path / "two.c"))["note"]


@pytest.mark.parametrize(
    ("given", "word"),
    [
        ({"path": "bpf/pass.c", "text": "x"}, "either path or text"),
        ({}, "either path or text"),
        ({"text": 5}, "of type int"),
        ({"path": 5}, "of type int"),
        ({"text": "x", "mode": "offload"}, "mode 'offload'"),
        ({"text": "x", "function": 3}, "function can't be 3"),
        ({"text": "x" * 200_001}, "200,000 are the most"),
        ({"path": "bpf/nowhere.c"}, "can't be read"),
    ],
)
def test_what_cannot_be_edited_is_named(lab: lk.Lab, given: dict[str, Any], word: str) -> None:
    with pytest.raises(lk.LabError) as caught:
        ProgramEditor(lab, lab["server"]["eth0"], **given)
    assert word in caught.value.message
    assert caught.value.remedy


def test_it_ends_with_its_lab_and_stays_a_picture(tmp_path: Path) -> None:
    with lk.Lab(lk.Topology.pair(), name="test") as lab:
        editor = ProgramEditor(lab, lab["server"]["eth0"], path="bpf/pass.c")
        assert editor.state["file"] == "bpf/pass.c"
        editor.run()
        with pytest.raises(StateError, match="not one of the lab's"):
            ProgramEditor(lab, "eth0", text=TEXT)  # type: ignore[arg-type]
        with pytest.raises(StateError, match="neither a link nor a lab"):
            ProgramEditor("lab")  # type: ignore[arg-type]
    assert editor.state["ended"].startswith("The lab is closed.")
    turn = editor.state["turn"]
    say(editor, "run", text=TEXT)
    assert editor.state["turn"] == turn
    with pytest.raises(StateError, match="The lab is closed"):
        editor.run()
    assert "A still picture" in editor._repr_mimebundle_()[0]["text/html"]
    with pytest.raises(StateError, match="lab test is closed"):
        ProgramEditor(lab, lab["server"]["eth0"], text=TEXT)
    editor.close()


def test_running_the_cell_fifty_times_leaves_one_editor(lab: lk.Lab) -> None:
    import ipywidgets

    editor = ProgramEditor(lab, lab["server"]["eth0"], text=TEXT)
    editor.run()
    count = len(ipywidgets.Widget.get_manager_state()["state"])
    threads = threading.active_count()
    for _ in range(50):
        editor = ProgramEditor(lab, lab["server"]["eth0"], text=TEXT)
    assert len(ipywidgets.Widget.get_manager_state()["state"]) <= count + 2, "itself and the one before, ended"
    assert threading.active_count() <= threads + 1
    assert len(lab.programs) == 1
    editor.close()
    assert len(ipywidgets.Widget.get_manager_state()["state"]) < count
