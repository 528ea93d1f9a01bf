"""The machine that the hostile script attacks: what it is told of it, and what must be the same afterwards."""

from __future__ import annotations

import contextlib
import ctypes
import os
import pty
import socket
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import bpfcalls
from helpers import NOBODY, PYTHON, eventually, mount, process, stat_words

from labkit.sandbox.ground import Ground

OTHER_UID = 54323
SECRET = "a-secret-of-roots"
SESSION_KEYRING, JOIN_SESSION_KEYRING, UNLINK = -3, 1, 9
_KEYCTL = 250 if os.uname().machine == "x86_64" else 219
_ADD_KEY = 248 if os.uname().machine == "x86_64" else 217


@dataclass
class Machine:
    """``facts`` for the attacker; ``ground`` of its sandbox; ``terminal``, where the sandbox was started from."""

    facts: dict[str, object]
    ground: Ground
    terminal: int
    folder: Path


@contextlib.contextmanager
def machine(folder: Path, scripts: Path) -> Iterator[Machine]:
    """Victims of every kind, in ``folder``, which everybody may write to. For a thread with mounts of its own."""
    with contextlib.ExitStack() as stack:
        facts = {"secret": SECRET, "other_uid": OTHER_UID, "folder": str(folder), "ground": str(folder / "checkout")}
        facts |= _victims(stack, folder, scripts) | _objects(stack) | _files(folder) | _interface()
        abstract = stack.enter_context(socket.socket(socket.AF_UNIX))
        abstract.bind(f"\0xdp-lab-test-{os.getpid()}")
        abstract.listen()
        facts["abstract"] = f"xdp-lab-test-{os.getpid()}"
        inherited = os.open(folder / "inherited", os.O_RDWR | os.O_CREAT)
        stack.callback(os.close, inherited)
        os.set_inheritable(inherited, True)
        facts["inherited_inode"] = os.fstat(inherited).st_ino
        ours, theirs = pty.openpty()
        stack.callback(os.close, ours)
        stack.callback(os.close, theirs)
        owner = stack.enter_context(process(["setsid", "--ctty", "sleep", "600"], stdin=theirs))  # whose terminal it is
        eventually(lambda: stat_words(owner.pid)[4] != "0", "a controlling terminal")
        yield Machine(facts, _ground(folder), theirs, folder)


def _victims(stack: contextlib.ExitStack, folder: Path, scripts: Path) -> dict[str, object]:
    secret = {"SECRET": SECRET}
    root = stack.enter_context(process(["sleep", "600"], env=secret))
    other = stack.enter_context(process(["sleep", "600"], env=secret, user=OTHER_UID, group=OTHER_UID, extra_groups=[]))
    paths = {"giver": str(folder / "giver"), "taker": str(folder / "taker")}
    words = [PYTHON, str(scripts / "outside.py"), *paths.values()]
    pipe = subprocess.PIPE
    same = stack.enter_context(process(words, stdin=pipe, stdout=pipe, user=NOBODY, group=NOBODY, extra_groups=[]))
    assert same.stdout is not None
    assert same.stdout.readline() == b"ready\n"
    return {"root_pid": root.pid, "other_pid": other.pid, "same_pid": same.pid, **paths}


def _objects(stack: contextlib.ExitStack) -> dict[str, object]:
    """A program and a map of root's, the map pinned, and a key."""
    mount("bpf", "/sys/fs/bpf", "mode=1777")
    made = bpfcalls.create_map(), bpfcalls.load(bpfcalls.XDP)
    for descriptor in made:
        stack.callback(os.close, descriptor)
    map_id, program_id = (
        _number(descriptor, word) for descriptor, word in zip(made, ("map_id", "prog_id"), strict=True)
    )
    path = ctypes.create_string_buffer(b"/sys/fs/bpf/pinned")
    bpfcalls.bpf(6, ctypes.addressof(path).to_bytes(8, "little") + made[0].to_bytes(4, "little"))
    bpfcalls.syscall(_KEYCTL, JOIN_SESSION_KEYRING, None)  # this thread's, and of those that it starts
    key = bpfcalls.syscall(_ADD_KEY, b"user", b"xdp-lab-test", b"secret", 6, SESSION_KEYRING)
    stack.callback(bpfcalls.syscall, _KEYCTL, UNLINK, key, SESSION_KEYRING, 0, 0)
    return {"map_id": map_id, "program_id": program_id, "pinned": "/sys/fs/bpf/pinned", "key": key}


def _number(descriptor: int, word: str) -> int:
    lines = Path(f"/proc/self/fdinfo/{descriptor}").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{word}:"))


def _files(folder: Path) -> dict[str, object]:
    """Files of root's and of somebody else's, a setuid program, a socket beneath /run, the disk."""
    mount("tmpfs", "/run", "mode=755")
    (folder / "of-another").write_text("private")
    (folder / "of-another").chmod(0o600)
    os.chown(folder / "of-another", OTHER_UID, OTHER_UID)
    setuid = folder / "id"
    setuid.write_bytes(Path("/usr/bin/id").read_bytes())
    setuid.chmod(0o4755)
    Path("/run/secret").write_text("private")
    Path("/run/secret").chmod(0o600)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("/run/root.sock")
    os.chmod("/run/root.sock", 0o600)
    disk = os.stat("/").st_dev
    return {
        "other_file": str(folder / "of-another"),
        "setuid": str(setuid),
        "run_file": "/run/secret",
        "run_socket": "/run/root.sock",
        "disk": [os.major(disk), os.minor(disk)],
        "disk_path": str(_block_device(disk)),
    }


def _block_device(number: int) -> Path:
    found = [path for path in Path("/dev").iterdir() if path.is_block_device() and path.stat().st_rdev == number]
    return found[0] if found else Path("/dev/loop0")


def _interface() -> dict[str, object]:
    """One that a sandbox has none like: its number isn't that of the loopback."""
    number, name = max(socket.if_nameindex())
    return {"ifindex": number, "interface": name}


def _ground(folder: Path) -> Ground:
    """A checkout of root's, in small: shown read-only, with its notebooks writable."""
    shown = folder / "checkout"
    for name in ("env", "labkit", ".venv", "notebooks"):
        (shown / name).mkdir(parents=True)
    (shown / "env" / "sandbox").write_text("launcher")
    (shown / "notebooks" / "mine.txt").write_text("")
    return Ground(NOBODY, NOBODY, (shown,), (shown / "notebooks",), shown / "notebooks")
