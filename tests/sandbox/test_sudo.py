"""`labkit sandbox` of an ordinary user, by sudo: its rules are the test's own, in a mount namespace of its own."""

from __future__ import annotations

import contextlib
import os
import pty
import pwd
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from helpers import ENVIRONMENT, LABKIT, LAUNCHER, descendants, in_private_mounts, mount, user_ids
from patience import until
from test_terminal import Screen

USER = "games"
COMMAND = "cat /proc/self/uid_map; stty size; echo re''ady; read -r line; echo \"got $line\"; exit 4"


def _may_enter(path: Path) -> bool:
    return all(folder.stat().st_mode & 0o001 for folder in path.resolve().parents)


pytestmark = [
    pytest.mark.skipif(shutil.which("sudo") is None, reason="needs sudo: apt-get install sudo"),
    pytest.mark.skipif(not _may_enter(LABKIT), reason="needs a checkout that other users may enter"),
]


@pytest.fixture(params=["allowed", "not allowed"])
def screen(request: pytest.FixtureRequest) -> Iterator[Screen]:
    """`labkit sandbox` of the user's at a terminal, where sudo lets them start the launcher without a password or not."""
    who = pwd.getpwnam(USER)
    rule = f'{USER} ALL=(root) NOPASSWD: {LAUNCHER} ""\n' if request.param == "allowed" else ""

    def begin() -> tuple[int, int]:
        mount("tmpfs", "/etc/sudoers.d", "mode=755")
        rules = Path("/etc/sudoers.d/test")
        rules.write_text(rule)
        rules.chmod(0o440)
        pid, keys = pty.fork()
        if pid == 0:
            os.setgroups([])
            os.setresgid(who.pw_gid, who.pw_gid, who.pw_gid)
            os.setresuid(who.pw_uid, who.pw_uid, who.pw_uid)
            os.chdir("/")
            os.execve(
                LABKIT, [str(LABKIT), "sandbox", "--", "/bin/bash", "-c", COMMAND], {**ENVIRONMENT, "TERM": "dumb"}
            )
        return pid, keys

    found = Screen(*in_private_mounts(begin))
    found.resize(29, 91)
    found.allowed = request.param == "allowed"
    yield found
    os.close(found.keys)
    with contextlib.suppress(ChildProcessError):
        os.waitpid(found.pid, 0)


def names_of(pids: list[int]) -> list[str]:
    """What they are called; one that has just ended has no name."""
    found = []
    for pid in pids:
        with contextlib.suppress(OSError):
            found.append(Path(f"/proc/{pid}/comm").read_text().strip())
    return found


def test_by_sudo(screen: Screen) -> None:
    """Sudo is gone once the sandbox runs, the terminal works, and all that is left is the user's."""
    who = pwd.getpwnam(USER)
    if not screen.allowed:
        screen.wait_for("XDP Lab needs root for a moment.*\r\nPassword of games: ")
        screen.type_until_it_ends("\x03")  # sudo throws away what was typed before it asked
        assert screen.status() != 0
        return
    assert screen.wait_for(r" +0 +(\d+) +1\r\n").group(1) == str(who.pw_uid)
    screen.wait_for(r"29 91\r\nready")
    until(lambda: "sudo" not in names_of(descendants(screen.pid)), "sudo's end")
    below = descendants(screen.pid)
    for pid in (screen.pid, *below):
        assert user_ids(pid) <= {who.pw_uid, who.pw_gid}
    screen.type("a line\n")
    screen.wait_for("got a line")
    assert screen.status() == 4
