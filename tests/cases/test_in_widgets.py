"""Live widgets in a notebook: threads that speak, callbacks that fail, cells that block, kernels that are gone."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

import labkit as lk
from labkit.widgets import LivePanel


def until(condition: Callable[[], Any]) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)


def say(panel: LivePanel, **message: Any) -> None:
    panel._heard(panel, message, [])


def test_ju_01_and_02_what_a_thread_or_a_callback_meets_is_shown_not_printed(
    lab: lk.Lab, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """JU-01, JU-02, ipywidgets#4020 and #2612: what threads print is lost, and a callback's error is never seen."""
    unseen: list[Any] = []
    monkeypatch.setattr(threading, "excepthook", unseen.append)
    panel = LivePanel(lab, interval_s=0.01)
    say(panel, type="control", id="program", value="no such program")
    assert "no such program" in panel.frame["error"]["text"]
    assert panel.frame["error"]["remedy"]
    say(panel, type="hello")

    def broken(**_: object) -> None:
        raise RuntimeError("the counters are away")

    monkeypatch.setattr(lab.observer, "sample", broken)
    until(lambda: say(panel, type="hello") or "the counters are away" in panel.frame["error"]["text"])
    monkeypatch.undo()
    assert isinstance(panel.errors[-1], RuntimeError)
    assert unseen == []
    assert capfd.readouterr() == ("", "")


def test_ju_03_the_panel_goes_on_while_a_cell_runs(lab: lk.Lab) -> None:
    """JU-03, jupyter/notebook#7126: a loop in a cell holds up every message; the panel has a thread of its own."""
    panel = LivePanel(lab, interval_s=0.01)
    said = threading.Thread(target=lambda: say(panel, type="action", name="start"))
    said.start()  # as from a subshell of the kernel, while this thread is busy as a cell is
    until(lambda: panel.ticker.acknowledge(panel.ticker.seq) or panel.frame["state"] == "running")
    said.join()
    say(panel, type="action", name="stop")
    assert panel.frame["state"] == "stopped"
    assert lab.ledger().unaccounted == 0


def test_ju_04_a_saved_panel_is_a_picture_with_a_way_on(lab: lk.Lab) -> None:
    """JU-04, ipywidgets#3823: reopened, a widget is "model not found"; here a picture lies under it."""
    panel = LivePanel(lab)
    bundle = panel._repr_mimebundle_()
    assert bundle is not None
    saved = bundle[0]["text/html"]
    assert "<svg" in saved
    assert "run" in saved.lower()
    assert "model not found" not in saved
