"""The lab's folder as it is lent to a sandbox that runs as nobody: what its student may do to files of root's."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from helpers import DEADLINE_S, ENVIRONMENT, LABKIT, NOBODY, PYTHON, run_inside

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
    """As `labkit sandbox` of root's lends it, with the lab's folder and home where everybody may look."""
    checkout = open_folder / "checkout"
    (checkout / "notebooks").mkdir(parents=True)
    monkeypatch.setattr("labkit.sandbox.ground.CHECKOUT", checkout)
    monkeypatch.setenv("XDP_LAB_HOME", str(open_folder / "home"))
    return default_ground(NOBODY, NOBODY)


@pytest.fixture
def shut_ground(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ground:
    """The same behind a folder of root's alone, as pytest's own is, and /root."""
    checkout = tmp_path / "deep" / "checkout"
    (checkout / "notebooks").mkdir(parents=True)
    (checkout / "secret").mkdir()
    monkeypatch.setattr("labkit.sandbox.ground.CHECKOUT", checkout)
    monkeypatch.setenv("XDP_LAB_HOME", str(tmp_path / "home"))
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
    folders = [str(folder) for folder in (*ground.shown, *ground.lent, ground.home)]
    ended = run_inside([PYTHON, "-c", TRAPS, *folders], ground=ground)
    assert ended.status == 0, ended
    become_root = "import os; os.setuid(0); print(os.getuid())"
    for folder in {open_folder / "checkout" / "notebooks", *map(Path, folders)}:
        assert as_another([str(folder / "id"), "-u"]) in ("", str(ANOTHER), str(NOBODY))
        assert as_another([str(folder / "id"), "-g"]) in ("", str(ANOTHER), str(NOBODY))
        assert as_another([str(folder / "capable"), "-c", become_root]) == ""


def written(ground: Ground, folder: Path) -> str:
    """What the shell of a sandbox says of writing there; "" where it went well."""
    return run_inside(["/bin/sh", "-c", f"touch {folder}/new-from-a-sandbox"], ground=ground).err


def test_where_everybody_may_look_only_the_home_is_writable(ground: Ground, open_folder: Path) -> None:
    assert ground.lent == ()
    assert written(ground, ground.home) == ""
    assert (ground.home / "new-from-a-sandbox").stat().st_uid == NOBODY
    for folder in (open_folder / "checkout", open_folder / "checkout" / "notebooks"):
        assert "Read-only file system" in written(ground, folder)
        assert not (folder / "new-from-a-sandbox").exists()


def test_behind_a_shut_folder_the_notebooks_are_writable_too_and_stay_with_their_owner(shut_ground: Ground) -> None:
    [checkout], [notebooks] = shut_ground.shown, shut_ground.lent
    assert written(shut_ground, notebooks) == written(shut_ground, shut_ground.home) == ""
    assert (notebooks / "new-from-a-sandbox").stat().st_uid == 0
    assert "Read-only file system" in written(shut_ground, checkout / "secret")
    # What else is in the shut folder isn't shown.
    beside = checkout.parent.parent / "beside"
    beside.mkdir(mode=0o755)
    assert "No such file" in written(shut_ground, beside)


def test_a_file_system_without_id_maps_is_shown_as_it_is(tmp_path: Path) -> None:
    """As in a container, on overlayfs: the lab runs, and its folder can be read."""
    above = tmp_path / "above"
    above.mkdir()
    mount = (
        f"mount -t tmpfs tmpfs {above} && mkdir {above}/upper {above}/work && "
        f"mount -t overlay -o lowerdir={CHECKOUT},upperdir={above}/upper,workdir={above}/work overlay {CHECKOUT} && "
        f'cd {CHECKOUT} && exec "$@"'
    )
    words = ["sh", "-c", "head -c 10 README.md && touch ~/mine && ls ~ && touch labkit/new"]
    done = subprocess.run(
        ["unshare", "--mount", "--propagation", "private", "sh", "-c", mount, "sh", LABKIT, "sandbox", "--", *words],
        env={**os.environ, "XDP_LAB_HOME": f"{above}/home"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S * 6,
    )
    assert done.stdout == "# XDP Lab\nmine\n"
    assert "Read-only file system" in done.stderr


def test_what_is_mounted_over_root_s_folders_is_gone_for_everybody_else(ground: Ground) -> None:
    """The ground is laid in a mount namespace of the launcher's: the machine's mounts are as before."""
    before = Path("/proc/self/mountinfo").read_text()
    ended = run_inside(["/bin/cat", "/proc/self/mountinfo"], ground=ground)
    assert f" {ground.shown[0]} " in ended.out
    inside = [line for line in before.splitlines() if str(ground.home) in line]
    assert inside == [
        line for line in Path("/proc/self/mountinfo").read_text().splitlines() if str(ground.home) in line
    ]
