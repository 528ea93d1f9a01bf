"""Known faults, made in the editor: the line, the words and the remedy stand there, and what runs goes on running."""

from __future__ import annotations

import ctypes
import struct
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from patience import until

import labkit as lk
from labkit.widgets import ProgramEditor

N = 997  # prime
REJECTED = Path(__file__).resolve().parents[2] / "bpf" / "rejected"
HEAD = '#include "common/parse.h"\n#include "common/verdict.h"\n'
GOOD = HEAD + "int f(struct xdp_md *ctx)\n{\n\treturn verdict(ctx, XDP_DROP);\n}\n"
AT = "int f(struct xdp_md *ctx)\n{\n\tu8 *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;\n\n"


@pytest.fixture
def editor(lab: lk.Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ProgramEditor]:
    monkeypatch.setenv("XDP_LAB_PROGRESS", str(tmp_path / "progress.json"))
    made = ProgramEditor(lab, lab["server"]["eth0"], text=GOOD)
    made.run()
    yield made
    made.close()


def say(editor: ProgramEditor, text: str) -> None:
    """What the browser says when the key is pressed."""
    editor._heard(editor, {"type": "run", "text": text}, [])
    until(lambda: editor._work.idle, "the editor's work")


def tried(editor: ProgramEditor, text: str, say: Callable[[ProgramEditor, str], None] = say) -> dict[str, object]:
    """The first remark on a text that is refused; the first version goes on, and counts every packet."""
    say(editor, text)
    found = editor.state["found"]
    assert found["kind"] == "bad", found
    assert "Version 1 goes on running, untouched." in found["headline"]
    client, server = editor.lab["client"], editor.lab["server"]
    before = sum((editor.versions[0].verdicts() or {}).values())
    lk.send_frames(client["eth0"], lk.udp(client, server), N)
    assert editor.lab.ledger().unaccounted == 0
    assert (editor.versions[0].verdicts() or {})["XDP_DROP"] - before == N
    assert editor.running is editor.versions[0]
    remark: dict[str, object] = found["remarks"][0]
    assert remark["remedy"]
    return remark


@pytest.mark.parametrize(
    ("body", "at", "said", "meaning"),
    [
        ("\tif (data[12])\n\t\treturn 1;\n\treturn 2;\n}\n", "data[12]", "off=12 size=1", "only 0 bytes"),
        ("\tif (data + 14 > end)\n\t\treturn 2;\n\treturn data[23] ? 1 : 2;\n}\n", "data[23]", "r=14", "only 14 bytes"),
        ("\tctx->data_end = 0;\n\treturn 2;\n}\n", "data_end = 0", "bpf_context access", "can't be written"),
        (
            "\treturn bpf_skb_vlan_pop((void *)ctx) ? 1 : 2;\n}\n",
            "vlan_pop",
            "cannot use helper|unknown func",
            "not there",
        ),
    ],
)
def test_vf_01_the_refusal_stands_beside_its_line(
    editor: ProgramEditor, body: str, at: str, said: str, meaning: str
) -> None:
    """VF-01, xdp-project/xdp-tutorial#136: a log of hundreds of lines, of which one matters."""
    text = HEAD + AT + body
    remark = tried(editor, text)
    assert remark["line"] == next(i for i, line in enumerate(text.splitlines(), 1) if at in line)
    assert any(word in str(remark["said"]) for word in said.split("|"))
    assert meaning in str(remark["meaning"])
    named = [row for row in editor.state["found"]["registers"] if row["named"]]
    assert named or "helper" in str(remark["said"]), "and what the register held is told in words"
    assert editor.state["found"]["log"]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (HEAD + "static int counter;\nint f(struct xdp_md *ctx)\n{\n\tcounter++;\n\treturn 1;\n}\n", "counter++"),
        ((REJECTED / "constant_table.c").read_text(), "return verdicts["),
    ],
)
def test_py_04_a_global_is_called_by_its_name(editor: ProgramEditor, text: str, line: str) -> None:
    """PY-04, iovisor/bcc#3451: globals compile, and the verifier then speaks of a scalar nobody wrote."""
    remark = tried(editor, text)
    assert remark["line"] == next(i for i, each in enumerate(text.splitlines(), 1) if line in each)
    assert "BCC has neither" in str(remark["said"])
    assert "keep the value in a map" in str(remark["remedy"])


def test_at_08_no_privilege_is_not_blamed_on_the_text(editor: ProgramEditor) -> None:
    """AT-08, xdp-project/xdp-tutorial#63: without privilege BCC says "Failed to compile", of C that is right."""

    def without_privilege(editor: ProgramEditor, text: str) -> None:
        thread = threading.Thread(target=lambda: (drop_capabilities(), say(editor, text)))
        thread.start()
        thread.join()

    remark = tried(editor, GOOD.replace("XDP_DROP", "XDP_PASS"), without_privilege)
    assert remark["said"] == "This process may not load BPF programs."
    assert "the C text is not the cause" in str(remark["remedy"])
    assert remark["line"] is None


def drop_capabilities() -> None:
    """All of this thread's, and of no other."""
    header, nothing = struct.pack("=Ii", 0x20080522, 0), bytes(24)  # _LINUX_CAPABILITY_VERSION_3, linux/capability.h
    assert ctypes.CDLL(None).capset(header, nothing) == 0
