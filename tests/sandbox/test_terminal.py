"""`labkit sandbox` at a terminal: keys, Ctrl-C, job control, the window's size, and the end."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import select
import signal
import struct
import termios
import time
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from helpers import DEADLINE_S, ENVIRONMENT, LABKIT, eventually

USER = "54326"


@dataclass
class Screen:
    """The other side of a terminal at which the command runs; ``text`` is all that was shown."""

    pid: int
    keys: int
    text: str = ""
    allowed: bool = True

    def type(self, keys: str) -> None:
        os.write(self.keys, keys.encode())

    def wait_for(self, pattern: str) -> re.Match[str]:
        """Read on until the text behind the last match has the pattern."""
        until = time.monotonic() + DEADLINE_S
        while not (found := re.search(pattern, self.text)):
            if time.monotonic() > until or not self._read(until):
                raise AssertionError(f"no {pattern!r} in {self.text!r}")
        self.text = self.text[found.end() :]
        return found

    def _read(self, until: float) -> bool:
        if not select.select([self.keys], [], [], max(0.0, until - time.monotonic()))[0]:
            return False
        with contextlib.suppress(OSError):  # EIO: the terminal was closed
            data = os.read(self.keys, 4096)
            self.text += data.decode(errors="replace")
            return bool(data)
        return False

    def type_until_it_ends(self, keys: str) -> None:
        """Type again and again, until the command has ended."""
        until = time.monotonic() + DEADLINE_S
        while not os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG):
            assert time.monotonic() < until, self.text
            self.type(keys)
            self._read(time.monotonic() + 0.2)

    def resize(self, rows: int, columns: int) -> None:
        fcntl.ioctl(self.keys, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def status(self) -> int:
        """The front's exit status; what is still shown is read meanwhile."""
        until = time.monotonic() + DEADLINE_S
        while self._read(until):
            pass
        if time.monotonic() > until:
            os.kill(self.pid, signal.SIGKILL)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


@pytest.fixture
def screen() -> Iterator[Screen]:
    """An interactive shell in a sandbox, at its prompt."""
    pid, keys = pty.fork()
    if pid == 0:
        os.chdir("/")
        words = [str(LABKIT), "sandbox", "--user", USER, "--", "/bin/bash", "--norc", "--noprofile", "-i"]
        os.execve(LABKIT, words, {**ENVIRONMENT, "PS1": "$ ", "TERM": "dumb"})
    found = Screen(pid, keys)
    try:
        found.resize(31, 97)
        found.wait_for(r"[$#] ")
        yield found
    finally:
        os.close(found.keys)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, 0)


def test_a_shell_at_a_terminal(screen: Screen) -> None:
    """One shell, from its first prompt to its exit status."""
    screen.type("tty; echo $((6 * 7))\n")
    screen.wait_for(r"/dev/pts/\d+\r\n42\r\n")
    assert "no job control" not in screen.text

    screen.type("stty size\n")
    screen.wait_for(r"\n31 97\r\n")
    screen.resize(41, 113)
    screen.type("until [ \"$(stty size)\" = '41 113' ]; do sleep 0.01; done; echo re''sized\n")
    screen.wait_for("resized\r\n")

    screen.type("sleep 600; echo status $?\n")
    _wait_until_it_sleeps(screen)
    screen.type("\x03")
    screen.wait_for(r"\^C")
    screen.type("echo still $((1 + 1)) here\n")
    screen.wait_for("still 2 here\r\n")

    screen.type("sleep 601\n")
    _wait_until_it_sleeps(screen)
    screen.type("\x1a")
    screen.wait_for(r"Stopped +sleep 601")
    screen.type("fg\n")
    _wait_until_it_sleeps(screen)
    screen.type("\x03")
    screen.wait_for(r"\^C")
    screen.type("exit 9\n")
    assert screen.status() == 9


def _wait_until_it_sleeps(screen: Screen) -> None:
    """Until the shell has given the terminal to its command: before, a key would be the shell's."""
    until = time.monotonic() + DEADLINE_S
    while not _foreground_sleeps():
        assert time.monotonic() < until
        time.sleep(0.01)


def _foreground_sleeps() -> bool:
    """Whether a `sleep` of the user's is the foreground group of its terminal."""
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError), open(f"/proc/{name}/stat") as file:
            if os.stat(f"/proc/{name}").st_uid not in (0, int(USER)):
                continue
            head, _, tail = file.read().rpartition(")")
            words = tail.split()
            if head.endswith("(sleep") and words[2] == words[5] and words[0] == "S":
                with open(f"/proc/{name}/status") as status:
                    if f"Uid:\t{USER}" in status.read():
                        return True
    return False


def test_the_terminal_is_another_than_ours(screen: Screen) -> None:
    """What is typed into it from inside stays inside."""
    screen.type("tty\n")
    inside = screen.wait_for(r"/dev/pts/\d+").group()
    outside = os.readlink(f"/proc/{screen.pid}/fd/0")
    assert inside != outside
    screen.type("exit\n")
    assert screen.status() == 0


def test_the_end_of_input_ends_the_shell(screen: Screen) -> None:
    screen.type("\x04")
    assert screen.status() == 0


def test_closing_the_terminal_ends_all(screen: Screen) -> None:
    screen.type("sleep 602\n")
    _wait_until_it_sleeps(screen)
    os.close(screen.keys)
    screen.keys = os.open(os.devnull, os.O_RDONLY)
    assert screen.status() != 0
    eventually(lambda: not _foreground_sleeps(), "what ran inside ends")


def test_our_terminal_is_as_before() -> None:
    """Raw while the sandbox runs, restored at the end."""
    script = f"stty -a; {LABKIT} sandbox --user {USER} -- /bin/true; stty -a"
    pid, keys = pty.fork()
    if pid == 0:
        os.chdir("/")
        os.execve("/bin/sh", ["sh", "-c", script], ENVIRONMENT)
    screen = Screen(pid, keys)
    try:
        assert screen.status() == 0
    finally:
        os.close(keys)
    lines = screen.text.splitlines()
    assert len(lines) % 2 == 0
    assert lines[: len(lines) // 2] == lines[len(lines) // 2 :]
