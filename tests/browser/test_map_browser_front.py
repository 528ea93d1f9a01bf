"""The map browser in Chromium, before real maps: found, sorted and written to by keyboard alone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import test_panel_front
from playwright.sync_api import Browser
from stand import Stand, accessibility_faults

import labkit as lk
from labkit.widgets import MapBrowser
from labkit.widgets.assets import MAP_BROWSER_CSS, MAP_BROWSER_ESM

N = 1_009  # a prime
ARTEFACTS = Path(__file__).parents[1] / "artefacts"
LIVE = "setInterval(() => window.tell(null).then((state) => model.take(state)), 50)"
browser = test_panel_front.browser  # the fixture: one Chromium for these tests


@pytest.fixture
def program() -> Iterator[lk.Program]:
    with lk.Lab(lk.Topology.pair(), name="browsing") as lab:
        made = lab.load(lk.compile(path="bpf/drop_by_protocol.c"))
        made.attach(lab["server"]["eth0"])
        yield made


@pytest.fixture
def stand(browser: Browser, program: lk.Program) -> Iterator[Stand]:
    view = MapBrowser(program, name="keep_protocol")
    stand = Stand(browser, view, (MAP_BROWSER_ESM, MAP_BROWSER_CSS), ("state",), ".mb-entries tbody tr")
    yield stand
    stand.close()
    assert stand.complaints == []


def send(stand: Stand, packets: int) -> None:
    lab = stand.widget.lab
    lk.send_frames(lab["client"]["eth0"], bytes(lk.udp(lab["client"], lab["server"])), packets)


def test_by_keyboard_alone_a_protocol_is_found_kept_and_let_go_again(stand: Stand, program: lk.Program) -> None:
    page = stand.open()
    page.evaluate(LIVE)
    page.focus(".mb-search")
    page.keyboard.type("udp")
    page.get_by_text("Rows 1 to 1 of 1 found of 256 entries").wait_for()
    for _ in range(20):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.classList.contains('mb-open')"):
            break
    page.keyboard.press("Enter")
    page.wait_for_selector(".mb-form input")
    assert page.evaluate("document.activeElement.labels[0].textContent") == "value"
    page.keyboard.press("Control+A")
    page.keyboard.type("many")
    page.keyboard.press("Enter")
    page.get_by_text("✗ “many” does not fit this. Give a whole number from 0 to 4,294,967,295.").wait_for()
    page.keyboard.press("Control+A")
    page.keyboard.type("1")
    page.keyboard.press("Enter")
    page.get_by_text("✓ keep_protocol[UDP] was written.").wait_for()
    assert program.maps["keep_protocol"][17] == 1
    assert page.evaluate("document.activeElement.getAttribute('aria-label')") == "UDP 17: write or delete"
    send(stand, N)
    stand.widget.lab.ledger()
    assert {name: n for name, n in (program.verdicts() or {}).items() if n} == {"XDP_PASS": N}
    page.get_by_text("Undo: the value of keep_protocol[UDP]").focus()
    page.keyboard.press("Enter")
    page.get_by_text("keep_protocol[UDP] is as it was before.").wait_for()
    assert program.maps["keep_protocol"][17] == 0
    page.focus(".mb-open")
    page.keyboard.press("Enter")
    page.wait_for_selector(".mb-form input")
    page.keyboard.press("Escape")
    page.wait_for_function("!document.querySelector('.mb-form input')")
    assert page.evaluate("document.activeElement.className") == "mb-open"
    assert len(stand.widget.errors) == 1


def test_what_comes_is_told_by_numbers_and_pages_turn(stand: Stand) -> None:
    page = stand.open()
    page.evaluate(LIVE)
    page.select_option(".mb-map", label="packets_by_protocol of drop_by_protocol")
    page.get_by_text("CPUs").wait_for()
    send(stand, N)
    page.get_by_text(f"+{N:,}").wait_for()
    page.get_by_role("button", name="value").click()
    page.wait_for_function("document.querySelector('.mb-entries tbody tr').textContent.startsWith('UDP')")
    assert page.get_attribute(".mb-entries th.mb-value", "aria-sort") == "descending"
    page.get_by_text("Next").click()
    page.get_by_text("Rows 26 to 50 of 256 entries").wait_for()
    page.get_by_text("Previous").click()
    page.get_by_text("Count changes from now").click()
    page.wait_for_function(f"!document.querySelector('.mb-entries').textContent.includes('+{N:,}')")
    page.get_by_text("one by one").click()
    page.get_by_text("all CPUs").wait_for()
    page.locator(".mb-open").first.focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    assert page.evaluate("[...document.querySelectorAll('.mb-open')].indexOf(document.activeElement)") == 2
    assert page.locator(".mb-open[tabindex='0']").count() == 1
    stand.widget.lab.close()
    page.get_by_text("this is the last moment").wait_for()
    assert page.locator(".mb-open").count() == 0
    assert page.is_disabled(".mb-search")
    assert not stand.widget.errors


def test_what_a_map_holds_is_text_and_never_markup(stand: Stand) -> None:
    page = stand.open()
    page.evaluate(LIVE)
    page.fill(".mb-search", "<img src=x onerror=alert(1)>")
    page.get_by_text("Nothing found").wait_for()
    assert page.locator("#widget img").count() == 0


def test_it_is_accessible_and_nothing_spills(stand: Stand) -> None:
    send(stand, N)
    schemes: tuple[Any, ...] = ("light", "dark")
    for scheme in schemes:
        page = stand.open(color_scheme=scheme)
        page.evaluate(LIVE)
        page.locator(".mb-open").nth(3).click()
        page.wait_for_selector(".mb-form input")
        assert accessibility_faults(page) == [], scheme
        for width in (1060, 380):
            page.set_viewport_size({"width": width, "height": 900})
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), (scheme, width)
            page.locator(".mb-panel").screenshot(path=ARTEFACTS / f"map-browser-{scheme}-{width}.png")
        page.keyboard.press("Escape")
        page.wait_for_function("!document.querySelector('.mb-form input')")
        page.select_option(".mb-map", label="verdicts of drop_by_protocol")
        page.get_by_text("Read-only here.").wait_for()
        assert accessibility_faults(page) == [], scheme
        page.select_option(".mb-map", label="keep_protocol of drop_by_protocol")
        page.wait_for_selector(".mb-open")
