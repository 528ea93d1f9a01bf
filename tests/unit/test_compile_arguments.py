"""What ``compile`` is called with: slips are told as such, and a path is found from every notebook."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from labkit.compile import compile_source
from labkit.compile.diagnose import verifier_error
from labkit.errors import CompileError

ROOT = Path(__file__).resolve().parents[2]
TEXT = "#include <uapi/linux/bpf.h>\nint low_ttl(struct xdp_md *ctx)\n{\n\treturn XDP_PASS;\n}\n"


@pytest.mark.parametrize(
    "arguments",
    [
        {"text": 5},
        {"text": b"int f(void *ctx) { return 2; }"},
        {"text": ["int f"]},
        {"text": "\ud800"},
        {"text": "int x;\0"},
        {"path": 5},
        {"path": b"bpf/pass.c"},
        {"path": []},
        {"path": ""},
        {"path": "bpf/\0.c"},
        {"path": "bpf/\ud800.c"},
        {"path": "x" * 300},
        {"path": "bpf"},
        {"path": "/dev/zero"},
        {"text": TEXT, "cflags": "-DX"},
        {"text": TEXT, "cflags": None},
        {"text": TEXT, "cflags": [5]},
        {"text": TEXT, "cflags": ["-D\0"]},
        {"text": TEXT, "cflags": 5},
        {"text": TEXT, "name": 5},
        {"text": TEXT, "name": "a\0b"},
        {"text": TEXT, "path": "bpf/pass.c"},
        {},
    ],
    ids=repr,
)
def test_slips_are_compile_errors(arguments: dict[str, Any]) -> None:
    with pytest.raises(CompileError) as caught:
        compile_source(**arguments)
    assert caught.value.remedy
    assert caught.value.tried


@pytest.mark.parametrize("directory", [ROOT, ROOT / "notebooks", Path("/")])
def test_a_path_of_the_checkout_is_found_from_everywhere(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(directory)
    spec = compile_source(path="bpf/pass.c")
    assert spec.name == "pass"
    assert spec.path is not None
    assert Path(spec.path).resolve() == ROOT / "bpf/pass.c"


def test_a_file_here_comes_before_that_of_the_checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bpf").mkdir()
    (tmp_path / "bpf/pass.c").write_text(TEXT)
    monkeypatch.chdir(tmp_path)
    assert list(compile_source(path="bpf/pass.c").functions) == ["low_ttl"]


def test_a_path_that_leads_nowhere_names_both_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(CompileError, match="can't be read") as caught:
        compile_source(path="bpf/psas.c")
    for place in (tmp_path / "bpf/psas.c", ROOT / "bpf/psas.c"):
        assert str(place) in caught.value.remedy


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.c")
    with pytest.raises(CompileError, match="it is no file"):
        compile_source(path=tmp_path / "pipe.c")


def test_what_was_tried_reads_well(tmp_path: Path) -> None:
    wrong = TEXT.replace("XDP_PASS", "XDP_PSAS")
    with pytest.raises(CompileError) as caught:
        compile_source(text=wrong)
    assert "tried:  to compile low_ttl, from text in a cell\n" in str(caught.value)
    (tmp_path / "wrong.c").write_text(wrong)
    with pytest.raises(CompileError) as caught:
        compile_source(path=tmp_path / "wrong.c")
    assert f"tried:  to compile {tmp_path / 'wrong.c'}\n" in str(caught.value)


def test_what_was_refused_reads_well() -> None:
    spec = compile_source(text=TEXT)
    refusal = str(verifier_error(spec, spec.function(), 13, ""))
    assert "tried:  to load low_ttl, from text in a cell\n" in refusal
    spec = compile_source(path=ROOT / "bpf/pass.c")
    refusal = str(verifier_error(spec, next(iter(spec.functions.values())), 13, ""))
    assert "from bpf/pass.c\n" in refusal


@pytest.mark.parametrize("kind", ["scalar", "map_value_or_null", "mem_or_null"])
def test_a_pointer_nobody_checked_is_the_first_guess(kind: str) -> None:
    spec = compile_source(text=TEXT)
    error = verifier_error(spec, spec.function(), 13, f"3: (71) r1 = *(u8 *)(r1 +12)\nR1 invalid mem access '{kind}'\n")
    assert "the result of next_…() was not checked for NULL" in error.meaning
    assert "if (!" in error.remedy
