"""Every C file of bpf/ compiles and loads; each in rejected/ is refused in the words it quotes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from labkit.compile import compile_source
from labkit.compile.diagnose import verifier_error
from labkit.errors import CompileError, VerifierError
from labkit.kernel.probes import device
from labkit.program import load_program
from labkit.uapi import ProgFlag, ProgType

BPF = Path(__file__).resolve().parents[2] / "bpf"
REJECTED = sorted((BPF / "rejected").glob("*.c"))
EXERCISES = sorted((BPF / "exercises").rglob("*.c"))
ACCEPTED = sorted(set(BPF.rglob("*.c")) - set(REJECTED) - set(EXERCISES))
EVERY = [*ACCEPTED, *EXERCISES, *REJECTED]

_CONTEXTS = {
    "xdp_md": ProgType.XDP,
    "__sk_buff": ProgType.SCHED_CLS,
    "bpf_raw_tracepoint_args": ProgType.RAW_TRACEPOINT,
}


def names(files: list[Path]) -> list[str]:
    return [str(file.relative_to(BPF)) for file in files]


def program_type(source: str, function: str) -> ProgType:
    found = re.search(rf"\b{function}\(struct (\w+) \*", source)
    assert found, f"the context of {function}"
    return _CONTEXTS[found[1]]


@pytest.mark.parametrize("file", ACCEPTED, ids=names(ACCEPTED))
def test_loads(file: Path) -> None:
    spec = compile_source(path=file)
    assert spec.warnings == ()

    def load(flags: int = 0, ifindex: int = 0) -> None:
        for name in spec.functions:
            kind = program_type(spec.source, name)
            with load_program(spec, name, explain=verifier_error, type=kind, flags=flags, ifindex=ifindex) as program:
                assert program.id > 0
                assert program.name == name

    def load_for_a_device() -> None:
        with device.veth_pair() as ifindex:
            load(ProgFlag.XDP_DEV_BOUND_ONLY, ifindex)

    if '"common/hints.h"' in spec.source:
        with device.namespace() as thread:
            thread.run(load_for_a_device)
    else:
        load()


@pytest.mark.parametrize("file", REJECTED, ids=names(REJECTED))
def test_is_refused(file: Path) -> None:
    source = file.read_text()
    quoted = re.search(r'\* The (verifier|compiler) says: "(.+)"', source)
    assert quoted, "a file in rejected/ quotes what it is refused with"
    who, words = quoted.groups()
    if who == "compiler":
        with pytest.raises(CompileError, match=re.escape(words)) as caught:
            compile_source(path=file)
        assert caught.value.remedy
        return
    spec = compile_source(path=file)
    with pytest.raises(VerifierError, match=re.escape(words)) as refused:
        load_program(spec, file.stem, explain=verifier_error)
    error = refused.value
    assert words in error.said
    assert words in error.log
    assert error.meaning, "the catalogue has an entry for it"
    assert error.remedy
    if error.line is not None:  # some are refused before the first instruction
        assert error.source_line == source.splitlines()[error.line - 1]
        assert error.source_line.strip() in str(error)


@pytest.mark.parametrize("file", EXERCISES, ids=names(EXERCISES))
def test_exercise_compiles(file: Path) -> None:
    """As shipped it may be refused by the verifier, or do the wrong thing: see its check."""
    assert compile_source(path=file).functions


@pytest.mark.parametrize("file", EVERY, ids=names(EVERY))
def test_states_licence_and_purpose(file: Path) -> None:
    first, second = file.read_text().splitlines()[:2]
    assert first == "// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)"
    assert second.startswith("/*")
