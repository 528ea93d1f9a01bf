"""What ``import labkit as lk`` offers, and that it costs nothing before it is used."""

from __future__ import annotations

import subprocess
import sys

import labkit as lk


def test_every_name_is_there() -> None:
    for name in lk.__all__:
        assert getattr(lk, name) is not None
    assert set(lk.__all__) <= set(dir(lk))


def test_what_lessons_and_the_readme_use_is_offered() -> None:
    wanted = (
        "replay tcp_transfer capture Capture CapturedFrame read_pcap write_pcap PingReport TcpReport lesson widgets"
    )
    assert set(wanted.split()) <= set(lk.__all__)
    assert callable(lk.capture)
    assert lk.lesson.predict is lk.predict


def test_importing_it_imports_nothing_heavy() -> None:
    code = "import sys, labkit; print(*sorted({'numpy', 'scapy', 'pyroute2', 'ipywidgets', 'labkit.lesson'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == ""
