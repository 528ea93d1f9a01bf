"""The compiling child process: it may die, it is started anew, and it never outlives its parent."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from patience import until

from labkit.compile import cache, client, compile_source, prewarm, shut_down
from labkit.errors import CompileError

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = "#include <uapi/linux/bpf.h>\nint f(struct xdp_md *ctx)\n{{\n\treturn {};\n}}\n"


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nothing comes from a cache that an earlier run filled."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    cache.clear_memory()
    yield
    shut_down()


def run_python(code: str, **options: object) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **options.pop("env", {})}  # type: ignore[dict-item]
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        **options,  # type: ignore[call-overload]
    )


def gone(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return True
    return state == "Z"


def test_killed_while_idle() -> None:
    compile_source(text=PROGRAM.format(1))
    pid = client.child_pid()
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    assert compile_source(text=PROGRAM.format(2)).function().name == "f"
    assert client.child_pid() not in (None, pid)


def test_killed_while_compiling() -> None:
    compile_source(text=PROGRAM.format(1))
    pid = client.child_pid()
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)  # so that the request is certainly unanswered
    result: list[object] = []
    thread = threading.Thread(target=lambda: result.append(compile_source(text=PROGRAM.format(2))))
    thread.start()
    until(client._lock.locked)
    os.kill(pid, signal.SIGKILL)
    thread.join(20)
    assert not thread.is_alive()
    assert len(result) == 1  # asked once more, of a new child


def test_llvm_gives_up() -> None:
    compile_source(text=PROGRAM.format(1))
    large = "int f(struct xdp_md *ctx)\n{\n\tvolatile char b[999];\n\n\tb[1] = 1;\n\treturn b[ctx->data];\n}\n"
    with pytest.raises(CompileError, match="512 bytes") as caught:
        compile_source(text=large)
    assert "per-CPU array" in caught.value.remedy
    assert compile_source(text=PROGRAM.format(2)).function().name == "f"


def test_abort(monkeypatch: pytest.MonkeyPatch) -> None:
    """LLVM's own abort(3): the child dies by SIGABRT, the notebook hears of it and goes on."""
    compile_source(text=PROGRAM.format(1))
    pid = client.child_pid()
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    errors: list[CompileError] = []

    def attempt() -> None:
        try:
            compile_source(text=PROGRAM.format(2))
        except CompileError as error:
            errors.append(error)

    thread = threading.Thread(target=attempt)
    thread.start()
    until(client._lock.locked)
    os.kill(pid, signal.SIGABRT)
    os.kill(pid, signal.SIGCONT)
    thread.join(20)
    assert "SIGABRT" in str(errors[0])
    assert "notebook is unharmed" in str(errors[0])
    assert compile_source(text=PROGRAM.format(2)).function().name == "f"


def test_too_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    shut_down()
    monkeypatch.setattr(client, "TIMEOUT_S", 0.001)
    with pytest.raises(CompileError, match="did not finish within"):
        compile_source(text=PROGRAM.format(3))
    assert client.child_pid() is None
    monkeypatch.undo()
    assert compile_source(text=PROGRAM.format(3)).function().name == "f"


def test_four_threads() -> None:
    names: dict[int, list[str]] = {}

    def work(number: int) -> None:
        sources = [f"int f_{number}_{n}(void *ctx)\n{{\n\treturn {n};\n}}\n" for n in range(3)]
        names[number] = [compile_source(text=source).name for source in sources]

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert names == {n: [f"f_{n}_0", f"f_{n}_1", f"f_{n}_2"] for n in range(4)}


def test_started_by_a_thread_that_ends() -> None:
    shut_down()
    thread = threading.Thread(target=lambda: compile_source(text=PROGRAM.format(4)))
    thread.start()
    thread.join()
    pid = client.child_pid()
    compile_source(text=PROGRAM.format(5))
    assert client.child_pid() == pid


