"""A lab comes up, lives beside others, and leaves nothing, however it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest
from patience import numbers_kept, until

import labkit as lk
from labkit import registry
from labkit.kernel import bpf
from labkit.kernel.netns import namespace_inode
from labkit.uapi import BpfCmd


def test_hosts_reach_each_other_and_nothing_else(lab: lk.Lab) -> None:
    assert lk.ping(lab["client"], lab["server"], 3).received == 3
    routes = lab["client"].run(Path("/proc/thread-self/net/route").read_text).splitlines()[1:]
    assert len(routes) == 1  # its own link; no way out of the lab
    assert namespace_inode() not in {host.inode for host in lab.hosts.values()}


@pytest.mark.parametrize("topology", [lk.Topology.router(), lk.Topology.chain(5), lk.Topology.fanout(3)])
def test_every_shape_is_connected(topology: lk.Topology) -> None:
    with lk.Lab(topology, name="shape") as lab:
        first = lab[topology.hosts[0]]
        for name in topology.hosts[1:]:
            assert lk.ping(first, lab[name], 2).received == 2, f"{first.name} does not reach {name}"
        assert lab.ledger().unaccounted == 0


def test_mtu_and_queues_are_as_planned() -> None:
    with lk.Lab(lk.Topology.pair(mtu=9000, queues=2), name="shape") as lab:
        client = lab["client"]["eth0"]
        assert client.mtu == 9000
        assert "rx_queue_1_xdp_packets" in client.driver_statistics()


def test_offloads_that_would_falsify_are_off(lab: lk.Lab) -> None:
    features = lab["client"]["eth0"].features()
    assert not features["tx-checksum-ip-generic"]
    assert not features["tx-vlan-hw-insert"]
    lab["client"]["eth0"].set_feature("tx-checksum", True)
    assert lab["client"]["eth0"].features()["tx-checksum-ip-generic"]
    with pytest.raises(lk.TopologyError, match="no feature 'warp'"):
        lab["client"]["eth0"].set_feature("warp", True)


def test_the_same_name_replaces_and_another_name_does_not() -> None:
    with lk.Lab(lk.Topology.pair(), name="one") as one, lk.Lab(lk.Topology.pair(), name="two") as two:
        again = lk.Lab(lk.Topology.pair(), name="one")
        assert one.closed
        assert not two.closed
        assert lk.ping(two["client"], two["server"], 1).received == 1
        with pytest.raises(lk.StateError, match="closed"):
            one.ledger()
        again.close()
        again.close()


def test_a_lab_of_another_process_is_not_disturbed(lab: lk.Lab) -> None:
    """A second process makes a lab of the same name and drops in it; neither sees the other's packets."""
    program = (
        "import labkit as lk\n"
        "with lk.Lab(lk.Topology.pair(), name='test') as lab:\n"
        "    lk.generate(lab['client']['eth0'], lk.udp(lab['client'], lab['server']), 10007)\n"
        "    ledger = lab.ledger()\n"
        "    print(ledger.losses['NO_SOCKET'], ledger.unaccounted)\n"
    )
    child = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    lk.generate(lab["client"]["eth0"], lk.udp(lab["client"], lab["server"]), 20011)
    said, _ = child.communicate(timeout=60)
    ledger = lab.ledger()
    assert said.split() == ["10007", "0"]
    assert (ledger.losses["NO_SOCKET"], ledger.unaccounted) == (20011, 0)


_VICTIM = """
import labkit as lk
lab = lk.Lab(lk.Topology.pair(), name="victim")
lab.load(lk.compile(path="bpf/drop_all.c")).attach(lab["server"]["eth0"])
lk.Generator(lab["client"]["eth0"], lk.udp(lab["client"], lab["server"]), seconds=60).start()
print(*[h.inode for h in lab.hosts.values()], *[p.id for p in lab.programs], flush=True)
import time; time.sleep(60)
"""


def _namespaces(processes: Iterable[str]) -> set[int]:
    """The network namespaces that the threads of these processes are in."""
    found = set()
    for entry in processes:
        try:
            found |= {namespace_inode(f"{entry}/task/{tid}") for tid in os.listdir(f"/proc/{entry}/task")}
        except OSError:
            continue
    return found


