"""Attaching: refusals that name the wrong thing, programs that stay, names that clash."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from patience import until
from pyroute2 import IPRoute

import labkit as lk
from labkit import registry
from labkit.cli import main
from labkit.compile.diagnose import verifier_error
from labkit.kernel import bpf
from labkit.kernel.netns import namespace_cookie_of
from labkit.program.program import load_program
from labkit.uapi import BpfCmd

N = 1_009  # prime
ROOT = Path(lk.__file__).resolve().parent.parent


def programs() -> set[int]:
    return set(bpf.object_ids(BpfCmd.PROG_GET_NEXT_ID))


def attaches(verdicts: lk.ProgramSpec, peer_mtu: int) -> bool:
    with lk.Lab(lk.Topology.pair(), name="case") as lab:
        lab["client"]["eth0"].set_mtu(peer_mtu)
        try:
            lab.load(verdicts, "drop").attach(lab["server"]["eth0"])
        except lk.AttachError:
            return False
        return True


def test_at_01_the_peers_mtu_is_what_counts(verdicts: lk.ProgramSpec) -> None:
    """AT-01, bpfman/bpfman#1675: "numerical result out of range" speaks of the other end of the pair."""
    with lk.Lab(lk.Topology.pair(mtu=9000), name="case") as lab:
        client, server = lab["client"]["eth0"], lab["server"]["eth0"]
        program = lab.load(verdicts, "drop")
        with pytest.raises(lk.AttachError, match=r"peer client eth0 has MTU 9000") as refused:
            program.attach(server)
        assert server.xdp() is None
        remedy = refused.value.remedy
        assert "generic" in remedy
        most = int(remedy.split("MTU to ")[1].split()[0])
        program.attach(server, mode="generic").close()
        client.set_mtu(most)
        program.attach(server)  # what the remedy names works, with 9000 at our own end
        with pytest.raises(lk.TopologyError, match="MTU"):
            client.set_mtu(9000)
    # The kernel's own limit is the size of a page less what surrounds a frame: the remedy is within 64 bytes of it.
    low, high = most, most + 64
    assert not attaches(verdicts, high)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if attaches(verdicts, middle) else (low, middle)
    assert most <= low < most + 64


@pytest.mark.parametrize("theirs", ["native", "generic"])
def test_at_03_somebody_elses_program_is_named_and_left(lab: lk.Lab, verdicts: lk.ProgramSpec, theirs: str) -> None:
    """AT-03, vishvananda/netlink#985: netlink replaces a program without a word, or says "File exists"."""
    server = lab["server"]["eth0"]
    foreign = load_program(verdicts, "pass", explain=verifier_error)
    flags = {"native": 4, "generic": 2}[theirs]  # XDP_FLAGS_DRV_MODE, XDP_FLAGS_SKB_MODE, include/uapi/linux/if_link.h

    def by_netlink(fd: int) -> None:
        with IPRoute() as ip:
            ip.link("set", index=server.ifindex, xdp={"attrs": [("IFLA_XDP_FD", fd), ("IFLA_XDP_FLAGS", flags)]})

    try:
        server.run(by_netlink, foreign.fd)
        for mode in ("native", "generic"):
            with pytest.raises(lk.AttachError, match=rf"has a program already: pass, id {foreign.id}, {theirs} mode"):
                lab.load(verdicts, "drop").attach(server, mode=mode)
            found = server.xdp()
            assert found is not None
            assert (found.program_id, found.mode) == (foreign.id, theirs)
        server.run(by_netlink, -1)
        lab.load(verdicts, "drop").attach(server)
    finally:
        foreign.close()


def test_at_03_our_own_program_gives_way(lab: lk.Lab, verdicts: lk.ProgramSpec) -> None:
    """AT-03: attaching again in another mode is no error, and exactly one program runs."""
    client, server = lab["client"]["eth0"], lab["server"]["eth0"]
    first = lab.load(verdicts, "aborted").attach(server, mode="native")
    second = lab.load(verdicts, "drop").attach(server, mode="generic")
    assert first.closed
    found = server.xdp()
    assert found is not None
    assert (found.program_id, found.mode) == (second.program.id, "generic")
    lk.send_frames(client, lk.udp(lab["client"], lab["server"]), N)
    assert lab.ledger().losses == {"XDP_DROP": N}


