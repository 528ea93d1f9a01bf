"""The rings of a real AF_XDP socket in Chromium: they turn while packets come, and a program's habits are changed by hand."""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import test_panel_front
from playwright.sync_api import Browser, Page
from stand import Stand, accessibility_faults

import labkit as lk
from labkit.lesson import AtWork
from labkit.widgets import Rings
from labkit.widgets.assets import RINGS_CSS, RINGS_ESM
from labkit.xsk import Umem, XskSocket

ARTEFACTS = Path(__file__).parents[1] / "artefacts"
LIVE = "setInterval(() => window.tell(null).then((state) => model.take(state)), 50)"
browser = test_panel_front.browser  # the fixture: one Chromium for these tests


@pytest.fixture
def stand(browser: Browser) -> Iterator[Stand]:
    with lk.Lab(lk.Topology.pair(), name="turning") as lab:
        client, server = lab["client"]["eth0"], lab["server"]["eth0"]
        program = lab.load(lk.compile(path="bpf/to_socket.c"))
        program.attach(server)
        sizes = dict.fromkeys(("receive_ring", "fill_ring", "transmit_ring", "completion_ring"), 8)
        with XskSocket(server, umem=Umem(16), **sizes) as xsk, AtWork(xsk, client) as work:
            program.maps["sockets"][0] = xsk
            stand = Stand(browser, Rings(work), (RINGS_ESM, RINGS_CSS), ("state",), ".rg-ring")
            yield stand
            stand.close()
    assert stand.complaints == []


def shown(page: Page, ring: str) -> str:
    return page.inner_text(f".rg-ring:has(b:text-is('{ring}'))")


def test_by_keyboard_alone_the_fill_ring_runs_dry(stand: Stand) -> None:
    page = stand.open()
    page.evaluate(LIVE)
    assert page.locator(".rg-ring").count() == 4
    assert page.inner_text(".rg-sum") == "8 + 8 = 16 frames, the whole memory"
    assert [name for name in ("fill", "transmit") if "waits for a kick" in shown(page, name)] == ["transmit"]
    page.focus("[data-key='gives_back=all']")
    page.keyboard.press("ArrowLeft")  # round to the last one
    assert page.evaluate("document.activeElement.dataset.key") == "gives_back=nothing"
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Let packets come"
    page.keyboard.press("Space")
    page.get_by_text("Stop the packets").wait_for()
    page.get_by_text("no empty frame in the fill ring").wait_for()
    assert shown(page, "fill").startswith("0")
    assert page.inner_text(".rg-places tr:has(th:has-text('with the program')) td") == "8"
    assert page.inner_text(".rg-sum") == "8 + 8 = 16 frames, the whole memory"
    page.keyboard.press("Space")
    page.get_by_text("Let packets come").wait_for()
    page.get_by_text("all", exact=True).click()
    page.wait_for_function("document.querySelector('.rg-places tr:last-child td').textContent === '8'")
    page.wait_for_function("document.querySelector('.rg-ring .rg-filled').textContent === '8'")
    assert stand.widget.errors == type(stand.widget.errors)()


def test_each_frame_is_answered_and_the_end_is_told(stand: Stand) -> None:
    page = stand.open()
    page.evaluate(LIVE)
    answers: list[int] = []
    deadline = time.monotonic() + 20
    while not answers or answers[-1] < 7:  # one answer may stand for two frames, where drawing takes long
        assert time.monotonic() < deadline, answers
        page.wait_for_timeout(20)
        answers = [message["seq"] for message in stand.heard if message["type"] == "ack"]
    assert answers == sorted(answers)
    assert max(after - before for before, after in pairwise(answers)) <= 2, "no more than two go unanswered"
    stand.widget.xsk.close()
    page.get_by_text("The socket is closed; this is its last moment.").wait_for()
    assert page.is_disabled("text=Let packets come")
    assert page.locator(".rg-ring").count() == 4


def test_it_stands_out_is_accessible_and_nothing_spills(stand: Stand) -> None:
    stand.widget.at_work.gives_back, stand.widget.at_work.pace = "half", "now and then"
    stand.widget.at_work.send()
    schemes: tuple[Any, ...] = ("light", "dark")
    for scheme in schemes:
        page = stand.open(color_scheme=scheme)
        page.evaluate(LIVE)
        page.get_by_text("no empty frame in the fill ring").wait_for()
        assert accessibility_faults(page) == [], scheme
        for width in (1060, 380):
            page.set_viewport_size({"width": width, "height": 900})
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), (scheme, width)
            page.locator(".rg-panel").screenshot(path=ARTEFACTS / f"rings-{scheme}-{width}.png")
