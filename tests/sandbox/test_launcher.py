"""env/sandbox itself: what it is fed, who asks, and what a kernel refuses. It gives way to nobody but root's students."""

from __future__ import annotations

import errno
import os
import socket
import subprocess
import sys
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest
from asking import Answer, ask, order, sized, start_with
from helpers import DEADLINE_S, ENVIRONMENT, LABKIT, LAUNCHER, NOBODY, PYTHON

USER, OTHER = 54327, 54328
SHOW = ["/bin/cat", "/proc/self/uid_map"]
X86 = os.uname().machine == "x86_64"
UNSHARE, FSCONFIG, NEWUSER = 272 if X86 else 97, 431, 0x10000000


def shows(uid: int) -> str:
    """What SHOW prints in a sandbox of this user's."""
    return f"{0:>10} {uid:>10} {1:>10}\n"


def test_it_makes_a_sandbox() -> None:
    """The control: the same asking that is refused below."""
    found = ask(send=order(words=SHOW))
    assert found.text == shows(NOBODY)
    first, last = found.lines
    assert {"pid", "uid", "gid"} <= set(first)
    assert last == {"status": 0}
    assert ask("--user", str(USER), send=order(words=SHOW)).text == shows(USER)
    assert ask(peer=USER, send=order(words=SHOW)).text == shows(USER)


def test_standard_input_must_be_a_stream_socket_of_this_machine() -> None:
    source, sink = os.pipe()
    with (
        open(os.devnull) as null,
        socket.socket(socket.AF_INET) as internet,
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as datagrams,
        socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as packets,
    ):
        for stdin in (null.fileno(), source, internet.fileno(), datagrams.fileno(), packets.fileno()):
            found = start_with(stdin)
            assert found.returncode == 1
            assert found.stderr == "sandbox: standard input must be a socket; it is started by `labkit sandbox`\n"
    os.close(source)
    os.close(sink)


def test_a_socket_with_nobody_at_the_other_end() -> None:
    with socket.socket(socket.AF_UNIX) as alone:
        found = start_with(alone.fileno())
    assert found.returncode != 0
    assert "Traceback" not in found.stderr


@pytest.mark.parametrize("descriptors", [0, 1, 2, 5])
def test_three_or_four_descriptors_it_must_be(descriptors: int) -> None:
    assert ask(descriptors=descriptors, send=order()).refused() == "descriptors"


@pytest.mark.parametrize(
    "options",
    [
        ["--user", "root"], ["--user", "0"], ["--user", "00"], ["--user", "-1"], ["--user", "4294967295"],
        ["--user", "4294967296"], ["--user", "9" * 40], ["--user", "no-such-user"], ["--user", ""], ["--user", "٣"],
        ["--user", "1 "], ["--user", "daemon\n"],
    ],
    ids=repr,
)  # fmt: skip
def test_users_that_it_refuses(options: list[str]) -> None:
    assert ask(*options, send=order()).refused() == "user"


@pytest.mark.parametrize(
    "options",
    [["--user"], ["--user", "1", "--user", "2"], ["--with-tracing"], ["--user=1"], ["-"], [""], ["/etc/shadow"]],
    ids=repr,
)
def test_options_that_it_refuses(options: list[str]) -> None:
    assert ask(*options, send=order()).refused() == "options"


def test_only_root_names_a_user() -> None:
    assert ask("--user", str(OTHER), peer=USER, send=order()).refused() == "user"
    assert ask("--user", str(USER), peer=USER, send=order()).refused() == "user"


def test_who_calls_by_sudo_must_be_who_asks() -> None:
    """A socket of somebody else's, or of root's, is of no use to who may sudo the launcher."""
    sudo = {**ENVIRONMENT, "SUDO_UID": str(USER)}
    assert ask(peer=USER, environment=sudo, send=order(words=SHOW)).text == shows(USER)
    assert ask(peer=OTHER, environment=sudo, send=order()).refused() == "user"
    assert ask(peer=0, environment=sudo, send=order()).refused() == "user"
    assert ask("--user", str(USER), peer=0, environment=sudo, send=order()).refused() == "user"
    assert ask(peer=USER, environment={**ENVIRONMENT, "SUDO_UID": "root"}, send=order()).refused() == "user"


def test_a_user_is_not_root_by_group() -> None:
    """A number without a name takes the same number as its group; nobody gets group 0 so."""
    found = ask("--user", str(USER), send=order(words=["/bin/cat", "/proc/self/gid_map"]))
    assert found.text == shows(USER)


def test_groups_of_roots_are_left_behind() -> None:
    before = os.getgroups()
    os.setgroups([4, 42])
    try:
        found = ask("--user", str(USER), send=order(words=["/bin/grep", "Groups", "/proc/self/status"]))
    finally:
        os.setgroups(before)
    assert found.text.split() == ["Groups:"]


