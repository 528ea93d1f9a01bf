"""The lab's folder as it is lent to a sandbox that runs as nobody: what its student may do to files of root's."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from helpers import ENVIRONMENT, NOBODY, PYTHON, run_inside

from labkit.sandbox.ground import CHECKOUT, Ground, default_ground

ANOTHER = 54323
# Copies `id` into each folder: set-user-ID, and with the capability to set it; opens the way there for everybody.
TRAPS = """\
import contextlib, os, shutil, struct, sys
for folder in sys.argv[1:]:
    with contextlib.suppress(OSError):
        shutil.copy("/usr/bin/id", f"{folder}/id")
        os.chmod(f"{folder}/id", 0o6755)
    with contextlib.suppress(OSError):
        shutil.copy(os.path.realpath(sys.executable), f"{folder}/capable")
        os.setxattr(f"{folder}/capable", "security.capability", struct.pack("<IIIII", 0x02000001, 1 << 7, 0, 0, 0))
    while folder != "/":
        with contextlib.suppress(OSError):
            os.chmod(folder, 0o777)
        folder = os.path.dirname(folder)
"""


@pytest.fixture
def ground(open_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Ground:
    """As `labkit sandbox` of root's lends it, with the notebooks and the lab's home where everybody may look."""
    notebooks = open_folder / "notebooks"
    notebooks.mkdir()
    (notebooks / "mine.txt").write_text("as it was")
    monkeypatch.setenv("XDP_LAB_NOTEBOOKS", str(notebooks))
    monkeypatch.setenv("XDP_LAB_HOME", str(open_folder / "home"))
    return default_ground(NOBODY, NOBODY)


def as_another(words: list[str]) -> str:
    """What a command prints that a user of the machine runs, who is neither root nor nobody; "" where it may not."""
    try:
        ended = subprocess.run(
            words, capture_output=True, text=True, user=ANOTHER, group=ANOTHER, extra_groups=[], env=ENVIRONMENT
        )
    except OSError:
        return ""
    return ended.stdout.strip()


def test_another_user_of_the_machine_does_not_become_root(ground: Ground, open_folder: Path) -> None:
    """On disk the files are root's: a set-user-ID program among them would make root of whoever can run it outside."""
    folders = [str(folder) for folder in (*ground.writable, ground.home)]
    ended = run_inside([PYTHON, "-c", TRAPS, *folders], ground=ground)
    assert ended.status == 0, ended
    become_root = "import os; os.setuid(0); print(os.getuid())"
    for folder in {open_folder / "notebooks", *map(Path, folders)}:
        assert as_another([str(folder / "id"), "-u"]) in ("", str(ANOTHER), str(NOBODY))
        assert as_another([str(folder / "id"), "-g"]) in ("", str(ANOTHER), str(NOBODY))
        assert as_another([str(folder / "capable"), "-c", become_root]) == ""


def test_home_is_writable_and_the_rest_read_only(ground: Ground) -> None:
    words = f"echo changed >{ground.home}/mine.txt && cat {ground.home}/mine.txt; touch {CHECKOUT}/new-from-a-sandbox"
    ended = run_inside(["/bin/sh", "-c", words], ground=ground)
    assert ended.out == "changed\n"
    assert "Read-only file system" in ended.err
    assert not (CHECKOUT / "new-from-a-sandbox").exists()


def test_what_is_mounted_over_root_s_folders_is_gone_for_everybody_else(ground: Ground) -> None:
    """The ground is laid in a mount namespace of the launcher's: the machine's mounts are as before."""
    before = Path("/proc/self/mountinfo").read_text()
    ended = run_inside(["/bin/cat", "/proc/self/mountinfo"], ground=ground)
    assert f" {CHECKOUT} " in ended.out
    inside = [line for line in before.splitlines() if str(ground.home) in line]
    assert inside == [line for line in Path("/proc/self/mountinfo").read_text().splitlines() if str(ground.home) in line]
