"""A compilation without end can be stopped: what ran goes on, nothing stays behind, and the editor goes on, too."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from patience import until

import labkit as lk
from labkit.compile import client
from labkit.compile.stopping import CompileStopped, Stop, stoppable
from labkit.errors import CompileError
from labkit.widgets import ProgramEditor

HEAD = "#include <uapi/linux/bpf.h>\n"
TEXT = HEAD + "int judge(struct xdp_md *ctx)\n{\n\treturn XDP_DROP;\n}\n"
LEVELS = (
    13  # macros, each four times the one before: 4 ** 13 statements, which no compiler ends with in a lesson's time
)


def endless(number: int = 0) -> str:
    """A small text that takes minutes to compile; another one for each number."""
    macros = ["#define A0 x += x * 3;", *(f"#define A{i} {f'A{i - 1} ' * 4}" for i in range(1, LEVELS + 1))]
    body = f"int judge(struct xdp_md *ctx)\n{{\n\tvolatile int x = {number};\n\n\tA{LEVELS}\n\treturn x;\n}}\n"
    return HEAD + "\n".join(macros) + "\n" + body


@pytest.fixture
def editor(lab: lk.Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ProgramEditor]:
    monkeypatch.setenv("XDP_LAB_PROGRESS", str(tmp_path / "progress.json"))
    made = ProgramEditor(lab, lab["server"]["eth0"], text=TEXT)
    yield made
    made.close()


def gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def compiling(editor: ProgramEditor) -> int:
    """Wait until the compiler is at it; its process."""
    until(lambda: editor.state["working"] == "Compiling" and editor._work._stop._end is not None, "the compiler")
    pid = client.child_pid()
    assert pid is not None
    return pid


def test_stopped_from_the_page(editor: ProgramEditor) -> None:
    first = editor.run()
    for number in range(3):
        editor._heard(editor, {"type": "run", "text": endless(number), "view": "v", "request": f"v-{number}"}, [])
        pid = compiling(editor)
        editor._heard(editor, {"type": "look"}, [])
        assert editor.state["answered"] != f"v-{number}", "no answer yet, and the page is heard all the same"
        assert editor.running is first
        editor._heard(editor, {"type": "stop"}, [])
        until(lambda: editor._work.idle, "the stop")
        assert gone(pid)
        state = editor.state
        assert state["answered"] == f"v-{number}"
        assert state["working"] == ""
        assert state["found"]["headline"].startswith("Stopped: the compiler was ended")
        assert state["found"]["headline"].endswith("Version 1 goes on running, untouched.")
        assert isinstance(editor.errors[-1], CompileStopped)
    assert editor.text == endless(2), "the text is kept"
    editor._heard(editor, {"type": "run", "text": TEXT.replace("DROP", "PASS"), "request": "v-9"}, [])
    until(lambda: editor._work.idle, "the next run")
    assert editor.state["found"]["kind"] == "good"
    assert len(editor.versions) == 2
    assert not editor.stop(), "there is nothing to stop any more"


def test_stopped_while_a_cell_runs_it(editor: ProgramEditor) -> None:
    editor.text = endless()
    caught: list[Exception] = []

    def cell() -> None:
        try:
            editor.run()
        except CompileError as error:
            caught.append(error)

    thread = threading.Thread(target=cell)
    thread.start()
    compiling(editor)
    editor._heard(editor, {"type": "stop"}, [])
    thread.join()
    assert isinstance(caught[0], CompileStopped)
    assert "Nothing runs there yet." in editor.state["found"]["headline"]


def test_orders_that_wait_are_forgotten_and_too_many_refused(editor: ProgramEditor) -> None:
    editor._heard(editor, {"type": "run", "text": endless()}, [])
    compiling(editor)
    for number in range(30):
        editor._heard(editor, {"type": "check", "text": endless(number), "request": f"w-{number}"}, [])
    assert "orders wait already" in str(editor.errors[-1])
    editor._heard(editor, {"type": "stop"}, [])
    until(lambda: editor._work.idle, "the stop")
    editor.text = TEXT
    assert editor.run().number == 1


def test_closing_ends_what_is_under_way(editor: ProgramEditor) -> None:
    editor._heard(editor, {"type": "run", "text": endless()}, [])
    pid = compiling(editor)
    editor.close()
    until(lambda: editor._work.idle, "the end")
    assert gone(pid)


def test_a_stop_hits_its_own_work_alone() -> None:
    mine, theirs = Stop(), Stop()
    ended: list[Exception] = []

    def work() -> None:
        try:
            with stoppable(theirs):
                lk.compile(text=endless(7))
        except CompileError as error:
            ended.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    until(lambda: theirs._end is not None, "the compiler")
    mine.set()
    with stoppable(mine), pytest.raises(CompileStopped):
        lk.compile(text=endless(8))  # waits for its turn, and is stopped there
    assert not ended
    theirs.set()
    theirs.set()
    thread.join()
    assert isinstance(ended[0], CompileStopped)
    assert lk.compile(text=TEXT + "\n").functions, "and the next one finds a fresh compiler"


def test_the_deadline_ends_it_and_says_so(editor: ProgramEditor, monkeypatch: pytest.MonkeyPatch) -> None:
    first = editor.run()
    monkeypatch.setattr(client, "TIMEOUT_S", 2.0)
    client.shut_down()  # the next child has this patience
    editor.text = endless(3)
    with pytest.raises(CompileError, match="did not finish within 2 s and was ended"):
        editor.run()
    assert editor.running is first
    monkeypatch.undo()
    client.shut_down()
