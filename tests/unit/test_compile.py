"""Compiling C text: what comes out, and where a fault is reported. No privilege needed."""

from __future__ import annotations

import itertools
import textwrap
from pathlib import Path

import pytest

from labkit.compile import compile_source
from labkit.compile.compiler_messages import COMPILER, DIALECT
from labkit.compile.lines import places
from labkit.compile.messages import explain
from labkit.compile.verifier_messages import VERIFIER
from labkit.errors import CompileError, LabError
from labkit.uapi import MapType

BPF = Path(__file__).resolve().parents[2] / "bpf"
_numbers = itertools.count()


def text(body: str, *, before: str = "") -> str:
    """A program with ``body`` from line 6 on. No two are alike, so none comes from the cache."""
    head = f"#include <uapi/linux/bpf.h>\n#include <uapi/linux/if_ether.h>\n{before}\n"
    function = f"int main_program(struct xdp_md *ctx)\n{{\n{textwrap.dedent(body)}\n}}\n"
    return f"{head}{function}// {next(_numbers)}\n"


def test_functions_maps_and_references() -> None:
    spec = compile_source(
        text=text(
            """\
            u32 slot = 0;
            u64 *n = counts.lookup(&slot);
            if (n)
                (*n)++;
            return ports.redirect_map(0, 0);""",
            before="struct pair { u32 a; u16 b; }; BPF_PERCPU_ARRAY(counts, u64, 4);"
            " BPF_DEVMAP(ports, 2); BPF_HASH(unused, struct pair, u64, 100);",
        )
    )
    assert spec.name == "main_program"
    assert spec.path is None
    assert spec.license == "GPL"
    assert list(spec.functions) == ["main_program"]
    counts, ports, unused = spec.maps["counts"], spec.maps["ports"], spec.maps["unused"]
    assert (counts.type, counts.key_size, counts.value_size) == (MapType.PERCPU_ARRAY, 4, 8)
    assert (ports.type, ports.max_entries) == (MapType.DEVMAP, 2)
    assert (unused.type, unused.key_size, unused.max_entries) == (MapType.HASH, 8, 100)
    assert counts.key_type > 0
    assert unused.value_type > 0
    function = spec.function()
    assert [name for _, name in function.map_references] == ["counts", "ports"]
    for index, _ in function.map_references:
        assert function.instructions[index * 8] == 0x18  # a 64-bit load
        assert function.instructions[index * 8 + 4 : index * 8 + 8] == bytes(4)
    assert spec.btf[:2] == (0xEB9F).to_bytes(2, "little" if spec.btf[0] == 0x9F else "big")
    assert len(function.line_info) % function.line_info_rec_size == 0
    assert len(function.func_info) == function.func_info_rec_size


def test_choice_of_function() -> None:
    spec = compile_source(path=BPF / "lab" / "generator.c")
    assert spec.function("generate").name == "generate"
    with pytest.raises(LabError, match=r"4 functions: generate, generate_flows, generate_flows_meta, generate_meta"):
        spec.function()
    with pytest.raises(LabError, match=r"no function 'genrate'.*generate, generate_flows"):
        spec.function("genrate")


def test_names() -> None:
    assert compile_source(path=BPF / "pass.c").name == "pass"
    assert compile_source(path=str(BPF / "pass.c"), name="other").name == "other"
    assert compile_source(path=BPF / "pass.c").path == str(BPF / "pass.c")


@pytest.mark.parametrize("arguments", [{}, {"text": "", "path": "x.c"}])
def test_text_or_path(arguments: dict[str, str]) -> None:
    with pytest.raises(CompileError, match="either text or path"):
        compile_source(**arguments)


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(CompileError, match=r"can't be read") as caught:
        compile_source(path=tmp_path / "none.c")
    assert str(tmp_path / "none.c") in str(caught.value)
    assert caught.value.errno == 2


def test_not_text(tmp_path: Path) -> None:
    (tmp_path / "binary.c").write_bytes(b"\xff\xfe\x00int")
    with pytest.raises(CompileError, match="not UTF-8"):
        compile_source(path=tmp_path / "binary.c")
    with pytest.raises(CompileError, match="zero byte"):
        compile_source(text="int x;\0")


