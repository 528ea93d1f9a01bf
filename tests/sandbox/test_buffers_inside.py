"""Page pools are counted in a sandbox, too; where tracing is withheld a line says so."""

from __future__ import annotations

import json
import subprocess

from helpers import CHECKOUT, DEADLINE_S, ENVIRONMENT, LABKIT


def demo(*options: str) -> subprocess.CompletedProcess[str]:
    command = [str(LABKIT), "sandbox", *options, "--", str(LABKIT), "demo", "buffers", "--packets", "1009", "--json"]
    return subprocess.run(
        command, cwd=CHECKOUT, env=dict(ENVIRONMENT),
        capture_output=True, text=True, timeout=DEADLINE_S * 2, stdin=subprocess.DEVNULL, check=False,
    )  # fmt: skip


def test_every_page_is_counted_in_a_sandbox() -> None:
    done = demo()
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["delivered"] == found["pages_parked"] == found["datagrams_waiting"] == 1009
    assert found["pages_held"] == found["pages_released"] > 1009
    assert found["pages_in_flight"] == 0


def test_without_tracing_the_demo_says_what_is_missing() -> None:
    done = demo("--without-tracing")
    assert done.returncode == 1
    error = json.loads(done.stdout)["error"]
    assert (error["type"], error["remedy"]) == ("FeatureError", "start the sandbox without --without-tracing")
