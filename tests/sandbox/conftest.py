"""Sandboxes need root to start and, inside, files that everybody may read."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from labkit.sandbox.ground import HOMES

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The launcher needs root to be tested at all."""
    if os.geteuid() != 0:
        for item in items:
            if HERE in item.path.parents:
                item.add_marker(pytest.mark.skip(reason="needs root: run sudo ./env/test"))


@pytest.fixture(scope="session")
def scripts() -> Iterator[Path]:
    """A folder that everybody may enter, with the scripts that run inside."""
    with tempfile.TemporaryDirectory(prefix="xdp-lab-test-", dir="/tmp") as name:
        folder = Path(name)
        folder.chmod(0o755)
        for file in HERE.glob("*.py"):
            if not file.name.startswith(("test_", "conftest")):
                shutil.copy(file, folder)
                (folder / file.name).chmod(0o644)
        yield folder


@pytest.fixture(scope="session", autouse=True)
def homes() -> Iterator[None]:
    """Homes that the lab made for the tests' users, who are numbers without a name, go again."""
    before = set(HOMES.glob("home-*"))
    yield
    for home in set(HOMES.glob("home-5432?")) - before:
        shutil.rmtree(home)


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder in which everybody may do everything."""
    with tempfile.TemporaryDirectory(prefix="xdp-lab-test-", dir="/tmp") as name:
        folder = Path(name)
        folder.chmod(0o777)
        yield folder
