"""BCC's own loader in a sandbox: maps, a program, its counts, unchanged, by the library that lends it the token."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

LABKIT = Path(sys.prefix) / "bin" / "labkit"
LIBRARY = Path(sys.prefix) / "lib" / "xdp-lab-gate.so"
PACKETS = 10_007
SCRIPT = f"""
import json, os, subprocess
from labkit.compile import headers
os.environ["BCC_KERNEL_SOURCE"] = str(headers.tree())
from bcc import BPF
import labkit as lk

bpf = BPF(text='''
BPF_PERCPU_ARRAY(seen, u64, 1);
int count(struct xdp_md *ctx) {{
    int zero = 0;
    u64 *packets = seen.lookup(&zero);
    if (packets)
        *packets += 1;
    return XDP_DROP;
}}
''')
function = bpf.load_func("count", BPF.XDP)
with lk.Lab(lk.Topology.pair(), name="bcc") as lab:
    client, server = lab["client"], lab["server"]
    server.run(bpf.attach_xdp, "eth0", function, BPF.XDP_FLAGS_DRV_MODE)
    report = lk.generate(client["eth0"], lk.udp(client, server), packets={PACKETS})
    ledger = lab.ledger()
    server.run(bpf.remove_xdp, "eth0", BPF.XDP_FLAGS_DRV_MODE)
    print(json.dumps([report.sent, bpf["seen"].sum(0).value, ledger.sent]))
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    folder.mkdir()
    (folder / "script.py").write_text(SCRIPT)
    return folder


def run(home: Path, **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [LABKIT, "sandbox", "--", sys.executable, str(home / "script.py")],
        env={**os.environ, "XDP_LAB_HOME": str(home), **more},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
    )


@pytest.mark.skipif(not LIBRARY.exists(), reason="no C compiler at set-up: apt-get install gcc libc6-dev")
def test_bcc_counts_in_a_sandbox(home: Path) -> None:
    done = run(home)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == [PACKETS, PACKETS, PACKETS]


def test_without_the_library_the_kernel_refuses(home: Path) -> None:
    """What the library is for: BCC asks without a token, and gets EPERM."""
    # The loader reads LD_PRELOAD when a process starts: the script starts itself again without it.
    again = (
        "import os, sys\nif os.environ.pop('LD_PRELOAD', ''): os.execv(sys.executable, [sys.executable, *sys.argv])\n"
    )
    (home / "script.py").write_text(again + SCRIPT)
    done = run(home)
    assert done.returncode != 0
    assert "Operation not permitted" in done.stderr
