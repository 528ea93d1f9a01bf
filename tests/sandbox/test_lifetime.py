"""However a sandbox ends, nothing of it is left; and while it runs, nothing in it is root's."""

from __future__ import annotations

import contextlib
import gc
import os
import random
import signal
import struct
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import bpfcalls
import pytest
from helpers import (
    DEADLINE_S,
    ENVIRONMENT,
    KINDS,
    LABKIT,
    LAUNCHER,
    NOBODY,
    PYTHON,
    descendants,
    eventually,
    inhabitants,
    namespaces,
    processes,
    stat_words,
    user_ids,
)
from patience import numbers_kept
from talking import Talk, read_line, talk

from labkit.sandbox import start

USER = "54325"
# Inside: an interface, a map, an attached program, a child that ignores every signal it may, another in a session apart.
BUSY = """\
import os, signal, subprocess, sys, time
sys.path.insert(0, sys.argv[1])
import bpfcalls as b
subprocess.run(["ip", "link", "add", "busy0", "type", "veth", "peer", "name", "busy1"], check=True)
kept = b.create_map(by_gate=True), b.load(b.XDP, by_gate=True, expected=37)
link = b.link_create(kept[1], __import__("socket").if_nametoindex("busy0"), 37)
for apart in (False, True):
    if os.fork() == 0:
        if apart:
            os.setsid()
        for number in set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP}:
            signal.signal(number, signal.SIG_IGN)
        time.sleep(600)
        os._exit(0)
words = [open(f"/proc/self/fdinfo/{made}").read().split() for made in (*kept, link)]
print("busy", *(w[w.index(k) + 1] for w, k in zip(words, ("map_id:", "prog_id:", "link_id:"))), flush=True)
time.sleep(600)
"""
# A child that came by fork has the descriptors, too: objects go with the last of them.
GET_BY_ID = {
    "map": bpfcalls.MAP_GET_FD_BY_ID,
    "program": bpfcalls.PROG_GET_FD_BY_ID,
    "link": bpfcalls.LINK_GET_FD_BY_ID,
}


@dataclass
class Left:
    """What the test's sandbox made in the kernel, by kind and number: gone at the end."""

    objects: dict[str, int] = field(default_factory=dict)
    namespaces: set[str] = field(default_factory=set)
    kept: contextlib.ExitStack = field(
        default_factory=contextlib.ExitStack
    )  # their numbers, until they were looked for

    def heard(self, line: str) -> None:
        """Take the numbers from what BUSY says."""
        word, *numbers = line.split()
        assert word == "busy", line
        self.objects = dict(zip(GET_BY_ID, map(int, numbers), strict=True))
        assert self.still() == list(GET_BY_ID)
        first = _first_of_the_user()
        self.kept.enter_context(numbers_kept(f"/proc/{first}/ns/{kind}" for kind in KINDS))
        self.namespaces = {os.readlink(f"/proc/{first}/ns/{kind}") for kind in KINDS} - {
            os.readlink(f"/proc/self/ns/{kind}") for kind in KINDS
        }
        assert len(self.namespaces) == len(KINDS)

    def still(self) -> list[str]:
        """The kinds of what is there yet."""
        found = []
        for kind, number in self.objects.items():
            with contextlib.suppress(FileNotFoundError):
                os.close(bpfcalls.bpf(GET_BY_ID[kind], struct.pack("=I", number)))
                found.append(kind)
        return found


@pytest.fixture
def nothing_is_left() -> Iterator[Left]:
    """No process of the user's, no namespace of the sandbox's, no BPF object, no file beneath /run is left of the test."""
    run, left = set(os.listdir("/run")), Left()

    def of_the_user() -> list[int]:
        found = []
        for pid in processes():
            with contextlib.suppress(OSError):
                if int(USER) in user_ids(pid) and stat_words(pid)[0] != "Z":  # the machine's first process buries them
                    found.append(pid)
        return found

    with left.kept:
        yield left
        eventually(lambda: not of_the_user(), f"processes of {USER} end")
        eventually(lambda: not left.namespaces & namespaces(), "namespaces go")
    eventually(lambda: not left.still(), "BPF objects go")
    assert set(os.listdir("/run")) == run


