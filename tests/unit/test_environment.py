"""The machine's set-up: the lists of packages agree, and nothing of ours is hidden from git."""

import asyncio
import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import tomllib
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version
from tornado.httpclient import AsyncHTTPClient
from tornado.websocket import websocket_connect

ROOT = Path(__file__).parents[2]
PYTHONS = ("3.11", "3.12", "3.13")


def project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def requirements(lines: list[str]) -> dict[str, Requirement]:
    parsed = [Requirement(line) for line in lines]
    return {canonicalize_name(r.name): r for r in parsed}


def locked(name: str) -> dict[str, Version]:
    """Name → the one version that a lock file pins, whatever the platform."""
    pins = re.findall(r"^([\w.-]+)==([^\s;]+)", (ROOT / "env" / name).read_text(), re.M)
    assert len(pins) == len(dict(pins)), "a package is pinned twice"
    return {canonicalize_name(n): Version(v) for n, v in pins}


def entries(name: str) -> list[str]:
    """The text of a lock file, one package each."""
    return re.split(r"^(?=\w)", (ROOT / "env" / name).read_text(), flags=re.M)[1:]


def locked_direct(name: str) -> set[str]:
    """The names in a lock file that are there as pyproject.toml asks for them."""
    direct = [e for e in entries(name) if "labkit (pyproject.toml)" in e]
    return {canonicalize_name(e.split("==")[0]) for e in direct}


def conda() -> dict[str, str]:
    """Name → version prefix in environment.yml (`name=prefix`), Python left out."""
    text = (ROOT / "environment.yml").read_text().split("\ndependencies:\n")[1]
    found = dict(re.findall(r"^  - ([\w.-]+)=([\d.]+)$", text, re.M))
    assert len(found) == text.count("  - ") - 1, "each entry but python reads `name=version`"
    return found


RUNTIME = requirements(project()["dependencies"])
TEST = requirements(project()["optional-dependencies"]["test"])


def test_conda_project_and_lock_name_the_same_packages() -> None:
    assert set(conda()) == set(RUNTIME)
    assert locked_direct("lock.txt") == set(RUNTIME)
    assert locked_direct("lock-test.txt") == set(RUNTIME) | set(TEST)


@pytest.mark.parametrize("name", sorted(RUNTIME))
def test_versions_agree(name: str) -> None:
    pinned = locked("lock.txt")[name]
    assert pinned in RUNTIME[name].specifier
    prefix = Version(conda()[name]).release
    assert pinned.release[: len(prefix)] == prefix


def test_the_tests_lock_is_the_labs_lock_and_more() -> None:
    lab, test = locked("lock.txt"), locked("lock-test.txt")
    assert lab.items() <= test.items()
    for name, requirement in TEST.items():
        assert test[name] in requirement.specifier


@pytest.mark.parametrize("lock", ["lock.txt", "lock-test.txt"])
def test_each_pin_has_hashes_and_no_address(lock: str) -> None:
    for entry in entries(lock):
        assert "--hash=sha256:" in entry, entry.splitlines()[0]
        assert "://" not in entry
        assert "--index-url" not in entry


def test_pypis_bcc_is_nowhere() -> None:
    assert "bcc" not in RUNTIME.keys() | TEST.keys()
    assert "bcc" not in locked("lock-test.txt")
    assert "bcc" not in conda()


def test_python_versions() -> None:
    specifier = Requirement(f"labkit{project()['requires-python']}").specifier
    assert all(version in specifier for version in PYTHONS)
    assert "3.10" not in specifier


def test_gitignore_hides_leftovers_and_nothing_of_ours(tmp_path: Path) -> None:
    # In a repository of its own, so that it works in a copy without .git, too.
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    (tmp_path / ".gitignore").write_text((ROOT / ".gitignore").read_text())

    def ignored(path: str | Path) -> bool:
        command = ["git", "check-ignore", "-q", path]
        return subprocess.run(command, cwd=tmp_path).returncode == 0

    ours = [p.relative_to(ROOT) for p in (ROOT / "env").rglob("*") if p.is_file()]
    for path in ours:
        assert "__pycache__" in path.parts or not ignored(path), path
    for name in (".ci/run", "labkit/lab.py", "bpf/common/verdict.h", "notebooks/00-tour.ipynb"):
        assert not ignored(name), name
    for name in (".venv/stamp", "labkit/__pycache__/x.pyc", "notebooks/.ipynb_checkpoints/a.ipynb"):
        assert ignored(name), name


@pytest.mark.parametrize("name", ["apt.txt", "apt-test.txt", "apt-fresh.txt"])
def test_every_system_package_says_why(name: str) -> None:
    for line in (ROOT / "env" / name).read_text().splitlines():
        assert re.match(r"# |[a-z0-9.+-]+ +# \S", line), line


def test_run_keeps_standard_output_for_the_command() -> None:
    command = [ROOT / "env" / "run", "python", "-c", "import bcc; print(bcc.__file__)"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    [bcc] = done.stdout.splitlines()
    # The one package that the environment takes from the system.
    assert Path(bcc).parent.is_symlink()
    assert (Path(bcc).parent / "libbcc.py").is_file()


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["--port", "0"], "a number from 1 to 65535, not '0'"),
        (["--port=65536"], "a number from 1 to 65535, not '65536'"),
        (["--port"], "a number from 1 to 65535, not ''"),
        (["--prot", "1"], "unknown option '--prot'"),
    ],
)
def test_lab_refuses_bad_options(options: list[str], complaint: str) -> None:
    done = subprocess.run([ROOT / "env" / "lab", *options], capture_output=True, text=True)
    assert done.returncode == 1
    assert complaint in done.stderr