FAULTS = [
    ("return XDP_DRP;", 6, 8, "undeclared identifier 'XDP_DRP'", "from <uapi/linux/bpf.h>"),
    ("return verdct;", 6, 8, "undeclared identifier 'verdct'", "spelling"),
    ("int a = 1\nreturn a;", 6, 10, "expected ';'", "put a ;"),
    ("u32 k = 0;\nreturn !known.look(&k);", 7, 15, "no member named 'look'", "lookup"),
    ("return count_it(ctx);", 6, 8, "implicit declaration|undeclared function", "helpers"),
    ("u32 k = 0;\nreturn !known.lookup(k);", 7, 22, "incompatible integer to pointer", "&key"),
    ("return ctx->data_start;", 6, 13, "no member named 'data_start'", "data_end"),
    ("u31 x = 0;\nreturn x;", 6, 1, "unknown type name 'u31'|undeclared identifier 'u31'", ""),
    ("\treturn /* ü */ nothing;", 6, 16, "undeclared identifier 'nothing'", "spelling"),
]


@pytest.mark.parametrize(("body", "line", "column", "words", "remedy"), FAULTS)
@pytest.mark.parametrize("from_file", [False, True])
def test_fault_is_placed(
    body: str, line: int, column: int, words: str, remedy: str, from_file: bool, tmp_path: Path
) -> None:
    source = text(body, before="BPF_HASH(known, u32, u64);")
    file = tmp_path / "faulty.c"
    file.write_text(source)
    with pytest.raises(CompileError, match=words) as caught:
        compile_source(path=file) if from_file else compile_source(text=source)
    error = caught.value
    assert (error.line, error.column) == (line, column)
    assert error.source_line == source.splitlines()[line - 1]
    assert error.source_line.expandtabs(8) in str(error)
    assert error.log
    assert "lab-0" not in str(error) + error.log
    assert str(error).startswith(f"{file if from_file else 'main_program.c'}:{line}:{column}: ")
    assert any(word in error.remedy for word in remedy.split("|"))


def test_missing_bracket() -> None:
    with pytest.raises(CompileError, match=r"expected '}'") as caught:
        compile_source(text=text("if (ctx->data) {\nreturn XDP_PASS;"))
    assert "brackets don't pair" in str(caught.value)


def test_caret_is_under_the_fault() -> None:
    with pytest.raises(CompileError) as caught:
        compile_source(text=text("\tif (1)\n\t\treturn wrong;"))
    lines = str(caught.value).splitlines()
    at = next(n for n, line in enumerate(lines) if line.endswith("return wrong;"))
    assert lines[at].index("wrong") == lines[at + 1].index("^")


def test_fault_in_an_own_header(tmp_path: Path) -> None:
    (tmp_path / "mine.h").write_text("static int two(void)\n{\n\treturn tow;\n}\n")
    (tmp_path / "a.c").write_text('#include "mine.h"\nint f(void *ctx)\n{\n\treturn two();\n}\n')
    with pytest.raises(CompileError, match=r"mine\.h:3:9: use of undeclared identifier 'tow'"):
        compile_source(path=tmp_path / "a.c")


def test_fault_in_a_head() -> None:
    with pytest.raises(CompileError) as caught:
        compile_source(text="#include <uapi/linux/bpf.h>\n\nint f(strukt xdp_md *ctx)\n{\n}\n")
    assert (caught.value.line, caught.value.column) == (3, 7)


@pytest.mark.parametrize("header", ["linux/skbuff.h", "net/sock.h"])
def test_kernel_header(header: str) -> None:
    with pytest.raises(CompileError, match="not among the kernel's user-space headers") as caught:
        compile_source(text=f"\n#include <{header}>\n")
    assert caught.value.line == 2


def test_lesson_header_that_is_not_there() -> None:
    with pytest.raises(CompileError, match=r"no common/verdikt\.h beside the file"):
        compile_source(text='#include "common/verdikt.h"\n')


def test_header_without_end(tmp_path: Path) -> None:
    (tmp_path / "loop.h").write_text('#include "loop.h"\n')
    (tmp_path / "a.c").write_text('#include "loop.h"\n')
    with pytest.raises(CompileError, match="includes itself"):
        compile_source(path=tmp_path / "a.c")