_CHILD = """\
import os, signal, sys
import labkit as lk
spec = lk.compile(text='#include "common/verdict.h"\\nint drop(struct xdp_md *ctx) { return verdict(ctx, XDP_DROP); }')
lab = lk.Lab(lk.Topology.pair(), name="case")
program = lab.load(spec)
link = program.attach(lab["server"]["eth0"])
lk.Generator(lab["client"]["eth0"], lk.udp(lab["client"], lab["server"])).start()
print(program.id, link.id, lab["server"].thread.cookie, flush=True)
sys.stdin.readline()
"""


@pytest.mark.parametrize(
    "end",
    ["sys.exit(3)", "raise RuntimeError('a cell failed')", "os.kill(os.getpid(), signal.SIGKILL)"],
    ids=["exit", "exception", "kill -9"],
)
def test_at_04_nothing_stays_however_a_process_ends(tmp_path: Path, end: str) -> None:
    """AT-04, libbpf#814: a program attached by netlink outlives its process. Here nothing does, in mid-traffic."""
    environment = os.environ | {"XDP_LAB_STATE": str(tmp_path)}
    child = subprocess.Popen(
        [sys.executable, "-c", _CHILD + end],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=environment,
        cwd=ROOT,
    )
    assert child.stdout is not None
    program, link, namespace = map(int, child.stdout.readline().split())
    assert program in programs()
    assert link in set(bpf.object_ids(BpfCmd.LINK_GET_NEXT_ID))
    child.communicate("go\n", timeout=10)
    until(lambda: program not in programs())
    assert link not in set(bpf.object_ids(BpfCmd.LINK_GET_NEXT_ID))
    assert namespace not in {cookie_of(int(process.name)) for process in Path("/proc").glob("[0-9]*")}
    left = [path.name for path in tmp_path.glob("*.json")]
    assert left == ([f"case.{child.pid}.json"] if "kill" in end else [])


def cookie_of(pid: int) -> int:
    """The cookie of a process's namespace, which no other ever had; 0 where the process is gone."""
    try:
        return namespace_cookie_of(pid)
    except OSError:
        return 0


def test_at_07_the_sending_end_sees_nothing(lab: lk.Lab, verdicts: lk.ProgramSpec) -> None:
    """AT-07, cilium/cilium#3077: XDP is for what arrives. A program at the sender drops none of what it sends."""
    client, server = lab["client"], lab["server"]
    program = lab.load(verdicts, "drop")
    program.attach(client["eth0"])
    with lk.UdpSink(server) as sink:
        lk.send_frames(client["eth0"], lk.udp(client, server), N)
        assert sink.wait(N) == N
        assert lab.ledger().losses == {}
    counts = program.verdicts()
    assert counts is not None
    assert sum(counts.values()) == 0, "no return traffic either: neighbours are fixed, IPv6 is off"


def test_at_08_no_privilege_is_called_by_its_name() -> None:
    """AT-08, xdp-project/xdp-tutorial#63: without privilege BCC says "Failed to compile", of C that is right."""
    code = (
        "import labkit as lk\n"
        "spec = lk.compile(text='#include \"common/verdict.h\"\\nint f(struct xdp_md *c) { return verdict(c, 1); }')\n"
        "print(sorted(spec.maps))\n"
        "try: lk.Lab(lk.Topology.pair())\n"
        "except lk.PrivilegeError as error: print(error)\n"
        "try: lk.doctor()\n"
        "except lk.LabError as error: print(error)\n"
    )
    nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    environment = os.environ | {"HOME": "/nonexistent", "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [*nobody, sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, env=environment, check=True
    )
    compiled, _, told = done.stdout.partition("\n")
    assert compiled == "['verdicts']", "compiling needs no privilege"
    assert "EPERM, Operation not permitted" in told
    assert "in a sandbox (./env/lab" in told
    assert "compile" not in told


