"""The command on the real kernel: a demo's ledger, an interrupt, a shell in a host, nothing left behind."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from patience import until

from labkit.cli import main
from labkit.demo import DEMOS, run_demo
from labkit.errors import PrivilegeError
from labkit.kernel import netns
from labkit.lab import Lab
from labkit.topology import Topology

pytest.importorskip("numpy")  # starts a worker thread when first imported: no leak of a test
ROOT = Path(__file__).parents[2]
PACKETS = 100_003


@pytest.fixture(autouse=True)
def state(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("XDP_LAB_STATE", str(tmp_path / "state"))
    return tmp_path / "state"


def command(*words: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", "labkit", *words],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        # Who starts the tests in the background of a shell leaves Ctrl-C ignored, and Python would leave it so.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


def test_the_drop_demo_accounts_for_every_packet() -> None:
    child = command("demo", "drop", "--packets", str(PACKETS), "--json")
    out, err = child.communicate(timeout=120)
    assert child.returncode == 0, err
    found = json.loads(out)
    assert found["sent"] == PACKETS
    assert found["losses"] == {"XDP_DROP": PACKETS}
    assert (found["delivered"], found["in_flight"], found["unaccounted"]) == (0, 0, 0)
    assert found["seconds"] > 0
    assert found["pps"] == pytest.approx(PACKETS / found["seconds"], rel=0.01)
    assert sum(row["packets"] for row in found["rows"] if row["kind"] == "loss") == PACKETS


ELSEWHERE = {
    "redirect": {"XDP_DROP"},
    "redirect-no-peer": {"EOPNOTSUPP"},
    "overrun": {"XDP_DROP", "ring full"},
    "tx-no-peer": {"ENXIO"},
    "cpumap": {"cpumap XDP_DROP", "cpumap queue full"},
    "metadata": {"XDP_DROP"},
}


@pytest.mark.parametrize("packets", [7, 1_009, None], ids=["7", "1009", "default"])
@pytest.mark.parametrize("name", ELSEWHERE)
def test_what_is_sent_elsewhere_is_accounted_for(name: str, packets: int | None) -> None:
    result = run_demo(name, packets=packets)
    found = result.as_dict()
    count = DEMOS[name].packets if packets is None else packets
    assert result.report.sent == found["sent"] == count
    assert (found["unaccounted"], found["in_flight"], found["delivered"], found["copies"]) == (0, 0, 0, 0)
    assert set(found["losses"]) <= ELSEWHERE[name] | {"ring full"}
    assert sum(found["losses"].values()) == count
    if name in ("redirect-no-peer", "tx-no-peer"):
        assert found["losses"] == dict.fromkeys(ELSEWHERE[name], count)
    if (name, packets) == ("overrun", None):
        assert found["losses"]["ring full"] > 0
    assert all(check.agrees for check in result.ledger.checks), result.ledger
    until(lambda: not strangers(), "the hosts' threads to end")


def test_the_demo_for_people(capsys: pytest.CaptureFixture[str], state: Path) -> None:
    assert main(["demo", "drop", "--packets", "1009"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert "1,009 packets from client eth0" in out
    assert re.search(r"dropped by the program +server eth0 +1,009", out)
    assert list(state.glob("*")) == []


def test_the_demo_by_function_takes_its_default_and_leaves_no_lab() -> None:
    result = run_demo("drop", packets=503)
    assert (result.ledger.sent, result.ledger.unaccounted) == (503, 0)
    until(lambda: not strangers(), "the hosts' threads to end")  # a joined thread is gone a moment later


OWN = netns.namespace_inode("self")


def strangers() -> list[str]:
    """Threads of this process in another network namespace than the process's own."""
    found = []
    for task in os.listdir("/proc/self/task"):
        with contextlib.suppress(FileNotFoundError):
            if netns.namespace_inode(f"self/task/{task}") != OWN:
                found.append(task)
    return found


def test_without_privilege_the_demo_says_so(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(_: str) -> None:
        raise PrivilegeError("This process may not make a network namespace.", errno=1, remedy="./env/lab")

    monkeypatch.setattr("labkit.host.NamespaceThread", refused)
    assert main(["demo", "drop", "--packets", "7", "--json"]) == 1
    out, err = capsys.readouterr()
    assert json.loads(out)["error"]["type"] == "PrivilegeError"
    assert "./env/lab" in err


def test_an_interrupted_demo_ends_clean(state: Path) -> None:
    child = command("demo", "drop", "--packets", "999999937", "--json")
    until(lambda: list(state.glob("demo-drop.*.json")), "the lab")
    child.send_signal(signal.SIGINT)
    out, err = child.communicate(timeout=60)
    assert child.returncode == 130
    assert json.loads(out)["error"]["type"] == "KeyboardInterrupt"
    assert "Traceback" not in err
    assert list(state.glob("*")) == []


def test_a_killed_demo_leaves_a_record_that_clean_removes(state: Path) -> None:
    child = command("demo", "drop", "--packets", "999999937")
    until(lambda: list(state.glob("demo-drop.*.json")), "the lab")
    child.kill()
    child.communicate(timeout=60)
    assert main(["clean"]) == 0
    assert list(state.glob("*")) == []


def test_a_shell_in_a_host_sees_its_interfaces(capfd: pytest.CaptureFixture[str]) -> None:
    with Lab(Topology.pair(), name="places"):
        assert main(["shell", "places", "server", "ip", "-brief", "address"]) == 0
        assert "10.0.1.2/24" in capfd.readouterr().out
        assert main(["shell", "places", "client", "--", "sh", "-c", 'echo "$XDP_LAB_HOST"']) == 0
        assert capfd.readouterr().out == "places/client\n"
        assert main(["labs", "--json"]) == 0
        [lab] = json.loads(capfd.readouterr().out)["labs"]
        enter = lab["hosts"][1]["enter"]
        shown = subprocess.run(f"{enter} ip -brief address", shell=True, capture_output=True, text=True, check=True)
        assert "10.0.1.2/24" in shown.stdout
    assert main(["shell", "places", "server", "true"]) == 1