def test_orders_that_make_no_sense() -> None:
    """They are read without privilege; whoever sends them gets an answer, and nothing hangs or stays."""
    for nonsense in (
        sized(b"{"), sized(b"[]"), sized(b"null"), sized(b"\xff\xfe"), sized(b""), sized(b"1" * 10_000_000),
        sized(b"[" * 100_000), order(words=3), order(words=[]), order(words=[["a"]]), order(words="sh"),
        order(environment=[]), order(environment={"A": 3}), order(environment={"A=B\0": "x"}), order(directories=None),
        order(directories=["\0"]), order(terminal=True), order(words=["/bin/true", "x" * 10_000_000]),
        b"\xff\xff\xff\xff", order()[:20], order()[:3], b"",
    ):  # fmt: skip
        found = ask(send=nonsense, shut=True)
        assert found.status == 0
        statuses = [line["status"] for line in found.lines if "status" in line]
        assert 0 not in statuses, nonsense[:80]


def test_signals_that_do_not_exist() -> None:
    """The front's bytes are signals for the command; nonsense among them doesn't end the sandbox."""
    found = ask(
        send=order(words=["/bin/sh", "-c", "trap 'exit 5' TERM; while :; do sleep 0.01; done"]) + b"\xc8\x00\x0f"
    )
    assert found.lines[-1] in ({"status": 5}, {"status": 143})


def test_modules_of_others_are_not_loaded(open_folder: Path) -> None:
    """Neither from the folder it is started in, nor from where the environment points."""
    for name in ("json", "socket", "pwd", "sitecustomize", "usercustomize"):
        (open_folder / f"{name}.py").write_text(f"open('{open_folder}/loaded', 'w')\n")
    hostile = {
        **ENVIRONMENT, "PYTHONPATH": str(open_folder), "PYTHONHOME": str(open_folder), "PYTHONINSPECT": "1",
        "PYTHONUSERBASE": str(open_folder), "PYTHONSTARTUP": str(open_folder / "json.py"),
    }  # fmt: skip
    before = os.getcwd()
    os.chdir(open_folder)
    try:
        assert ask(environment=hostile, send=order(words=SHOW)).text == shows(NOBODY)
    finally:
        os.chdir(before)
    assert not (open_folder / "loaded").exists()


@pytest.fixture(scope="module")
def silent() -> dict[str, Answer]:
    """Two that never send what is awaited: nothing at all, and half an order. Both at once, as it takes its time."""
    with ThreadPoolExecutor(2) as pool:
        waiting: dict[str, Future[Answer]] = {
            "nothing": pool.submit(ask, descriptors=0),
            "half an order": pool.submit(ask, send=order()[:20]),
        }
        return {name: future.result() for name, future in waiting.items()}


def test_who_says_nothing_is_not_awaited_for_ever(silent: dict[str, Answer]) -> None:
    assert silent["nothing"].status != 0
    assert "Traceback" not in silent["nothing"].text
    assert silent["half an order"].refused() != ""


def test_it_needs_root() -> None:
    found = subprocess.run(
        [PYTHON, "-IS", "-c", LAUNCHER.read_text()],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, user=USER, group=USER, extra_groups=[],
    )  # fmt: skip
    assert found.returncode == 1
    assert found.stderr == "sandbox: needs root; it is started by `labkit sandbox`\n"


def test_as_a_service_it_gives_everybody_their_own(open_folder: Path, scripts: Path) -> None:
    """A loop accepts, as systemd does with Accept=yes; ordinary users connect."""
    path = open_folder / "service"
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        path.chmod(0o666)
        listening.listen()

        def serve() -> None:
            for _ in (USER, OTHER):
                with listening.accept()[0] as accepted:
                    subprocess.run([str(LAUNCHER), "--without-tracing"], stdin=accepted, env={}, check=True)

        service = threading.Thread(target=serve, name="service")
        service.start()
        for uid in (USER, OTHER):
            words = [PYTHON, str(scripts / "client.py"), str(path), *SHOW]
            found = subprocess.run(
                words, capture_output=True, text=True, user=uid, group=uid, extra_groups=[], timeout=DEADLINE_S
            )
            assert shows(uid) in found.stdout, found
            assert f'"uid": {uid}' in found.stdout
            assert '"status": 0' in found.stdout
        service.join(DEADLINE_S)


@pytest.mark.parametrize(
    ("number", "flags", "code", "words"),
    [
        (UNSHARE, NEWUSER, errno.EPERM, "forbids user namespaces"),
        (UNSHARE, NEWUSER, errno.ENOSPC, "forbids user namespaces"),
        (UNSHARE, NEWUSER, errno.EINVAL, "forbids user namespaces"),
        (FSCONFIG, 0, errno.EINVAL, "no BPF tokens: they came with Linux 6.9"),
        (FSCONFIG, 0, errno.ENOSYS, "no BPF tokens: they came with Linux 6.9"),
    ],
)
def test_a_kernel_that_refuses_is_told_in_plain_words(
    scripts: Path, number: int, flags: int, code: int, words: str
) -> None:
    command = [str(LABKIT), "sandbox", "--user", str(USER), "--", "/bin/true"]
    found = subprocess.run(
        [sys.executable, str(scripts / "filtered.py"), str(number), str(flags), str(code), *command],
        capture_output=True, text=True, env=ENVIRONMENT, timeout=DEADLINE_S,
    )  # fmt: skip
    assert found.returncode != 0
    assert words in found.stderr
    assert "--root" in found.stderr
    assert errno.errorcode[code] in found.stderr or os.strerror(code) in found.stderr
    assert "Traceback" not in found.stderr
