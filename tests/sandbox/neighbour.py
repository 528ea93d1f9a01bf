"""Runs inside a sandbox beside another: makes one of everything, waits for a line, and prints what it can see.

neighbour.py NAME
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import bpfcalls as b

IPC_CREAT, IPC_KEY = 0o1000, 0x58445021


def make(name: str) -> list[object]:
    """One of everything; what must stay open is returned."""
    subprocess.run(["ip", "link", "add", name, "type", "veth", "peer", "name", f"{name}p"], check=True)
    Path(f"/run/{name}").write_text(name)
    Path(f"/dev/shm/{name}").write_text(name)
    b.checked(b.libc.shmget(IPC_KEY, 4096 + len(name), IPC_CREAT | 0o666))
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(f"\0{name}")
    socket.sethostname(name)
    os.mkdir(f"/sys/fs/bpf/{name}")
    return [listening, b.create_map(by_gate=True), b.load(b.XDP, by_gate=True)]


def look() -> dict[str, object]:
    """What there is to be seen."""
    abstract = [line.split()[-1] for line in Path("/proc/net/unix").read_text().splitlines() if "@" in line]
    return {
        "interfaces": sorted(name for _, name in socket.if_nameindex()),
        "run": sorted(os.listdir("/run")),
        "shm": sorted(os.listdir("/dev/shm")),
        "segments": len(Path("/proc/sysvipc/shm").read_text().splitlines()) - 1,
        "abstract": sorted(abstract),
        # Some kernels put iterators there that only the machine's root may read.
        "bpffs": sorted(name for name in os.listdir("/sys/fs/bpf") if not name.endswith(".debug")),
        "hostname": socket.gethostname(),
        "processes": sorted(int(name) for name in os.listdir("/proc") if name.isdigit()),
        "me": os.getpid(),
        "ids": {name: _first(command) for name, command in (("program", 11), ("map", 12))},
    }


def _first(command: int) -> str:
    try:
        return str(b.bpf(command, bytes(4)))
    except OSError as error:
        return str(error.strerror)


kept = make(sys.argv[1])
print("made", flush=True)
sys.stdin.readline()
print(json.dumps(look()), flush=True)
sys.stdin.readline()
