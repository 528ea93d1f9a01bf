"""When descriptors, memory or privilege run out: a LabError that says so, nothing left behind, no fault of the C text."""

from __future__ import annotations

import errno
import os
import resource
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import labkit as lk
from labkit import registry
from labkit.kernel import bpf
from labkit.kernel.netns import NamespaceThread
from labkit.kernel.rtnl import RtnlSocket


@contextmanager
def _descriptors(more: int) -> Iterator[None]:
    """``more`` descriptors may be opened, and not one beyond."""
    fillers: list[int] = []
    old = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = max(int(name) for name in os.listdir("/proc/self/fd"))
    resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 64, old[1]))
    try:
        while True:  # fill the gaps below the limit, then make room
            try:
                fillers.append(os.dup(0))
            except OSError:
                break
        for fd in fillers[:more]:
            os.close(fd)
        del fillers[:more]
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, old)
        for fd in fillers:
            os.close(fd)


def _a_lab(verdicts: lk.ProgramSpec) -> None:
    with lk.Lab(lk.Topology.pair(), name="few") as lab:
        server = lab["server"]["eth0"]
        link = lab.load(verdicts, "drop").attach(server)
        link.replace(lab.load(verdicts, "pass"))
        lab["client"].socket().close()
        server.features()
        lab.ledger()


def test_with_few_descriptors_the_error_says_so(verdicts: lk.ProgramSpec) -> None:
    """However many there are, until they are enough: the lab, or one LabError that tells what ran out."""
    _a_lab(verdicts)  # what is opened once a process is open now
    raised: list[lk.LabError] = []
    for more in range(80):
        threads = threading.active_count()
        try:
            with _descriptors(more):
                _a_lab(verdicts)
            break
        except lk.LabError as error:
            raised.append(error)
        assert threading.active_count() == threads
    assert 10 < len(raised) < 80
    assert not [error for error in raised if isinstance(error, lk.VerifierError)]
    for error in raised:
        assert error.errno == errno.EMFILE, error
        assert "descriptor" in error.message, error
        assert "ulimit -n" in error.remedy, error
    assert {"to make a lab", "to load a program"} <= {error.tried for error in raised}


def test_a_host_that_fails_half_way_takes_its_thread_along(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: object) -> None:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(RtnlSocket, "__init__", refuse)
    before = threading.active_count()
    with pytest.raises(lk.LabError, match="no file descriptor left"):
        lk.Lab(lk.Topology.pair(), name="half")
    assert threading.active_count() == before  # and the fixture looks for the namespace


def test_a_record_that_finds_no_descriptor_does_not_blame_the_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> int:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(Path, "write_text", refuse)
    with pytest.raises(lk.LabError, match=r"no file descriptor left[\s\S]*ulimit -n"):
        registry.remember("few", ())


def test_no_more_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: object) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        with pytest.raises(lk.LabError, match=r"no more threads[\s\S]*ulimit -u"):
            NamespaceThread("one-too-many")


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.ENOMEM])
@pytest.mark.parametrize("command", ["prog_load", "btf_load"])
def test_what_ran_out_is_not_blamed_on_the_program(
    lab: lk.Lab, verdicts: lk.ProgramSpec, monkeypatch: pytest.MonkeyPatch, number: int, command: str
) -> None:
    def refuse(*_: object, **__: object) -> int:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(bpf, command, refuse)
    with pytest.raises(lk.LabError, match="left") as caught:
        lab.load(verdicts, "silent_drop")
    assert type(caught.value) is lk.LabError
    assert caught.value.errno == number
    assert caught.value.remedy


def test_a_map_without_memory_is_about_the_map(lab: lk.Lab) -> None:
    source = (
        "#include <uapi/linux/bpf.h>\nBPF_ARRAY(huge, u64, 0x1fffffff);\n"
        "int f(struct xdp_md *ctx) { u32 k = 0; u64 *v = huge.lookup(&k); return v ? XDP_PASS : XDP_DROP; }\n"
    )
    spec = lk.compile(text=source)
    with pytest.MonkeyPatch.context() as patch:

        def refuse(*_: object) -> int:
            raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))

        patch.setattr(bpf, "map_create", refuse)
        with pytest.raises(lk.MapError, match=r"huge[\s\S]*fewer entries"):
            lab.load(spec)


_AS_NOBODY = """
import labkit as lk
from labkit.compile.diagnose import verifier_error
from labkit.program.program import load_program
spec = lk.compile(text='''{source}''')
try:
    load_program(spec, explain=verifier_error)
except lk.PrivilegeError as error:
    print(error)
"""


@pytest.mark.parametrize(
    "source",
    [
        "int f(struct xdp_md *ctx) { return 2; }",
        "BPF_ARRAY(a, u64, 1); int f(struct xdp_md *c) { int k = 0; return !a.lookup(&k); }",
    ],
    ids=["without maps", "with a map"],
)
def test_loading_without_privilege_says_what_to_do(source: str) -> None:
    code = _AS_NOBODY.format(source="#include <uapi/linux/bpf.h>\\n" + source)
    nobody = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"]
    said = subprocess.run(
        [*nobody, sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "HOME": "/nonexistent"},
    )
    assert "in a sandbox (./env/lab" in said.stdout, said.stderr
    assert "EPERM" in said.stdout
