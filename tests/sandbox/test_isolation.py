"""Sandboxes beside each other see nothing of one another, and count nothing of one another's."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from helpers import ENVIRONMENT, PYTHON, inhabitants, user_ids
from talking import Talk, talk

from labkit.sandbox.ground import CHECKOUT, Ground

NAMES = ("left", "right")
USERS = {"one user": ("54321", "54321"), "two users": ("54321", "54322")}
PRIMES = (1009, 2003)


@pytest.fixture(params=USERS)
def users(request: pytest.FixtureRequest) -> tuple[str, str]:
    return USERS[request.param]


@pytest.fixture
def neighbours(users: tuple[str, str], scripts: Path) -> Iterator[tuple[Talk, Talk]]:
    """Two sandboxes at once, each with one of everything."""
    with contextlib.ExitStack() as stack:
        script = str(scripts / "neighbour.py")
        left, right = (
            stack.enter_context(talk([PYTHON, script, name], user=user))
            for name, user in zip(NAMES, users, strict=True)
        )
        assert (left.hear(), right.hear()) == ("made", "made")
        yield left, right


def test_each_sees_its_own_alone(neighbours: tuple[Talk, Talk]) -> None:
    for one in neighbours:
        one.say("look")
    left, right = (json.loads(one.hear()) for one in neighbours)
    for name, seen in zip(NAMES, (left, right), strict=True):
        assert seen["interfaces"] == sorted(["lo", name, f"{name}p"])
        assert seen["run"] == sorted([name, "netns", "user", "xdp-lab-gate"])
        assert seen["shm"] == [name]
        assert seen["segments"] == 1
        assert seen["abstract"] == [f"@{name}"]
        assert seen["bpffs"] == [name]
        assert seen["hostname"] == name
        assert {1, seen["me"]} < set(seen["processes"])
        assert len(seen["processes"]) == 3  # and the one that keeps the gate for us
        assert all("Operation not permitted" in words for words in seen["ids"].values())


def test_they_share_no_namespace(neighbours: tuple[Talk, Talk]) -> None:
    for kind in ("user", "mnt", "net", "pid", "ipc", "uts", "cgroup"):
        own = [os.readlink(f"/proc/{one.box.pid}/ns/{kind}") for one in neighbours]
        assert len({*own, os.readlink(f"/proc/self/ns/{kind}")}) == 3, kind


def test_all_that_runs_inside_is_the_students(neighbours: tuple[Talk, Talk], users: tuple[str, str]) -> None:
    """As the machine sees it: real, effective, saved and file-system user and group."""
    for one, user in zip(neighbours, users, strict=True):
        found = inhabitants(one.box.pid)
        assert len(found) == 3  # the first, the command, and who keeps the gate for it
        for pid in found:
            assert user_ids(pid) == {int(user)}


def test_one_ends_and_the_other_goes_on(neighbours: tuple[Talk, Talk]) -> None:
    left, right = neighbours
    left.box.close()
    assert left.hear() == ""
    right.say("look")
    assert json.loads(right.hear())["run"] == sorted(["right", "netns", "user", "xdp-lab-gate"])


def test_ledgers_count_their_own_drops(users: tuple[str, str]) -> None:
    """The tracepoint for drops is the whole machine's; two labs at once lose datagrams to a closed port, each a prime
    number, and each ledger names exactly its own.
    """
    environment = {**ENVIRONMENT, "HOME": "/dev/shm", "TMPDIR": "/dev/shm"}
    with contextlib.ExitStack() as stack:
        boxes = [
            stack.enter_context(
                talk(
                    [str(CHECKOUT / ".venv/bin/python"), str(Path(__file__).with_name("unread.py")), str(packets)],
                    user=user,
                    ground=Ground(int(user), int(user), (CHECKOUT,), (), Path("/dev/shm")),
                    environment=environment,
                )
            )
            for user, packets in zip(users, PRIMES, strict=True)
        ]
        assert [box.hear() for box in boxes] == ["ready", "ready"]
        for box in boxes:
            box.say("go")
        for box, packets in zip(boxes, PRIMES, strict=True):
            found = json.loads(box.hear())
            assert found["report"] == packets
            assert found["losses"] == {"NO_SOCKET": packets}
            assert found["unaccounted"] == 0
            assert found["in_flight"] == 0
            assert box.box.wait() == 0