def test_pragma_once_and_include_directories(tmp_path: Path) -> None:
    (tmp_path / "once.h").write_text("#pragma once\nstruct pair { u32 a, b; };\n")
    spec = compile_source(
        text=text(
            "return sizeof(struct pair) == 8 ? XDP_PASS : XDP_DROP;",
            before='#include "once.h"\n#include "once.h"',
        ),
        cflags=["-I", str(tmp_path)],
    )
    assert spec.warnings == ()


def test_cflags() -> None:
    source = text("return VERDICT;")
    first = compile_source(text=source, cflags=["-DVERDICT=1"]).function().instructions
    second = compile_source(text=source, cflags=["-DVERDICT=2"]).function().instructions
    assert first != second
    with pytest.raises(CompileError, match="VERDICT"):
        compile_source(text=source)


def test_line_information_is_the_authors() -> None:
    source = text(
        """\
        struct ethhdr *eth = (void *)(long)ctx->data;

        if ((void *)(eth + 1) > (void *)(long)ctx->data_end)
            return XDP_PASS;
        /* a comment; with { brackets ( */
        count(ctx,
              3);
        return verdict(ctx, eth->h_proto == htons(ETH_P_IP) ? XDP_DROP : XDP_PASS);""",
        before='#include "common/verdict.h"\n'
        "static __always_inline void count(struct xdp_md *ctx, u32 slot)\n{\n"
        "\tverdicts.increment(slot);\n}",
    )
    spec = compile_source(text=source)
    found = places(spec.function(), spec.btf)
    lines = source.splitlines()
    header = (BPF / "common" / "verdict.h").read_text().splitlines()
    assert found[0].index == 0
    for place in found:
        where = lines if place.file == "main_program.c" else header
        assert place.file in ("main_program.c", "bpf/common/verdict.h")
        assert place.text == where[place.line - 1]
    seen = {(place.file, place.text.strip()) for place in found}
    assert ("main_program.c", "if ((void *)(eth + 1) > (void *)(long)ctx->data_end)") in seen
    assert ("main_program.c", "verdicts.increment(slot);") in seen
    assert ("bpf/common/verdict.h", "(*packets)++;") in seen


def test_line_information_of_one_line_functions() -> None:
    source = (
        "#include <uapi/linux/bpf.h>\nBPF_HASH(known, u32, u64);\n"
        "int one(struct xdp_md *ctx) { u32 k = 0; return known.lookup(&k) ? 1 : 2; }\n"
        "int two(struct xdp_md *ctx) { u32 k = 1; return known.lookup(&k) ? 1 : 2; }\n"
    )
    spec = compile_source(text=source)
    assert {place.line for place in places(spec.function("one"), spec.btf)} == {3}
    assert {place.line for place in places(spec.function("two"), spec.btf)} == {4}


@pytest.mark.parametrize(
    ("before", "body", "line"),
    [
        ("static int seen;", "u32 n = ctx->data;\nseen += n;\nreturn XDP_PASS;", 7),
        ("int seen = 3;", "return seen + ctx->data;", 6),
        ("static const u32 t[4] = {3, 1, 4, 1};", "return t[ctx->data & 3];", 6),
        ("", "u64 t[8] = {3, 1, 4, 1, 5, 9, 2, 6};\nreturn t[ctx->data & 7];", 7),
    ],
)
def test_globals_are_refused(before: str, body: str, line: int) -> None:
    with pytest.raises(CompileError, match="global variable or a table of constants") as caught:
        compile_source(text=text(body, before=before))
    assert caught.value.line == line
    assert "map" in caught.value.remedy


def test_constants_are_not_taken_for_globals() -> None:
    spec = compile_source(
        text=text(
            "u64 big = 0x123456789abcULL + ctx->data;\n"
            'bpf_trace_printk("%llx\\n", big);\n'
            "return (big ^ 0xffffffffULL) > 0x80000000ULL ? XDP_PASS : XDP_DROP;"
        )
    )
    assert len(spec.function()) > 4


