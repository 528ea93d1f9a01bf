"""What a driver knows is for root: in a sandbox lessons say so in a line, and the demo as every demo does."""

from __future__ import annotations

import json
import subprocess

from helpers import CHECKOUT, DEADLINE_S, ENVIRONMENT, LABKIT

LESSON = """
from labkit import lesson

print(lesson.if_hints("the table", lesson.hints_by_origin))
print(bool(lesson.if_hints("the table", lesson.hints_by_origin)))
"""


def inside(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(LABKIT), "sandbox", "--", *words], cwd=CHECKOUT, env=dict(ENVIRONMENT),
        capture_output=True, text=True, timeout=DEADLINE_S * 2, stdin=subprocess.DEVNULL, check=False,
    )  # fmt: skip


def test_a_lesson_says_what_is_not_shown_and_how_to_see_it() -> None:
    done = inside(str(CHECKOUT / ".venv" / "bin" / "python"), "-c", LESSON)
    assert done.returncode == 0, done.stderr
    line, truth = done.stdout.splitlines()
    assert line.startswith("In a sandbox no program can be bound to a device: the table can't be shown.")
    assert "./env/lab --root" in line
    assert truth == "False"


def test_the_demo_says_it_with_an_error() -> None:
    done = inside(str(LABKIT), "demo", "hints", "--packets", "101", "--json")
    assert done.returncode == 1
    error = json.loads(done.stdout)["error"]
    assert error["type"] == "FeatureError"
    assert error["kernel"].startswith("EINVAL")
    assert "./env/lab --root" in error["remedy"]
