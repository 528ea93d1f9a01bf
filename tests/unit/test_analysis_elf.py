"""Object files of clang's: sections joined, calls and maps found, and one program in many shapes."""

from __future__ import annotations

import json
import platform
import random
import shutil
import struct
import subprocess
from pathlib import Path

import pytest

from labkit.analysis import analyse, codes
from labkit.analysis.elf import ObjectFile
from labkit.analysis.opcodes import Kind
from labkit.analysis.report import Report
from labkit.cli import main
from labkit.errors import AnalysisError, CompileError

SOURCE = Path(__file__).with_name("analysis_variants.c")
CLANG = shutil.which("clang")
needs_clang = pytest.mark.skipif(CLANG is None, reason="no clang here: apt-get install clang")

# Name: by dataflow a tail call; and whether the peephole of 2020 sees it where all is inlined, or None: as it turns out.
SHAPES = {
    "plain": (True, True),
    "uses_a_global": (True, True),
    "counts_before": (True, True),
    "falls_back": (True, None),
    "mixed": (True, None),
    "spilled": (True, False),
    "counts_behind": (False, False),
    "helper_between": (False, False),
    "overruled": (False, False),
}


def compiled(directory: Path, *flags: str) -> Path:
    made = directory / "variants.o"
    include = f"-I/usr/include/{platform.machine()}-linux-gnu"
    command = [str(CLANG), "-target", "bpf", "-g", *flags, include, "-c", str(SOURCE), "-o", str(made)]
    subprocess.run(command, check=True, capture_output=True, timeout=60)
    return made


def answers(path: Path) -> dict[str, Report]:
    return {report.code.name: report for report in analyse(path)}


@needs_clang
@pytest.mark.parametrize("level", ["-O1", "-O2", "-Os"])
@pytest.mark.parametrize("cpu", ["v1", "v2", "v3"])
def test_inlined_the_answer_does_not_hang_on_the_compiler(tmp_path: Path, level: str, cpu: str) -> None:
    found = answers(compiled(tmp_path, level, f"-mcpu={cpu}"))
    assert set(found) == set(SHAPES)
    for name, (dataflow, peephole) in SHAPES.items():
        report = found[name]
        assert len(report.code.functions) == 1
        assert report.dataflow is dataflow, str(report)
        assert peephole in (None, report.peephole), str(report)
        assert report.mixes is (name == "mixed")


@needs_clang
@pytest.mark.parametrize("level", ["-O1", "-O2", "-Os"])
def test_with_functions_dataflow_answers_the_same_and_the_peephole_is_wrong(tmp_path: Path, level: str) -> None:
    found = answers(compiled(tmp_path, level, "-DNOINLINE"))
    for name, (dataflow, _) in SHAPES.items():
        assert found[name].dataflow is dataflow, str(found[name])
    for name in ("counts_behind", "helper_between", "overruled"):
        assert len(found[name].code.functions) > 1
        assert found[name].peephole, "it takes the exit of send() for the program's"
    site = found["overruled"].sites[0]
    assert site.function == "send"
    assert site.line is not None
    assert site.line.text.strip() == "return redirect_map(&ports, ctx->rx_queue_index, 0);"
    assert [line.text.strip() for line in found["overruled"].path_lines(site)][-1] == "return XDP_DROP;"


@needs_clang
def test_maps_calls_and_sections_are_told_by_name(tmp_path: Path) -> None:
    file = ObjectFile.read(compiled(tmp_path, "-O2", "-DNOINLINE"))
    assert {part.name for part in file.parts} == {*SHAPES, "send", "count"}
    code = file.code(file.choose("counts_before")[0])
    assert [function.name for function in code.functions] == ["counts_before", "count", "send"]
    assert code.section == "xdp/before"
    assert set(code.maps.values()) == {"verdicts", "ports"}
    code = file.code(file.choose("uses_a_global")[0])
    wide = [each.operation for each in code.instructions.values() if each.kind is Kind.WIDE]
    assert sorted(wide) == ["map_fd", "map_value"]
    with pytest.raises(AnalysisError, match="no function 'nowhere'; its functions are: "):
        file.choose("nowhere")


@needs_clang
def test_what_no_kernel_takes_is_refused(tmp_path: Path) -> None:
    with pytest.raises(AnalysisError, match="opcode 0x8d, calls through a register"):
        analyse(compiled(tmp_path, "-O0"))


@needs_clang
def test_without_line_information_the_answers_are_the_same(tmp_path: Path) -> None:
    found = answers(compiled(tmp_path, "-O2", "-g0"))
    assert [found[name].dataflow for name in SHAPES] == [dataflow for dataflow, _ in SHAPES.values()]
    assert "(no line information)" in str(found["plain"])


@needs_clang
def test_damaged_files_are_refused(tmp_path: Path) -> None:
    data = compiled(tmp_path, "-O2").read_bytes()
    for broken in (data[:100], data[:-200], b"\x7fELF" + bytes(60), data[:18] + struct.pack("<H", 62) + data[20:]):
        with pytest.raises(AnalysisError):
            ObjectFile(broken)
    chance = random.Random(7)
    for _ in range(31):
        at = chance.randrange(64, len(data))
        try:
            file = ObjectFile(data[:at] + chance.randbytes(8) + data[at + 8 :])
            for part in file.parts:
                file.code(part)
        except AnalysisError:
            continue


def test_what_cannot_be_analysed_is_told(tmp_path: Path) -> None:
    (tmp_path / "x.c").write_text("not C")
    with pytest.raises(CompileError):
        analyse(tmp_path / "x.c")
    for wrong in (None, 7, b"bytes"):
        with pytest.raises(AnalysisError, match="can't be analysed"):
            codes(wrong)  # type: ignore[arg-type]
    with pytest.raises(AnalysisError, match="told by its name"):
        codes("bpf/pass.c", 3)  # type: ignore[arg-type]


def test_the_command_tells_and_gives_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["analyse", "bpf/analysis/counted_behind.c"]) == 0
    assert "verdict.h:" in capsys.readouterr().out
    assert main(["analyse", "bpf/analysis/two_tails.c", "--function", "two_tails", "--json"]) == 0
    program = json.loads(capsys.readouterr().out)["programs"][0]
    assert (program["peephole"], program["dataflow"], program["qualifies"]) == (False, True, True)
    assert [site["line"]["number"] for site in program["sites"]] == [18, 22]
    assert main(["analyse", "/nowhere.o", "--json"]) == 1
    assert "error" in json.loads(capsys.readouterr().out)
    assert main(["analyse"]) == 2