def test_at_08_a_small_memlock_limit_is_no_obstacle(verdicts: lk.ProgramSpec) -> None:
    """AT-08, iovisor/bcc#3452: raising RLIMIT_MEMLOCK fails without CAP_SYS_RESOURCE, and nothing needs it raised."""
    text = '#include "common/verdict.h"\nLAB_ARRAY(large, u64, 1 << 20);\n' + (
        "int f(struct xdp_md *ctx) { u32 i = 0; u64 *v = large.lookup(&i); return verdict(ctx, v ? 1 : 2); }"
    )
    spec, before = lk.compile(text=text), resource.getrlimit(resource.RLIMIT_MEMLOCK)
    resource.setrlimit(resource.RLIMIT_MEMLOCK, (65536, before[1]))
    try:
        with lk.Lab(lk.Topology.pair(), name="case") as lab:
            large = lab.load(spec).maps["large"]
            assert large.spec.max_entries * large.spec.value_size == 8 << 20
    finally:
        resource.setrlimit(resource.RLIMIT_MEMLOCK, before)


def test_at_09_nothing_is_pinned_and_no_namespace_has_a_name(lab: lk.Lab, verdicts: lk.ProgramSpec) -> None:
    """AT-09, xdp-project/xdp-tools#364: "ip netns exec" hides the BPF filesystem. The lab needs neither."""
    lab.load(verdicts, "drop").attach(lab["server"]["eth0"])
    mounts = Path("/proc/self/mounts").read_text()
    named = Path("/run/netns")
    inodes = {path.stat().st_ino for path in named.iterdir()} if named.is_dir() else set()
    assert not inodes & {host.inode for host in lab.hosts.values()}
    assert not any(" nsfs " in line and "net:" in line.split()[0] for line in mounts.splitlines() if "lab" in line)
    assert not any(path.name == "verdicts" for path in Path("/sys/fs/bpf").glob("**/*"))


@pytest.mark.parametrize("name", ["a-name-too-long!", "a" * 16, "", "eth/0", "..", "é", "two words"])
def test_at_10_a_name_the_kernel_would_refuse(name: str) -> None:
    """AT-10, mininet/mininet#804: 16 characters are "Numerical result out of range" to netlink."""
    with pytest.raises(lk.TopologyError, match="can't be the name of a lab"):
        lk.Lab(lk.Topology.pair(), name=name)
    end = lk.End("b", "eth0", "10.0.1.2/24", "02:00:00:00:01:02")
    with pytest.raises(lk.TopologyError, match="can't be the name of an interface"):
        lk.Topology(("a", "b"), (lk.LinkSpec(lk.End("a", name, "10.0.1.1/24", "02:00:00:00:01:01"), end),))


def test_at_10_fifteen_characters_and_again_at_once() -> None:
    """AT-10: re-creating what was there a moment ago is no "File exists"."""
    end = lk.End("b", "eth0", "10.0.1.2/24", "02:00:00:00:01:02")
    topology = lk.Topology(("a", "b"), (lk.LinkSpec(lk.End("a", "e" * 15, "10.0.1.1/24", "02:00:00:00:01:01"), end),))
    for _ in range(5):
        lab = lk.Lab(topology, name="n" * 15)
        assert lk.ping(lab["a"], lab["b"], 2).received == 2
    lab.close()


def test_at_10_clean_ends_what_sits_in_a_dead_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """AT-10, mininet/mininet#1174: a process that lives on inside keeps a namespace and its interfaces alive."""
    monkeypatch.setenv("XDP_LAB_STATE", str(tmp_path))
    code = (
        "import subprocess, time\nimport labkit as lk\n"
        "lab = lk.Lab(lk.Topology.pair(), name='case')\n"
        "inside = lab['server'].run(lambda: subprocess.Popen(['sleep', '60'], stdout=subprocess.DEVNULL))\n"
        "print(inside.pid, lab['server'].thread.cookie, flush=True)\ntime.sleep(60)\n"
    )
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, cwd=ROOT)
    assert child.stdout is not None
    inside, namespace = map(int, child.stdout.readline().split())
    child.send_signal(signal.SIGKILL)
    child.wait()
    child.stdout.close()
    assert cookie_of(inside) == namespace, "it sits there still"
    assert main(["clean"]) == 0
    assert str(inside) in capsys.readouterr().out
    until(lambda: registry.process_start(inside) == 0)
    assert registry.labs() == []
    assert main(["clean"]) == 0, "clean again finds nothing"