@pytest.fixture
def busy(nothing_is_left: Left, scripts: Path) -> Iterator[Talk]:
    with talk([PYTHON, "-c", BUSY, str(scripts)], user=USER) as one:
        nothing_is_left.heard(one.hear())
        yield one


@pytest.fixture
def busy_front(nothing_is_left: Left, scripts: Path) -> Iterator[subprocess.Popen[bytes]]:
    """`labkit sandbox`, as root starts it, around the same."""
    words = [str(LABKIT), "sandbox", "--user", USER, "--", PYTHON, "-c", BUSY, str(scripts)]
    with subprocess.Popen(
        words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, env=ENVIRONMENT, cwd="/", start_new_session=True
    ) as front:
        assert front.stdout is not None
        nothing_is_left.heard(read_line(front.stdout))
        yield front
        front.kill()


def _command(first: int) -> int:
    """The command in a sandbox: the child of its first process."""
    return next(pid for pid in descendants(first))


def test_nothing_is_roots_while_a_sandbox_runs(busy_front: subprocess.Popen[bytes]) -> None:
    """Neither the front nor anything below it, nor anything in the sandbox."""
    first = _first_of_the_user()
    everybody = {busy_front.pid, *descendants(busy_front.pid), *inhabitants(first), *descendants(first)}
    assert len(everybody) >= 5
    for pid in everybody:
        assert user_ids(pid) == {int(USER)}, Path(f"/proc/{pid}/cmdline").read_text()


def _first_of_the_user() -> int:
    """The first process of the only sandbox of the test's user."""
    for pid in processes():
        with contextlib.suppress(OSError):
            lines = Path(f"/proc/{pid}/status").read_text().splitlines()
            inner = next(line.split()[1:] for line in lines if line.startswith("NSpid:"))
            if inner[1:] == ["1"] and int(USER) in user_ids(pid) and stat_words(pid)[0] != "Z":
                return pid
    raise AssertionError("no first process")


FRONT_ENDS: dict[str, tuple[Callable[[subprocess.Popen[bytes]], None], int]] = {
    "the front is killed": (lambda front: front.kill(), -signal.SIGKILL),
    "the first process is killed": (lambda _: os.kill(_first_of_the_user(), signal.SIGKILL), 137),
    "the command is killed": (lambda _: os.kill(_command(_first_of_the_user()), signal.SIGKILL), 137),
    "the terminal is closed": (lambda front: os.killpg(front.pid, signal.SIGHUP), 129),
    "Ctrl-C": (lambda front: os.killpg(front.pid, signal.SIGINT), 130),
    "asked to end": (lambda front: front.terminate(), 143),
}


@pytest.mark.parametrize("name", FRONT_ENDS)
def test_all_ends_with_the_front_the_first_process_or_the_command(
    busy_front: subprocess.Popen[bytes], name: str
) -> None:
    end, status = FRONT_ENDS[name]
    end(busy_front)
    assert busy_front.wait(DEADLINE_S) == status


def test_closing_ends_all(busy: Talk) -> None:
    busy.box.close()
    assert busy.hear() == ""


def test_a_killed_sandbox_is_told_by_its_status(busy: Talk) -> None:
    os.kill(busy.box.pid, signal.SIGKILL)
    assert busy.box.wait() == 137


def test_killed_while_it_is_made(nothing_is_left: Left) -> None:
    """The front and all below it are killed, at moments spread over the time that making a sandbox takes."""
    chance = random.Random(7)
    words = [PYTHON, "-c", "import time; print('up', flush=True); time.sleep(600)"]
    for _ in range(10):
        with subprocess.Popen(
            [PYTHON, "-c", _BARE_FRONT, str(LAUNCHER), USER, *words], stdout=subprocess.PIPE, env=ENVIRONMENT, cwd="/"
        ) as front:
            time.sleep(chance.uniform(0.02, 0.16))
            victims = [front.pid, *descendants(front.pid)]
            victim = chance.choice(victims)
            with contextlib.suppress(ProcessLookupError):
                os.kill(victim, signal.SIGKILL)
            front.kill()