@pytest.mark.parametrize("kind", ["u8", "u16", "struct twelve"])
def test_per_cpu_values_are_padded(kind: str) -> None:
    before = f"struct twelve {{ u32 a, b, c; }};\nBPF_PERCPU_ARRAY(counters, {kind}, 2);"
    with pytest.raises(CompileError, match="multiple of 8") as caught:
        compile_source(text=text("u32 k = 0; return !counters.lookup(&k);", before=before))
    assert "pad to 8 bytes" in caught.value.remedy
    assert caught.value.line == 4


def test_u32_per_cpu_counter_warns() -> None:
    spec = compile_source(text=text("u32 k = 0; return !few.lookup(&k);", before="BPF_PERCPU_ARRAY(few, u32, 2);"))
    assert any("u64" in warning for warning in spec.warnings)


def test_nothing_to_load() -> None:
    with pytest.raises(CompileError, match="no function that can be loaded"):
        compile_source(text="static int f(void *ctx)\n{\n\treturn 0;\n}\n")


def test_pinned_map() -> None:
    with pytest.raises(CompileError, match="pinned"):
        compile_source(
            text=text(
                "u32 k = 0; return !other.lookup(&k);",
                before='BPF_TABLE_PINNED("hash", u32, u32, other, 10, "/sys/fs/bpf/none");',
            )
        )


def test_map_of_maps() -> None:
    with pytest.raises(CompileError, match="map of maps"):
        compile_source(
            text=text(
                "u32 k = 0; return !outer.lookup(&k);",
                before='BPF_ARRAY(inner, u32, 4); BPF_ARRAY_OF_MAPS(outer, "inner", 2);',
            )
        )


def test_second_argument() -> None:
    with pytest.raises(CompileError, match="more than one argument"):
        compile_source(text="int f(struct xdp_md *ctx, int mode)\n{\n\treturn mode;\n}\n")


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("#include <bpf/bpf_helpers.h>\n", "header of libbpf's dialect"),
        ('#include "vmlinux.h"\n', "header of libbpf's dialect"),
        ('SEC("xdp")\nint f(struct xdp_md *ctx)\n{\n\treturn 1;\n}\n', "leave SEC"),
        ('struct { __uint(type, 2); } m SEC(".maps");\n', "LAB_PERCPU_ARRAY"),
        ("BPF_DEVMAP_HASH(ports, 4);\n", "no devmap_hash"),
        ('int f(void *ctx)\n{\n\tbpf_printk("x");\n\treturn 1;\n}\n', "bpf_trace_printk"),
        ("TRACEPOINT_PROBE(xdp, none)\n{\n\treturn args->err;\n}\n", "no such tracepoint"),
        ("BPF_HASH(m, u32);\nint f(void *c)\n{\n\tm[3]++;\n\treturn 1;\n}\n", "no array in C"),
        (
            "BPF_HASH(m, u32);\nint f(void *c)\n{\n\tu32 k = 3;\n\treturn !bpf_map_lookup_elem(&m, &k);\n}\n",
            "m.lookup(&key)",
        ),
        (
            'int f(void *c)\n{\n\tbpf_trace_printk("%s", "text");\n\treturn 1;\n}\n',
            "texts in quotes",
        ),
    ],
)
def test_other_dialects(source: str, words: str) -> None:
    with pytest.raises(CompileError) as caught:
        compile_source(text=source)
    assert words in str(caught.value)


def test_odd_line_ends(tmp_path: Path) -> None:
    (tmp_path / "a.c").write_bytes(
        b"\xef\xbb\xbf#include <uapi/linux/bpf.h>\r\n/* \f \xe2\x80\xa8 */\r\n"
        b"int f(void *c)\r\n{\r\n\treturn wrong;\r\n}\r\n"
    )
    with pytest.raises(CompileError) as caught:
        compile_source(path=tmp_path / "a.c")
    assert (caught.value.line, caught.value.source_line) == (5, "\treturn wrong;")


@pytest.mark.parametrize("entry", [*COMPILER, *VERIFIER, *DIALECT])
def test_catalogue_is_well_formed(entry: tuple[str, str, str]) -> None:
    import re

    pattern, meaning, remedy = entry
    groups = [f"<{n}>" for n in range(re.compile(pattern).groups)]
    assert meaning.format(*groups)
    assert remedy.format(*groups)


def test_unknown_message_has_no_explanation() -> None:
    assert explain(COMPILER, "the moon is full") == ("", "")
