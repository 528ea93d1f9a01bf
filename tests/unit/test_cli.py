"""The command: its words, its exit statuses, its JSON. Needs no privilege."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from labkit.bench import BENCHMARKS
from labkit.bench.measure import paired
from labkit.bench.registry import run_benchmarks
from labkit.bench.result import BenchResult
from labkit.cli import main, places
from labkit.demo.registry import DEMOS, run_demo
from labkit.errors import LabError, LessonError, TrafficError
from labkit.registry import HostRecord, Record, process_start

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def _own_state(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    monkeypatch.setenv("XDP_LAB_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("XDP_LAB_PROGRESS", str(tmp_path / "progress.json"))


def start(*words: str, **options: Any) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", "labkit", *words], cwd=ROOT, stderr=subprocess.PIPE, text=True, **options
    )


def record(directory: Path, lab: str, pid: int, started: int, *hosts: HostRecord) -> None:
    directory.mkdir(exist_ok=True)
    found = Record(lab, pid, started, hosts)
    text = json.dumps({**vars(found), "hosts": [vars(host) for host in hosts]})
    (directory / f"{lab}.{pid}.json").write_text(text)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["demo", "nonsense"], "no demo 'nonsense'; the demos are: drop"),
        (["demo"], "LESSON"),
        (["demo", "drop", "--packets", "-5"], "packets must be a whole number from 1 to 1,000,000,000, not -5"),
        (["demo", "drop", "--packets", "0"], "not 0"),
        (["demo", "drop", "--packets", "many"], "not many"),
        (["demo", "drop", "--packets"], "--packets"),
        (["bench", "nonsense"], "no benchmark 'nonsense'; the benchmarks are: generator"),
        (["bench", "--runs", "0"], "runs must be a whole number from 1"),
        (["nonsense"], "nonsense"),
        (["progress"], "export"),
        (["doctor", "--nonsense"], "--nonsense"),
    ],
)
def test_wrong_use_says_what_is_right(words: list[str], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert told in err
    assert "usage: labkit" in err
    assert "Traceback" not in err


def test_wrong_use_with_json_is_an_object(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "nonsense", "--json"]) == 2
    out, _ = capsys.readouterr()
    assert "no demo 'nonsense'" in json.loads(out)["error"]["message"]


@pytest.mark.parametrize("words", [["--help"], ["demo", "--help"], ["bench", "--help"], ["shell", "--help"]])
def test_help(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 0
    out, err = capsys.readouterr()
    assert out.startswith("usage: labkit")
    assert err == ""
    if words[0] == "demo":
        assert all(demo.summary in out for demo in DEMOS.values())
    if words[0] == "bench":
        assert all(bench.summary in out for bench in BENCHMARKS.values())


def test_no_word_at_all_is_wrong_use_with_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert "commands" in capsys.readouterr().out


def test_the_command_starts_without_the_heavy_libraries() -> None:
    code = (
        "import sys; from labkit.cli import main; main(['--help']); "
        "sys.exit(bool({'numpy', 'scapy', 'pyroute2', 'ipywidgets', 'anywidget'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.DEVNULL).returncode == 0


@pytest.mark.parametrize("module", ["labkit", "labkit.cli"])
def test_as_a_module(module: str) -> None:
    done = subprocess.run([sys.executable, "-m", module, "labs"], cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "No lab is up.\n", "")


def test_doctor_with_json_prints_one_object(capsys: pytest.CaptureFixture[str]) -> None:
    status = main(["doctor", "--json"])
    out, err = capsys.readouterr()
    found = json.loads(out)
    assert status == (0 if found["ok"] else 1)
    assert err == ""
    assert main(["doctor"]) == status
    assert "UAPI headers" in capsys.readouterr().out


def test_labs_names_the_way_into_each_host(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    ended = subprocess.Popen(["true"])
    ended.wait()
    own = HostRecord("server", 4711, 1, 1)
    record(tmp_path / "state", "mine", os.getpid(), process_start(os.getpid()), own)
    record(tmp_path / "state", "old", ended.pid, 1, HostRecord("client", 4712, 2, 2))
    assert main(["labs"]) == 0
    out = capsys.readouterr().out
    assert f"nsenter --net=/proc/{os.getpid()}/task/4711/ns/net" in out
    assert "(gone)" in out
    assert "labkit clean" in out
    assert main(["labs", "--json"]) == 0
    mine, old = json.loads(capsys.readouterr().out)["labs"]
    assert (mine["lab"], mine["alive"], mine["hosts"][0]["name"]) == ("mine", True, "server")
    assert (old["lab"], old["alive"]) == ("old", False)


def test_clean_says_what_it_did(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["clean"]) == 0
    assert "Nothing to clean" in capsys.readouterr().out
    ended = subprocess.Popen(["true"])
    ended.wait()
    record(tmp_path / "state", "old", ended.pid, 1)
    record(tmp_path / "state", "mine", os.getpid(), process_start(os.getpid()))
    assert main(["clean", "--json"]) == 0
    [done] = json.loads(capsys.readouterr().out)["done"]
    assert f"the lab old of process {ended.pid}" in done
    assert [path.name for path in (tmp_path / "state").iterdir()] == [f"mine.{os.getpid()}.json"]


def test_shell_names_the_labs_and_hosts_there_are(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["shell", "mine", "server"]) == 1
    assert "no lab 'mine'" in capsys.readouterr().err
    record(tmp_path / "state", "mine", os.getpid(), process_start(os.getpid()), HostRecord("server", 1, 1, 1))
    assert main(["shell", "mine", "router"]) == 1
    assert "its hosts are server" in capsys.readouterr().err
    assert main(["shell", "other", "server"]) == 1
    assert "the labs are: mine" in capsys.readouterr().err
    parent = os.getppid()
    record(tmp_path / "state", "mine", parent, process_start(parent), HostRecord("server", 1, 1, 1))
    with pytest.raises(LabError, match="2 processes") as caught:
        places.enter("mine", "server", ["true"])
    assert f"mine.{parent}" in caught.value.remedy


def test_shell_passes_the_exit_status_on(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    record(tmp_path / "state", "mine", os.getpid(), process_start(os.getpid()), HostRecord("server", 1, 1, 1))
    monkeypatch.setattr(places, "_nsenter", lambda *_: ["env"])
    assert main(["shell", "mine", "server", "sh", "-c", "exit 7"]) == 7
    assert main(["shell", f"mine.{os.getpid()}", "server", "--", "sh", "-c", "kill -9 $$"]) == 137
    monkeypatch.setattr(places, "_nsenter", lambda *_: ["/nonsense"])
    assert main(["shell", "mine", "server", "true"]) == 1


def test_progress_export_is_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["progress", "export"]) == 0
    assert json.loads(capsys.readouterr().out)["predictions"] == {}


def test_whoever_stops_reading_hears_no_complaint() -> None:
    read, write = os.pipe()
    os.close(read)
    child = start("doctor", stdout=write)
    os.close(write)
    assert child.communicate()[1] == ""
    assert child.returncode == 141


def test_a_lab_error_is_told_with_its_remedy(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: Any, **__: Any) -> None:
        raise LabError("It broke.", tried="to try", on="it", errno=1, remedy="mend it")

    monkeypatch.setattr("labkit.registry.clean", fails)
    assert main(["clean", "--json"]) == 1
    out, err = capsys.readouterr()
    assert json.loads(out)["error"] == {
        "type": "LabError",
        "message": "It broke.",
        "tried": "to try",
        "on": "it",
        "errno": 1,
        "kernel": "EPERM, Operation not permitted",
        "remedy": "mend it",
    }
    assert "mend it" in err


def test_an_interrupt_is_told_in_a_line(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("labkit.registry.clean", interrupted)
    assert main(["clean", "--json"]) == 130
    out, err = capsys.readouterr()
    assert json.loads(out)["error"]["type"] == "KeyboardInterrupt"
    assert "interrupted" in err
    assert "Traceback" not in err


@pytest.mark.parametrize("packets", [0, -1, True, 1.5, "7", 10**12])
def test_a_demo_refuses_odd_counts(packets: Any) -> None:
    with pytest.raises(TrafficError, match="can't be sent"):
        run_demo("drop", packets=packets)


def test_registries_name_what_they_have() -> None:
    with pytest.raises(LessonError, match="no demo") as caught:
        run_demo("nonsense")
    assert "drop" in caught.value.remedy
    with pytest.raises(LessonError, match="no benchmark"):
        run_benchmarks(["nonsense"])
    with pytest.raises(LessonError, match="0 runs"):
        run_benchmarks(["swap"], runs=0)


def test_paired_runs_alternate_and_give_medians() -> None:
    turns: list[str] = []

    def counted(name: str, values: list[float]) -> Any:
        def measure() -> float:
            turns.append(name)
            return values.pop(0)

        return measure

    ours, theirs = counted("lab", [99, 2, 4, 6]), counted("other", [99, 1, 1, 3])
    result = paired(ours, {"other": theirs}, unit="Mpps", better="more", runs=3, progress=lambda _: None)
    assert turns == ["other", "lab", "lab", "other", "other", "lab", "lab", "other"]
    assert (result.value, result.baseline, result.ratio) == (4, {"other": 1}, {"other": 4})
    slow, slower = counted("lab", [9, 2, 2, 2]), counted("other", [9, 10, 12, 14])
    result = paired(slow, {"other": slower}, unit="ms", better="less", runs=3, progress=lambda _: None)
    assert result.ratio == {"other": 6}
    assert "6 times" in str(result)


def test_a_bench_object_has_the_agreed_shape() -> None:
    found = BenchResult(1.23456789, "ms", 5, {"ip": 12.0}, {"ip": 9.72}).as_dict()
    assert found["value"] == 1.2346
    assert (found["unit"], found["baseline"], found["ratio"], found["runs"]) == ("ms", {"ip": 12.0}, {"ip": 9.72}, 5)
