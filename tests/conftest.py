"""Fixtures for every test: the leak check, and the skip of kernel tests without privilege."""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy  # noqa: F401  # its threads start with the first import, and stay: no test is to blame
import pytest
from needs import lacking

from labkit.compile import client
from labkit.kernel.netns import namespace_inode

_NEEDS_ROOT = ("kernel", "cases", "sandbox", "notebooks", "browser", "bench")
_DEADLINE_S = 20.0


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "leaks(reason): the test leaves something behind on purpose")
    config.addinivalue_line(
        "markers", "needs(feature): of labkit.kernel.features; skipped where the kernel hasn't got it"
    )


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Kernel tests need privilege: without it they are skipped, and the reason says how to run them."""
    if os.geteuid() == 0:
        return
    for item in items:
        if any(part in _NEEDS_ROOT for part in item.path.parts):
            item.add_marker(pytest.mark.skip(reason="needs root: run sudo ./env/test"))


def pytest_runtest_setup(item: pytest.Item) -> None:
    """A kernel may be built or patched without what some tests are about: `labkit doctor` says so, and so do they."""
    if why := lacking(item.nodeid):
        pytest.skip(why)


@dataclass(frozen=True)
class Belongings:
    """What this process holds: its descriptors, threads, namespaces, and the BPF objects behind its descriptors."""

    descriptors: frozenset[str]
    threads: frozenset[str]
    namespaces: frozenset[int]
    programs: frozenset[str]

    def beyond(self, other: Belongings) -> str:
        """What there is here and not in ``other``, in words; "" for nothing."""
        found = []
        for what in ("threads", "namespaces", "programs", "descriptors"):
            more = getattr(self, what) - getattr(other, what)
            if more:
                found.append(f"{what}: {sorted(map(str, more))}")
        return "; ".join(found)


def belongings() -> Belongings:
    """Read them from /proc: nothing that a library keeps about itself is trusted."""
    descriptors, programs = set(), set()
    compiler = str(client.descriptor())  # lives as long as the process, and is made anew when LLVM gives up
    for name in os.listdir("/proc/self/fd"):
        if name == compiler:
            continue
        try:
            target = os.readlink(f"/proc/self/fd/{name}")
        except OSError:
            continue
        if "bpf" in target:
            programs.add(f"{name} {target}")
        elif target.startswith("net:") or target.startswith("socket:"):
            descriptors.add(f"{name} {target}")
    threads, namespaces = set(), set()
    for tid in os.listdir("/proc/self/task"):
        try:
            name = Path(f"/proc/self/task/{tid}/comm").read_text().strip()
            namespaces.add(namespace_inode(f"self/task/{tid}"))
        except OSError:
            continue
        threads.add(f"{tid} {name}")
    return Belongings(frozenset(descriptors), frozenset(threads), frozenset(namespaces), frozenset(programs))


@pytest.fixture(autouse=True)
def no_leak(request: pytest.FixtureRequest) -> Iterator[None]:
    """After each test nothing is left of it: no thread, namespace, BPF object or socket of this process."""
    if request.node.get_closest_marker("leaks") or "browser" in request.node.path.parts:  # Playwright keeps threads
        yield
        return
    before = belongings()
    yield
    until = time.monotonic() + _DEADLINE_S
    while left := belongings().beyond(before):
        gc.collect()
        if time.monotonic() > until:
            pytest.fail(f"left behind: {left}")
        time.sleep(0.01)
