"""./env/test itself, on small suites: sums over its processes, what it shows, and that nothing outlives it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from patience import PATIENCE_S, until

ROOT = Path(__file__).parents[2]
CHECKS = ("shellcheck", "ruff", "mypy", "lint-imports")
GOOD = "def test_good():\n    pass\n"
BAD = "def test_bad():\n    assert 'apple' == 'pear'\n"
SKIPPED = "import pytest\n\n\ndef test_skipped():\n    pytest.skip('no')\n"
BROKEN = "import os\n\n\ndef test_broken():\n    os._exit(0)\n"
ENDLESS = """
import os, pathlib, time

def test_endless(tmp_path):
    here = pathlib.Path(__file__).parents[2]
    try:
        (here / f"{os.getpid()}.began").touch()
        time.sleep(600)
    finally:
        (here / f"{os.getpid()}.tidied").touch()
"""

Checkout = Callable[..., Path]


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    """Makes a checkout that is set up, has the given suites, and whose checks are content."""

    def make(**suites: str) -> Path:
        root = tmp_path / "checkout"
        tools = root / ".venv" / "bin"
        tools.mkdir(parents=True)
        (root / "env").symlink_to(ROOT / "env")
        (root / ".venv" / "lib").symlink_to(Path(sys.prefix) / "lib")
        for name in CHECKS:
            (tools / name).symlink_to("/bin/true")
        (tools / "python").symlink_to(sys.executable)
        (tools / "pytest").write_text(
            f'#!/bin/sh\nPYTEST_DISABLE_PLUGIN_AUTOLOAD=1 exec "{sys.executable}" -m pytest "$@"\n'
        )
        (tools / "pytest").chmod(0o755)
        (root / "pytest.ini").write_text("[pytest]\n")
        for name, text in suites.items():
            (root / "tests" / name).mkdir(parents=True)
            (root / "tests" / name / f"test_{name}_suite.py").write_text(text)
        command = '. "$0/env/setup.sh"; root=$0 venv=$0/.venv; echo "$(venv_key) test" >"$0/.venv/stamp"'
        subprocess.run(["bash", "-c", command, root], check=True)
        return root

    return make


def run(root: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([root / "env" / "test"], capture_output=True, text=True, stdin=subprocess.DEVNULL)


def left_of(root: Path) -> list[str]:
    """Processes that still work in this checkout, and files that a run left in the temporary folder."""
    found = [str(path) for path in root.glob("tmp/*")]
    for path in Path("/proc").glob("[0-9]*/cwd"):
        try:
            if os.readlink(path) == str(root):
                found.append(str(path))
        except OSError:
            continue
    return found


def test_every_test_file_is_in_one_lane() -> None:
    [lanes] = re.findall(r"^lanes=\((.*?)^\)", (ROOT / "env" / "test").read_text(), re.MULTILINE | re.DOTALL)
    found = [path for pattern in re.findall(r"tests/[^\s\"]+", lanes) for path in ROOT.glob(pattern)]
    files = [file for path in found for file in ([path] if path.is_file() else path.rglob("test_*.py"))]
    assert sorted(files) == sorted((ROOT / "tests").rglob("test_*.py"))


def test_sums_over_all_processes(checkout: Checkout) -> None:
    done = run(checkout(unit=GOOD, kernel=SKIPPED, notebooks=GOOD, bench=GOOD))
    assert done.returncode == 0, done.stdout
    assert "All good" in done.stdout
    assert done.stdout.splitlines()[-1] == "3 passed, 0 failed, 1 skipped"


def test_a_failure_is_shown_with_its_reason_whichever_process_it_is_in(checkout: Checkout) -> None:
    done = run(checkout(unit=BAD, browser=BAD + GOOD, bench=BAD))
    assert done.returncode == 1
    for suite in ("unit", "browser", "bench"):
        assert f"FAILED tests/{suite}/test_{suite}_suite.py::test_bad" in done.stdout
    assert done.stdout.count("E       AssertionError: assert 'apple' == 'pear'") == 3
    assert done.stdout.splitlines()[-1] == "1 passed, 3 failed, 0 skipped"


@pytest.mark.parametrize("suites", [{"unit": GOOD, "notebooks": BROKEN}, {"unit": BROKEN}])
def test_a_process_that_broke_down_is_a_failure(suites: dict[str, str], checkout: Checkout) -> None:
    done = run(checkout(**suites))
    assert done.returncode == 1
    assert "Failed, in" in done.stdout
    assert done.stdout.splitlines()[-1] == f"{len(suites) - 1} passed, 1 failed, 0 skipped"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_it_has_both_tidy_up_and_leaves_nothing(number: signal.Signals, checkout: Checkout) -> None:
    root = checkout(unit=ENDLESS, notebooks=ENDLESS, bench=GOOD)
    (root / "tmp").mkdir()
    environment = {**os.environ, "TMPDIR": str(root / "tmp")}
    command = ["env", "--default-signal=INT", root / "env" / "test"]  # who runs us in the background ignores Ctrl-C
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as running:
        until(lambda: len(list(root.glob("*.began"))) == 2, "both to begin")
        running.send_signal(number)
        out, _ = running.communicate(timeout=PATIENCE_S)
    assert running.returncode == 130
    assert len(list(root.glob("*.tidied"))) == 2
    assert "passed" not in out.splitlines()[-1:]
    until(lambda: not left_of(root), "all of it to end")
