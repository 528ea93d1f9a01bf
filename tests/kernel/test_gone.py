"""An interface that something else than the lab took away: every question says so, and the lab still closes."""

from __future__ import annotations

import errno
import subprocess
from collections.abc import Callable
from typing import Any

import pytest

import labkit as lk


def _take_away(host: lk.Host) -> None:
    host.run(lambda: subprocess.run(["ip", "link", "delete", "eth0"], check=True))


QUESTIONS: dict[str, Callable[[lk.Interface], Any]] = {
    "statistics": lambda i: i.statistics(),
    "driver statistics": lambda i: i.driver_statistics(),
    "features": lambda i: i.features(),
    "a feature": lambda i: i.set_feature("gro", True),
    "a feature by the kernel's name": lambda i: i.set_feature("rx-gro", True),
    "program": lambda i: i.xdp(),
    "MTU": lambda i: i.mtu,
    "set MTU": lambda i: i.set_mtu(1400),
    "up": lambda i: i.up,
    "set up": lambda i: i.set_up(),
    "set down": lambda i: i.set_down(),
    "carrier": lambda i: i.await_carrier(),
}


@pytest.mark.parametrize("question", QUESTIONS.values(), ids=QUESTIONS)
@pytest.mark.parametrize("host", ["client", "server"])
def test_every_question_says_that_it_is_gone(lab: lk.Lab, question: Callable[[lk.Interface], Any], host: str) -> None:
    _take_away(lab["client"])  # and with it its peer
    with pytest.raises(lk.TopologyError, match=f"The interface {host} eth0 is gone") as caught:
        question(lab[host]["eth0"])
    assert caught.value.errno == errno.ENODEV
    assert "make the lab again" in caught.value.remedy


def test_attaching_says_that_it_is_gone(lab: lk.Lab, verdicts: lk.ProgramSpec) -> None:
    program = lab.load(verdicts, "drop")
    _take_away(lab["client"])
    for mode in ("native", "generic"):
        with pytest.raises(lk.TopologyError, match="server eth0 is gone"):
            program.attach(lab["server"]["eth0"], mode=mode)


def test_closing_copes(verdicts: lk.ProgramSpec) -> None:
    lab = lk.Lab(lk.Topology.pair(), name="gone")
    link = lab.load(verdicts, "drop").attach(lab["server"]["eth0"])
    _take_away(lab["client"])
    link.close()
    lab.close()
    assert lab.closed