# A front without labkit, whose start would take most of the time: it asks the launcher, and stays.
_BARE_FRONT = """\
import json, socket, struct, subprocess, sys
ours, theirs = socket.socketpair()
launcher, user, *words = sys.argv[1:]
subprocess.Popen([launcher, "--user", user], stdin=theirs)
theirs.close()
socket.send_fds(ours, [b"d"], [0, 1, 2])
order = json.dumps({"words": words, "environment": {}, "directories": ["/"], "terminal": False}).encode()
ours.sendall(struct.pack("=I", len(order)) + order)
while ours.recv(4096):
    pass
"""


def test_statuses_and_streams(nothing_is_left: Left) -> None:
    """Standard input comes, output and errors stay apart, and the exit status is the command's."""
    script = "cat; echo problem >&2; exit 43"
    ended = _labkit(["/bin/sh", "-c", script], b"some text\n")
    assert (ended.returncode, ended.stdout, ended.stderr) == (43, b"some text\n", b"problem\n")
    assert _labkit(["/bin/sh", "-c", "kill -SEGV $$"]).returncode == 128 + signal.SIGSEGV
    missing = _labkit(["/no/such/command"])
    assert missing.returncode == 127
    assert b"/no/such/command" in missing.stderr


def test_root_keeps_its_environment_to_itself(nothing_is_left: Left) -> None:
    """What root's variables hold, keys among it, is not for another user; what shapes a terminal and the lab is."""
    ended = _labkit(["/usr/bin/env"], SECRET_OF_ROOT="a-key", LC_TIME="C", XDP_LAB_SOMETHING="1")
    assert b"a-key" not in ended.stdout
    for word in (b"LC_TIME=C", b"XDP_LAB_SOMETHING=1", b"LANG=", b"PATH="):
        assert word in ended.stdout


def _labkit(words: list[str], feed: bytes = b"", **variables: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [str(LABKIT), "sandbox", "--user", USER, "--", *words],
        input=feed,
        capture_output=True,
        env={**ENVIRONMENT, **variables},
        cwd="/",
        timeout=DEADLINE_S,
    )


def test_signals_are_passed_on(nothing_is_left: Left) -> None:
    """From the moment that the command runs."""
    names = ("HUP", "INT", "QUIT", "TERM")
    traps = "; ".join(f"trap 'echo {name}' {name}" for name in names)
    script = f"{traps}; trap 'exit 7' USR1; echo ready; while :; do read -r line || sleep 0.01; done"
    with subprocess.Popen(
        [str(LABKIT), "sandbox", "--user", USER, "--", "/bin/sh", "-c", script],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        env=ENVIRONMENT,
        cwd="/",
    ) as front:
        assert front.stdout is not None
        assert read_line(front.stdout) == "ready"
        for name in names:
            front.send_signal(signal.Signals[f"SIG{name}"])
            assert read_line(front.stdout) == name
        os.kill(_command(_first_of_the_user()), signal.SIGUSR1)
        assert front.wait(DEADLINE_S) == 7


def test_the_caller_keeps_nothing_of_fifty(nothing_is_left: Left) -> None:
    """No descriptor, thread or child process of the caller's is left of sandboxes that were opened and closed."""

    def held() -> tuple[int, int, list[int]]:
        gc.collect()  # what an earlier test left to the collector is none of ours
        children = sorted(descendants(os.getpid()))
        return len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task")), children

    before = held()
    with open(os.devnull, "r+b") as null:
        for _ in range(50):
            with start(["/bin/true"], streams=[null.fileno()] * 3, environment=ENVIRONMENT, directory="/") as box:
                assert box.wait() == 0
                assert box.uid == NOBODY
    assert held() == before
