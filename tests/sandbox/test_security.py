"""A hostile student: what it tries from inside a sandbox is refused, and the machine is as it was."""

from __future__ import annotations

import json
import os
import socket
import struct
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from helpers import NOBODY, PYTHON, in_private_mounts, run_inside
from hostile import ATTEMPTS, CONTROLLED
from hostile_files import SETTINGS
from machine import OTHER_UID, Machine, machine

# Refusals in words, where no errno could come; everything else must be one of these.
ERRNOS = {
    "EPERM", "EACCES", "ENODEV", "ENOENT", "EINVAL", "ESRCH", "EROFS", "ECONNREFUSED", "ENOSYS", "ENOKEY", "EBUSY",
    "ENXIO", "EOPNOTSUPP", "ENOTSUP", "EBADF",
}  # fmt: skip


def state(folder: Path, interface: str, pids: list[int]) -> dict[str, object]:
    """What of the machine an attempt could have changed."""
    settings = {
        name: path.read_text() for name in SETTINGS if (path := Path("/proc/sys") / name).exists() and _readable(path)
    }
    shadow = Path("/etc/shadow").stat()
    return {
        "interface": subprocess.check_output(["ip", "-o", "link", "show", "dev", interface], text=True),
        "settings": settings,
        "hostname": socket.gethostname(),
        "shadow": (shadow.st_mtime_ns, shadow.st_mode, shadow.st_size),
        "victims": [_traced_by(pid) for pid in pids],
        "other's file": (os.stat(folder / "of-another").st_mode, (folder / "of-another").read_text()),
        "mounts": Path("/proc/thread-self/mountinfo").read_text(),
        "checkout": sorted(str(path) for path in (folder / "checkout").rglob("*")),
        "launcher": (folder / "checkout" / "env" / "sandbox").read_text(),
    }


def _readable(path: Path) -> bool:
    return bool(path.stat().st_mode & 0o444)


def _traced_by(pid: int) -> str:
    """Who traces a process; fails where it has ended."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(line for line in lines if line.startswith("TracerPid:"))


@dataclass
class Attacked:
    """The attempts' outcomes inside, and outside as root; the machine before and after; files left in the folder."""

    inside: dict[str, str]
    outside: dict[str, str]
    before: dict[str, object]
    after: dict[str, object]
    given_to: int
    capability: bytes


@pytest.fixture(scope="module")
def attacked(scripts: Path) -> Iterator[Attacked]:
    """One sandbox in which everything is tried, and the same outside by root where that does no harm."""
    with tempfile.TemporaryDirectory(prefix="xdp-lab-test-", dir="/tmp") as name:
        folder = Path(name)
        folder.chmod(0o777)

        def work() -> Attacked:
            with machine(folder, scripts) as target:
                return _attack(target, scripts)

        yield in_private_mounts(work)


def _attack(target: Machine, scripts: Path) -> Attacked:
    words = [PYTHON, str(scripts / "hostile.py"), json.dumps(target.facts)]
    pids = [int(str(target.facts[key])) for key in ("root_pid", "other_pid", "same_pid")]
    os.environ["SECRET_OF_ROOT"] = str(target.facts["secret"])
    before = state(target.folder, str(target.facts["interface"]), pids)
    ended = run_inside(words, ground=target.ground, errors=target.terminal)
    del os.environ["SECRET_OF_ROOT"]
    after = state(target.folder, str(target.facts["interface"]), pids)
    outside = subprocess.run([*words, *CONTROLLED], capture_output=True, text=True, check=True)
    assert ended.status == 0, ended
    return Attacked(
        json.loads(ended.out),
        json.loads(outside.stdout),
        before,
        after,
        (target.folder / "given").stat().st_uid,
        os.getxattr(target.folder / "capable", "security.capability"),
    )


@pytest.mark.parametrize("name", ATTEMPTS)
def test_the_attempt_is_refused(attacked: Attacked, name: str) -> None:
    found = attacked.inside[name]
    assert found.startswith("refused: "), found
    words = found.removeprefix("refused: ")
    assert words in ERRNOS or not words.isupper(), found


@pytest.mark.parametrize("name", CONTROLLED)
def test_root_outside_can_what_the_student_cannot(attacked: Attacked, name: str) -> None:
    """Else an attempt might be refused for a fault of its own."""
    assert attacked.outside[name].startswith("SUCCEEDED"), attacked.outside[name]


def test_the_machine_is_as_it_was(attacked: Attacked) -> None:
    for what, before in attacked.before.items():
        assert attacked.after[what] == before, what


def test_files_stay_the_students(attacked: Attacked) -> None:
    assert attacked.given_to == NOBODY
    assert attacked.given_to != OTHER_UID


def test_a_capability_on_a_file_holds_in_the_sandbox_only(attacked: Attacked) -> None:
    """Version 3 names the user that is root of the namespace: the student."""
    revision, *_, root = struct.unpack("<IIIIII", attacked.capability)
    assert (revision >> 24, root) == (3, NOBODY)
