"""The map of pages in Chromium, in front of real page pools: pages leave, wait in a socket, and go home when it is read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import test_panel_front
from playwright.sync_api import Browser, Page
from stand import Stand, accessibility_faults

import labkit as lk
from labkit.lesson import PagesAtWork
from labkit.widgets import PageMap
from labkit.widgets.assets import PAGE_MAP_CSS, PAGE_MAP_ESM

ARTEFACTS = Path(__file__).parents[1] / "artefacts"
LIVE = "setInterval(() => window.tell(null).then((state) => model.take(state)), 50)"
browser = test_panel_front.browser  # the fixture: one Chromium for these tests


@pytest.fixture
def stand(browser: Browser) -> Iterator[Stand]:
    with lk.Lab(lk.Topology.pair(), name="homing") as lab, PagesAtWork(lab) as work:
        stand = Stand(browser, PageMap(work), (PAGE_MAP_ESM, PAGE_MAP_CSS), ("state",), ".pm-spot")
        yield stand
        stand.close()
    assert stand.complaints == []


def number(page: Page, place: str) -> int:
    return int(page.inner_text(f".pm-spot:has(span:text-is('{place}')) .pm-count").replace(",", ""))


def sums(page: Page) -> None:
    """What is in the boxes adds up to the line under them, of one and the same drawing."""
    boxes, line, bad = page.evaluate("""() => [
        [...document.querySelectorAll(".pm-count")].map((n) => Number(n.textContent.replace(",", ""))),
        document.querySelector(".pm-sum").textContent, document.querySelector(".pm-sum.xdp-bad") !== null]""")
    assert f"= {sum(boxes):,} in flight" in line
    assert not bad


def test_by_keyboard_pages_are_parked_and_sent_home(stand: Stand) -> None:
    stand.widget.at_work.choose(reads="never")
    page = stand.open()
    page.evaluate(LIVE)
    page.focus("text=Let frames come")
    page.keyboard.press("Space")
    page.get_by_text("Stop the frames").wait_for()
    page.wait_for_function("Number(document.querySelectorAll('.pm-count')[6].textContent) >= 34")
    page.keyboard.press("Space")
    page.get_by_text("Let frames come").wait_for()
    waiting = stand.widget.at_work.sink.queued()
    page.wait_for_function(f"document.querySelectorAll('.pm-count')[6].textContent === '{waiting}'")
    assert number(page, "socket") == waiting >= 34
    sums(page)
    page.keyboard.press("Shift+Tab")
    assert page.evaluate("document.activeElement.textContent") == "Read the socket"
    page.keyboard.press("Enter")
    page.wait_for_function("document.querySelectorAll('.pm-count')[6].textContent === '0'")
    page.wait_for_function("[...document.querySelectorAll('.pm-away')].every((marks) => !marks.getAttribute('d'))")
    sums(page)
    page.focus("[data-key='program=passes them']")
    page.keyboard.press("ArrowRight")
    page.wait_for_function("model.get('state').controls[1].value === 'drops them'")
    assert list(stand.widget.errors) == []
    answers = [message["seq"] for message in stand.heard if message["type"] == "ack"]
    assert answers == sorted(answers)
    assert len(answers) >= 3


def test_the_end_is_told(stand: Stand) -> None:
    page = stand.open()
    page.evaluate(LIVE)
    stand.widget.at_work.close()
    page.get_by_text("this is its last moment").wait_for()
    assert page.is_disabled("text=Let frames come")
    assert page.is_disabled("text=Read the socket")


def test_it_is_accessible_and_nothing_spills(stand: Stand) -> None:
    work = stand.widget.at_work
    work.choose(reads="never")
    work.send(5)
    work.wait()
    work.choose(source="the generator")
    work.send(2)
    work.wait()
    schemes: tuple[Any, ...] = ("light", "dark")
    for scheme in schemes:
        page = stand.open(color_scheme=scheme)
        page.evaluate(LIVE)
        page.get_by_text("waits to end").first.wait_for()
        assert accessibility_faults(page) == [], scheme
        for width in (1060, 380):
            page.set_viewport_size({"width": width, "height": 900})
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), (scheme, width)
            page.locator(".pm-panel").screenshot(path=ARTEFACTS / f"page-map-{scheme}-{width}.png")