def test_prewarm() -> None:
    shut_down()
    prewarm()
    until(lambda: client.child_pid() is not None)


def test_forked_process() -> None:
    compile_source(text=PROGRAM.format(1))
    ours = client.child_pid()
    code = """
        import os
        from labkit.compile import cache, client, compile_source
        compile_source(text="int f(void *ctx)\\n{\\n\\treturn 1;\\n}\\n")
        ours = client.child_pid()
        pid = os.fork()
        if pid == 0:
            compile_source(text="int f(void *ctx)\\n{\\n\\treturn 2;\\n}\\n")
            os._exit(0 if client.child_pid() != ours else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        compile_source(text="int f(void *ctx)\\n{\\n\\treturn 3;\\n}\\n")
        assert client.child_pid() == ours
    """
    done = run_python(code)
    assert done.returncode == 0, done.stderr
    assert client.child_pid() == ours


@pytest.mark.parametrize("forks", [False, True])
def test_child_ends_with_its_parent(forks: bool) -> None:
    """Even where a forked process keeps a copy of the parent's end of the connection."""
    code = f"""
        import os, time
        from labkit.compile import cache, client, compile_source
        compile_source(text="int f(void *ctx)\\n{{\\n\\treturn 1;\\n}}\\n")
        if {forks}:
            os.dup(client._child.connection.fileno())
            if os.fork() == 0:
                time.sleep(20)
                os._exit(0)
        print(client.child_pid(), flush=True)
        time.sleep(60)
    """
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        start_new_session=True,
    ) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        assert not gone(pid)
        parent.kill()
        try:
            until(lambda: gone(pid))
        finally:
            os.killpg(parent.pid, signal.SIGKILL)


def test_as_an_ordinary_user() -> None:
    code = """
        import os
        if os.geteuid() == 0:
            os.setgroups([]); os.setgid(65534); os.setuid(65534)
        from labkit.compile import compile_source
        spec = compile_source(path="bpf/drop_by_protocol.c")
        print(os.geteuid(), len(spec.function()), sorted(spec.maps))
    """
    # Not in pytest's folder: opened for others, it is shut by the next pytest that starts, before the eyes of a sandbox.
    with tempfile.TemporaryDirectory(prefix="xdp-lab-test-", dir="/tmp") as cache:
        Path(cache).chmod(0o777)
        done = run_python(code, cwd=ROOT, env={"XDG_CACHE_HOME": cache})
    assert done.returncode == 0, done.stderr
    uid, _, maps = done.stdout.split(maxsplit=2)
    assert int(uid) != 0
    assert maps.strip() == "['keep_protocol', 'packets_by_protocol', 'verdicts']"


@pytest.mark.parametrize(
    ("package", "words"),
    [
        ("", "unrelated package from PyPI"),
        ("raise ImportError('No module named bcc')", "not to be found"),
        ("raise OSError('libbcc.so.0: cannot open shared object file')", "can't be imported"),
    ],
)
def test_which_bcc(package: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "bcc").mkdir()
    (tmp_path / "bcc" / "__init__.py").write_text(package + "\n")
    code = """
        from labkit.compile import compile_source
        from labkit.errors import CompileError
        try:
            compile_source(text="int f(void *ctx)\\n{\\n\\treturn 1;\\n}\\n")
        except CompileError as error:
            print(error)
    """
    done = run_python(code, env={"PYTHONPATH": f"{tmp_path}:{ROOT}"})
    assert words in done.stdout, done.stdout + done.stderr
    assert "python3-bpfcc" in done.stdout


def test_stray_modules_beside_the_notebook(tmp_path: Path) -> None:
    """A student's file called json.py is not the child's business."""
    (tmp_path / "json.py").write_text("raise SystemExit('wrong json')\n")
    code = """
        import sys
        sys.path.remove("")
        from labkit.compile import compile_source
        compile_source(text="int f(void *ctx)\\n{\\n\\treturn 1;\\n}\\n")
    """
    done = run_python(code, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