@contextlib.contextmanager
def running_lab(home: Path, *options: str) -> Iterator[tuple[str, str]]:
    """A running ./env/lab, in a sandbox: (address, token). Ctrl-C ends it, and it must end well."""
    if os.geteuid() != 0:
        pytest.skip("opening a sandbox needs root: run the tests as root")
    environment = os.environ | {"HOME": str(home), "XDP_LAB_HOME": str(home / "home")}
    command = [ROOT / "env" / "lab", "--no-browser", *options]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment, process_group=0) as server:
        try:
            assert server.stderr
            said = ""
            for line in server.stderr:
                said += line
                if found := re.search(r"(http://[^/]+/)\S*\?token=(\w+)", line):
                    break
            else:
                pytest.fail(f"env/lab ended without an address:\n{said}")
            yield found[1], found[2]
        finally:
            os.killpg(server.pid, signal.SIGINT)
            server.stderr.read()
        assert server.wait(timeout=20) == 0


@pytest.fixture
def lab_server(tmp_path: Path) -> Iterator[tuple[str, str]]:
    with running_lab(tmp_path) as found:
        yield found


def ask(url: str, method: str = "GET", body: bytes | None = None) -> Any:
    """The JSON answer of the server; no proxy, whatever the environment says."""
    request = urllib.request.Request(url, data=body, method=method, headers={"Content-Type": "application/json"})
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=30) as reply:
        return json.load(reply)


def test_notebooks_of_somebody_else_are_copied_and_can_be_saved(tmp_path: Path) -> None:
    """As on a class server: the folder is root's, the user has a number and no name here."""
    uid = "54321"
    home = Path("/var/lib/xdp-lab") / f"home-{uid}"
    shutil.rmtree(home, ignore_errors=True)
    try:
        with running_lab(tmp_path, "--user", uid) as (address, token):
            url = f"{address}api/contents/notebooks/00-tour.ipynb?token={token}"
            notebook = ask(url)
            notebook["content"]["cells"][0]["source"] = "changed"
            body = json.dumps({key: notebook[key] for key in ("type", "format", "content")}).encode()
            ask(url, "PUT", body)
        saved = home / "xdp-lab" / "notebooks" / "00-tour.ipynb"
        assert json.loads(saved.read_text())["cells"][0]["source"] in ("changed", ["changed"])
        assert saved.stat().st_uid == int(uid)
        assert "changed" not in (ROOT / "notebooks" / "00-tour.ipynb").read_text()[:200]
        with running_lab(tmp_path, "--user", uid) as (address, token):  # what is there stays
            url = f"{address}api/contents/notebooks/00-tour.ipynb?token={token}"
            assert ask(url)["content"]["cells"][0]["source"] == "changed"
    finally:
        shutil.rmtree(home)


async def in_terminal(address: str, token: str, command: str, until: str) -> str:
    """What a terminal of the server shows after ``command``, up to ``until``."""
    client = AsyncHTTPClient()
    made = await client.fetch(f"{address}api/terminals?token={token}", method="POST", body="")
    name = json.loads(made.body)["name"]
    url = f"{address.replace('http', 'ws', 1)}terminals/websocket/{name}?token={token}"
    line = await websocket_connect(url)
    await line.write_message(json.dumps(["stdin", f"{command}\r"]))
    shown = ""
    while until not in shown:
        kind, *rest = json.loads(await asyncio.wait_for(line.read_message(), 20))
        shown += rest[0] if kind == "stdout" else ""
    line.close()
    while await asyncio.wait_for(line.read_message(), 20) is not None:  # until the server has closed its end, too
        pass
    return shown


def test_a_terminal_is_in_the_sandbox(lab_server: tuple[str, str]) -> None:
    command = "ip -o link; readlink /proc/self/ns/net; cat /proc/self/uid_map; command -v labkit; echo en''d"
    shown = asyncio.run(in_terminal(*lab_server, command, "end"))
    assert re.findall(r"\d+: (\w+): <", shown) == ["lo"]
    assert os.readlink("/proc/self/ns/net") not in shown
    assert re.search(r"\b0 +65534 +1\b", shown)
    assert f"{ROOT}/.venv/bin/labkit" in shown


def test_lab_serves_this_machine_alone_asks_for_the_token_and_leaves_nothing(
    lab_server: tuple[str, str], tmp_path: Path
) -> None:
    address, token = lab_server
    assert address.startswith("http://127.0.0.1:")
    # No proxy, whatever the environment says.
    get = urllib.request.build_opener(urllib.request.ProxyHandler({})).open
    with pytest.raises(urllib.error.HTTPError, match="403"):
        get(f"{address}api/contents")
    with get(f"{address}lab?token={token}") as page:
        assert re.search(r'"news": *\{"disabled": *true', page.read().decode())
    with get(f"{address}api/kernelspecs?token={token}") as reply:
        assert json.load(reply)["default"] == "python3"
    # Nothing of Jupyter's outside the lab's own folder.
    assert [p.name for p in tmp_path.iterdir()] == ["home"]
    made = {str(p.relative_to(tmp_path)) for p in [*tmp_path.glob("home/*"), *tmp_path.glob("home/.local/*/*")]}
    assert made == {"home/.local", "home/xdp-lab", "home/.local/state/xdp-lab"}
