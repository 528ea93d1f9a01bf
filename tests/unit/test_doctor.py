"""The doctor: what it makes of what it finds. Needs no privilege; with it, the same tests hold."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from labkit import registry
from labkit.doctor import Report, Row, doctor, machine, software
from labkit.doctor import kernel as kernel_checks
from labkit.doctor.report import PRIVILEGE
from labkit.errors import FeatureError, LabError, PrivilegeError
from labkit.kernel import features
from labkit.kernel.features import Feature

SURVEY = Path(software.__file__).with_name("survey.py")


@pytest.fixture(autouse=True)
def _forget() -> Any:
    yield
    features.forget()


def survey(*options: str, **environment: str) -> dict[str, Any]:
    command = [sys.executable, *options, str(SURVEY)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env={**os.environ, **environment})
    return json.loads(done.stdout)


def test_a_report_never_raises_when_asked_not_to_and_is_quick() -> None:
    began = time.monotonic()
    report = doctor(strict=False)
    assert time.monotonic() - began < 5  # under a second on a quiet machine
    names = [row.requirement for row in report.rows]
    assert len(names) == len(set(names))
    for wanted in (
        *("Linux", PRIVILEGE, "bpf(2)", "JIT", "BTF", "network namespaces", "veth", "native XDP", "generic XDP"),
        *("live frames", "AF_XDP", "TCX", "seccomp notification", "drop reasons", "BCC", "UAPI headers", "Python"),
        *("memory lock", "leftovers", "map xskmap", "map percpu_array", "tracepoint xdp_exception"),
        *("Python package numpy", "Python package pyroute2", "command nft", "command tc"),
    ):
        assert wanted in names
    assert all(row.remedy for row in report.missing)
    assert all("\n" not in row.remedy for row in report.rows)


def test_json_is_plain_values() -> None:
    found = doctor(strict=False, json=True)
    again = json.loads(json.dumps(found))
    assert again == found
    assert {"requirement", "state", "found", "remedy", "needed"} <= set(found["requirements"][0])
    assert {row["state"] for row in found["requirements"]} <= {"ok", "missing", "degraded", "note"}


def test_what_is_missing_is_raised_with_every_remedy() -> None:
    rows = (
        Row("veth", "missing", "no such thing", "sudo modprobe veth"),
        Row("BCC", "missing", "not installed", "sudo apt-get install python3-bpfcc"),
        Row("TCX", "missing", "too old", "a newer kernel", needed=False),
        Row("JIT", "ok", "on"),
    )
    with pytest.raises(FeatureError, match="lacks 2 things") as caught:
        Report(rows).demand()
    text = str(caught.value)
    assert "sudo modprobe veth" in text
    assert "sudo apt-get install python3-bpfcc" in text
    assert "newer kernel" not in text
    Report(rows[2:]).demand()


def test_an_ordinary_user_is_told_that_it_is_privilege() -> None:
    row = machine._privilege(1000, set(), False, "kernel.unprivileged_bpf_disabled=2")
    assert (row.state, row.remedy) == ("missing", "start it in a sandbox: ./env/lab, or labkit sandbox -- CMD")
    assert "not root and in no sandbox" in row.found
    with pytest.raises(PrivilegeError, match="no privilege") as caught:
        Report((row,)).demand()
    assert "compile" not in str(caught.value)


def test_root_of_a_container_is_told_which_capabilities_it_lacks() -> None:
    row = machine._privilege(0, {"NET_RAW"}, False, "")
    assert row.state == "missing"
    assert "CAP_NET_ADMIN, CAP_SYS_ADMIN" in row.found
    assert machine._privilege(0, {"NET_ADMIN", "NET_RAW", "SYS_ADMIN"}, True, "").state == "ok"


def test_capabilities_and_user_namespace_are_read_as_the_kernel_writes_them() -> None:
    assert machine.capabilities("Name:\tx\nCapEff:\t000001ffffffffff\n") == {
        *("NET_ADMIN", "NET_RAW", "SYS_ADMIN", "PERFMON", "BPF")
    }
    assert machine.capabilities("CapEff:\t0000000000001000\n") == {"NET_ADMIN"}
    assert machine.in_user_namespace("         0       1000          1\n")
    assert not machine.in_user_namespace("         0          0 4294967295\n")


def test_without_privilege_probes_are_not_tried_rather_than_missing() -> None:
    rows = {row.requirement: row for row in kernel_checks.kernel_rows(privileged=False)}
    for name in ("bpf(2)", "veth", "native XDP", "map array", "tracepoint kfree_skb"):
        assert (rows[name].state, rows[name].found) == ("note", "not tried: needs privilege")
    assert rows["seccomp notification"].state in ("ok", "missing")


def test_what_hangs_on_a_missing_thing_is_not_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(features, "bpf_syscall", lambda: Feature(False, "Operation not permitted", 1))
    rows = {row.requirement: row for row in kernel_checks.kernel_rows(privileged=True)}
    assert rows["bpf(2)"].state == "missing"
    assert "refuses it to this process" in rows["bpf(2)"].remedy
    assert rows["map xskmap"].found == "not tried: needs bpf(2)"


def test_a_probe_that_breaks_costs_only_its_row(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> Feature:
        raise RuntimeError("odd machine")

    monkeypatch.setattr(features, "btf", broken)
    monkeypatch.setattr(software, "headers", broken)
    report = doctor(strict=False)
    assert report["BTF"].state == "degraded"
    assert "RuntimeError: odd machine" in report["BTF"].found
    assert report["UAPI headers"].state == "degraded"
    assert report["leftovers"].state in ("ok", "note")


def test_a_survey_that_ends_badly_costs_only_its_row(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    broken = tmp_path / "survey.py"
    broken.write_text("raise SystemExit('no luck')")
    monkeypatch.setattr(software, "_SURVEY", broken)
    report = doctor(strict=False)
    assert "no luck" in report["BCC and packages"].found
    assert report["UAPI headers"].state in ("ok", "missing")


def test_pypis_bcc_is_told_from_the_systems(tmp_path: Path) -> None:
    (tmp_path / "bcc").mkdir()
    (tmp_path / "bcc" / "__init__.py").write_text("__version__ = '1.0'\n")
    row = software.bcc_row(survey("-P", PYTHONPATH=str(tmp_path))["bcc"])
    assert row.state == "missing"
    assert f"{tmp_path}/bcc/__init__.py is an unrelated package" in row.found
    assert "pip uninstall -y bcc" in row.remedy


def test_an_unrelated_bcc_that_can_not_even_be_imported(tmp_path: Path) -> None:
    (tmp_path / "bcc").mkdir()
    (tmp_path / "bcc" / "__init__.py").write_text("import no_such_module_here\n")
    found = survey("-P", PYTHONPATH=str(tmp_path))["bcc"]
    assert found["kind"] == "unrelated"


def test_the_systems_bcc_without_its_library_is_broken(tmp_path: Path) -> None:
    (tmp_path / "bcc").mkdir()
    (tmp_path / "bcc" / "libbcc.py").write_text("")
    (tmp_path / "bcc" / "__init__.py").write_text("raise OSError('libbcc.so.0: cannot open shared object file')\n")
    row = software.bcc_row(survey("-P", PYTHONPATH=str(tmp_path))["bcc"])
    assert "can't be imported: OSError: libbcc.so.0" in row.found
    assert "--reinstall" in row.remedy


def test_no_bcc_and_no_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    found = survey("-I", "-S")  # without site-packages
    assert found["bcc"]["kind"] == "missing"
    rows = software.package_rows(found["packages"])
    assert {row.state for row in rows} == {"missing"}
    assert all(row.remedy == "./env/run labkit doctor" for row in rows)
    monkeypatch.setattr(software, "_SYSTEM_BCC", ())
    assert software.bcc_row(found["bcc"]).remedy == "sudo apt-get install python3-bpfcc"


def test_a_bcc_that_this_python_does_not_see(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "libbcc.py").write_text("")
    monkeypatch.setattr(software, "_SYSTEM_BCC", (tmp_path,))
    row = software.bcc_row({"kind": "missing"})
    assert f"it is at {tmp_path}" in row.found


def test_a_package_of_another_version_is_degraded() -> None:
    [row] = software.package_rows([{"name": "numpy", "wanted": ">=2.4,<3", "found": "1.26", "state": "other"}])
    assert row.state == "degraded"
    assert "1.26 (wanted: >=2.4,<3)" in row.found


def test_headers_and_commands_name_the_package(tmp_path: Path) -> None:
    [row] = software.headers(tmp_path / "bpf.h")
    assert (row.state, row.remedy) == ("missing", "sudo apt-get install linux-libc-dev")
    rows = {
        row.requirement: row for row in machine.commands({"ip": "/sbin/ip", "tc": None, "nft": None, "nsenter": None})
    }
    assert rows["command ip"].state == "ok"
    assert rows["command nft"].remedy == "sudo apt-get install nftables"
    assert rows["command nft"].state == "note"


def test_leftovers_of_a_killed_process_are_shown(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDP_LAB_STATE", str(tmp_path))
    assert machine.leftovers()[0].state == "ok"
    ended = subprocess.Popen(["true"])
    ended.wait()
    record = {"lab": "old", "pid": ended.pid, "started": 1, "hosts": []}
    (tmp_path / f"old.{ended.pid}.json").write_text(json.dumps(record))
    [row] = machine.leftovers()
    assert (row.state, row.remedy) == ("note", "labkit clean")
    assert f"old (process {ended.pid})" in row.found
    assert registry.clean()
    assert machine.leftovers()[0].state == "ok"


def test_tables_fold_what_is_well_and_show_what_is_not() -> None:
    rows = (
        Row("map hash", "ok", "can be made", group="map"),
        Row("map array", "ok", "can be made", group="map"),
        Row("map xskmap", "degraded", "not there <here>", "another kernel", False, "map"),
    )
    report = Report(rows)
    text = str(report)
    assert "map (2)" in text
    assert "hash, array" in text
    assert "→ another kernel" in text
    assert repr(report) == text
    page = report._repr_html_()
    assert "&lt;here&gt;" in page
    assert "degraded" in page  # a word, not only a colour
    assert 'scope="col"' in page
    with pytest.raises(LabError, match="no row 'nonsense'"):
        report["nonsense"]


def test_the_doctor_needs_no_package_of_pythons_index() -> None:
    """It must run, and report, on a machine where nothing is installed yet."""
    root = str(Path(registry.__file__).parents[1])
    code = (
        f"import sys; sys.path.insert(0, {root!r}); from labkit.doctor import doctor; "
        "print(doctor(strict=False)['Python'].state)"
    )
    done = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True)
    assert done.stdout == "note\n", done.stderr
