"""A verifier's log made readable. The logs are Linux 6.18's own; tests/kernel has the live ones."""

from __future__ import annotations

import itertools
import textwrap

import pytest

from labkit.compile import compile_source
from labkit.compile.diagnose import summarise, verifier_error
from labkit.program.spec import ProgramSpec

_numbers = itertools.count()


@pytest.fixture(scope="module")
def spec() -> ProgramSpec:
    return compile_source(
        text="""\
#include <uapi/linux/bpf.h>

int reader(struct xdp_md *ctx)
{
	u8 *data = (void *)(long)ctx->data;

	if (data[12] == 0x08)
		return XDP_DROP;
	return XDP_PASS;
}
"""
    )


LOG = """\
0: R1=ctx() R10=fp0
; u8 *data = (void *)(long)ctx->data; @ reader.c:5
0: (61) r1 = *(u32 *)(r1 +0)          ; R1=pkt(r=0)
; if (data[12] == 0x08) @ reader.c:7
1: (71) r1 = *(u8 *)(r1 +12)
invalid access to packet, off=12 size=1, R1(id=0,off=12,r=0)
R1 offset is outside of the packet
processed 2 insns (limit 1000000) max_states_per_insn 0 total_states 0 peak_states 0 mark_read 0
"""


def test_the_whole_message(spec: ProgramSpec) -> None:
    error = verifier_error(spec, spec.function(), 13, LOG)
    assert error.line == 7
    assert error.source_line == "\tif (data[12] == 0x08)"
    assert error.said == "invalid access to packet, off=12 size=1, R1(id=0,off=12,r=0)"
    assert "1 byte(s) at offset 12" in error.meaning
    assert "data_end" in error.remedy
    assert error.log == LOG
    assert error.errno == 13
    shown = str(error)
    for part in ("reader.c:7", "if (data[12] == 0x08)", error.said, error.meaning, "EACCES"):
        assert part in shown
    assert "7 lines of the log left out" in shown


@pytest.mark.parametrize(
    ("log", "said", "instruction"),
    [
        (LOG, "invalid access to packet, off=12 size=1, R1(id=0,off=12,r=0)", 1),
        (
            """
            ; while (1) @ a.c:11
            0: (05) goto pc-1
            0: (05) goto pc-1
            infinite loop detected at insn 0
            cur state: R1=ctx() R10=fp0
            old state: R1=ctx() R10=fp0
            processed 9 insns (limit 1000000) max_states_per_insn 0 total_states 1
            """,
            "infinite loop detected at insn 0",
            0,
        ),
        (
            """
            from 4 to 9: R1=ctx() R10=fp0
            9: (95) exit
            R0 !read_ok
            verification time 60 usec
            stack depth 0
            processed 1 insns (limit 1000000)
            """,
            "R0 !read_ok",
            9,
        ),
        (
            "metadata kfuncs require device-bound program\nprocessed 0 insns (limit 1000000)\n",
            "metadata kfuncs require device-bound program",
            None,
        ),
        ("back-edge from insn 12 to 3\n", "back-edge from insn 12 to 3", 12),
        ("3: (95) exit\nthe moon is full\n", "the moon is full", 3),
        ("", "", None),
        ("processed 0 insns (limit 1000000)\n", "", None),
    ],
)
def test_the_useful_line(log: str, said: str, instruction: int | None) -> None:
    summary = summarise(textwrap.dedent(log))
    assert (summary.said, summary.instruction) == (said, instruction)


def test_an_unknown_message(spec: ProgramSpec) -> None:
    log = "; something @ reader.c:7\n1: (71) r1 = *(u8 *)(r1 +12)\nthe moon is full\n"
    error = verifier_error(spec, spec.function(), 22, log)
    assert "reader.c:7" in str(error)
    assert "the moon is full" in str(error)
    assert error.meaning == ""
    assert ".log" in error.remedy


def test_no_log(spec: ProgramSpec) -> None:
    error = verifier_error(spec, spec.function(), 7, "")
    assert error.line is None
    assert "no reason given" in str(error)
    assert "E2BIG" in str(error)
    assert "doctor" in error.remedy


def test_clangs_warning_is_recalled() -> None:
    source = f"#include <uapi/linux/bpf.h>\nint f(struct xdp_md *ctx)\n{{\n}}\n// {next(_numbers)}\n"
    spec = compile_source(text=source)
    error = verifier_error(spec, spec.function(), 13, "0: (95) exit\nR0 !read_ok\n")
    assert error.line == 4
    assert "clang had warned: f.c:4:1" in str(error)


@pytest.mark.parametrize(
    ("words", "meaning"),
    [
        ("R1 invalid mem access 'scalar'", "global variable"),
        ("R0 invalid mem access 'inv'", "global variable"),
        ("R0 invalid mem access 'map_value_or_null'", "NULL"),
        ("Can't attach device-bound programs in generic mode", "native mode only"),
        ("Program bound to different device", "another device"),
        (
            "func_proto (3) args incompatible with kernel function bpf_xdp_metadata_rx_hash",
            "another type",
        ),
        ("unknown func bpf_ktime_get_tai_ns#208", "not there for this type"),
        ("invalid indirect read from stack R2 off -8+4 size 8", "before all of it was set"),
        ("Unreleased reference id=2 alloc_insn=7", "not given back"),
        ("BPF program is too large. Processed 1000001 insn", "a million instructions"),
        ("The sequence of 8193 jumps is too complex.", "more paths"),
        ("R1 unbounded memory access, make sure to bounds check any such access", "map value"),
    ],
)
def test_messages_of_other_kernels_and_attach(words: str, meaning: str, spec: ProgramSpec) -> None:
    assert meaning in verifier_error(spec, spec.function(), 22, f"0: (95) exit\n{words}\n").meaning