def _namespaces_of_all_tasks() -> set[int]:
    return _namespaces(filter(str.isdigit, os.listdir("/proc")))


def test_killing_the_process_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDP_LAB_STATE", str(tmp_path))
    child = subprocess.Popen(
        [sys.executable, "-c", _VICTIM], stdout=subprocess.PIPE, text=True, cwd=Path(lk.__file__).parents[1]
    )
    assert child.stdout is not None
    client, server, program = map(int, child.stdout.readline().split())
    assert {client, server} <= _namespaces_of_all_tasks()
    with numbers_kept(map(str, Path(f"/proc/{child.pid}/task").glob("*/ns/net"))):
        child.send_signal(signal.SIGKILL)
        child.wait()
        child.stdout.close()
        until(lambda: not {client, server} & _namespaces_of_all_tasks())
    until(lambda: program not in set(bpf.object_ids(BpfCmd.PROG_GET_NEXT_ID)))
    [record] = registry.stale()
    assert record.lab == "victim"
    copy = (tmp_path / f"victim.{child.pid}.json").read_text()
    lk.Lab(lk.Topology.pair(), name="next").close()  # the next lab sweeps the record away
    assert registry.labs() == []
    (tmp_path / f"victim.{child.pid}.json").write_text(copy)
    assert registry.clean() == [f"removed the record of the lab victim of process {child.pid}, which is gone"]
    assert registry.labs() == []


def test_clean_ends_what_sits_in_a_dead_lab_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDP_LAB_STATE", str(tmp_path))
    code = _VICTIM.split("lab.load")[0] + (
        "import subprocess\n"
        "shell = lab['client'].run(lambda: subprocess.Popen(['sleep', '60'], start_new_session=True))\n"
        "print(shell.pid, flush=True)\nimport time; time.sleep(60)\n"
    )
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    bystander = subprocess.Popen(["sleep", "60"])
    try:
        assert child.stdout is not None
        inside = int(child.stdout.readline())
        child.kill()
        child.wait()
        child.stdout.close()
        [record] = registry.stale()
        assert list(registry.inhabitants(record)) == [inside]
        done = registry.clean()
        assert any(f"ended process {inside}" in line for line in done)
        until(lambda: registry.process_start(inside) == 0)
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait()


def test_a_record_that_is_cut_short_counts_as_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDP_LAB_STATE", str(tmp_path))
    (tmp_path / "half.1.json").write_text('{"lab": "ha')
    (tmp_path / "list.2.json").write_text("[]")
    assert registry.labs() == []


def test_look_ups_that_fail_name_the_choices(lab: lk.Lab) -> None:
    with pytest.raises(lk.TopologyError, match=r"no host 'servr'[\s\S]*client, server"):
        lab["servr"]
    with pytest.raises(lk.TopologyError, match=r"no interface 'eth9'[\s\S]*eth0"):
        lab["server"]["eth9"]


def test_a_name_of_16_characters_is_refused() -> None:
    with pytest.raises(lk.TopologyError, match="1 to 15 letters"):
        lk.Lab(lk.Topology.pair(), name="sixteen-letters-")


def test_a_host_runs_functions_in_its_namespace_and_raises_their_errors(lab: lk.Lab) -> None:
    assert lab["client"].run(namespace_inode) == lab["client"].inode

    def fails() -> None:
        raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        lab["client"].run(fails)


def test_a_failure_half_way_takes_the_first_half_down(monkeypatch: pytest.MonkeyPatch) -> None:
    before = _namespaces(["self"])

    def refuse(self: object) -> None:
        raise OSError(5, "broken on purpose")

    monkeypatch.setattr("labkit.host.Host.configure", refuse)
    with pytest.raises(OSError, match="broken on purpose"):
        lk.Lab(lk.Topology.pair(), name="half")
    until(lambda: not (_namespaces(["self"]) - before))


def test_without_privilege_the_error_says_what_to_do() -> None:
    code = (
        "import labkit as lk\n"
        "try:\n    lk.Lab(lk.Topology.pair())\nexcept lk.PrivilegeError as error:\n    print(error)\n"
    )
    said = subprocess.run(
        ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "HOME": "/nonexistent"},
    )
    assert "in a sandbox (./env/lab" in said.stdout, said.stderr
    assert "EPERM" in said.stdout
