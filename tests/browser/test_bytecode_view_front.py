"""The bytecode view in Chromium, in front of a real program."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import test_panel_front
from playwright.sync_api import Browser
from stand import Stand, accessibility_faults

import labkit as lk
from labkit.widgets import BytecodeView
from labkit.widgets.assets import BYTECODE_CSS, BYTECODE_ESM

ARTEFACTS = Path(__file__).parents[1] / "artefacts"
SPILLS = """() => {
  const panel = document.querySelector(".xdp-panel").getBoundingClientRect();
  return [...document.querySelectorAll(".xdp-panel *")].filter((node) => {
    const box = node.getBoundingClientRect();
    return box.width && !node.closest(".bc-scroll, .xdp-hidden") && (box.left < panel.left - 1 || box.right > panel.right + 1);
  }).map((node) => node.outerHTML.slice(0, 80));
}"""
browser = test_panel_front.browser  # the fixture: one Chromium for these tests


@pytest.fixture
def stand(browser: Browser) -> Iterator[Stand]:
    with lk.Lab(lk.Topology.pair(), name="bytes") as lab:
        program = lab.load(lk.compile(path="bpf/drop_by_protocol.c"), "drop_by_protocol")
        view = BytecodeView(program)
        stand = Stand(browser, view, (BYTECODE_ESM, BYTECODE_CSS), ("shown", "state"), ".bc-row")
        yield stand
        stand.close()
    assert stand.complaints == []


def test_a_line_and_its_instructions_are_marked_together(stand: Stand) -> None:
    page = stand.open()
    listing = stand.widget.listing
    assert page.locator(".bc-row").count() == len(listing.compiled.rows)
    cost = next(each for each in listing.costs if "packets_by_protocol.lookup" in each.line.text)
    button = page.get_by_role("button", name=f"Line {cost.line.number}: {cost.compiled} instructions").first
    button.focus()
    page.keyboard.press("Enter")
    want = sum(row.line == cost.line for row in listing.compiled.rows)
    assert page.locator(".bc-row.bc-chosen").count() == want
    assert f"{cost.jited} bytes of machine code" in page.inner_text(".bc-said")
    page.get_by_text("as the kernel rewrote it", exact=True).first.click()
    assert page.locator(".bc-row.bc-chosen").count() == sum(row.line == cost.line for row in listing.kernel.rows)
    page.locator(".bc-row", has_text="exit").click()
    assert page.locator(".bc-line.bc-chosen .bc-text").inner_text().strip() == "}"
    last = stand.widget.listing.kernel.rows[-2].slot
    jumps = [row for row in stand.widget.listing.kernel.rows if row.target == last]
    assert page.locator(".bc-on").count() == len(jumps) > 0, "the arrows that lead there"
    page.get_by_text("bytes of machine code", exact=True).first.click()
    assert page.get_by_label(f"Line {cost.line.number}: {cost.jited} bytes").count() == 1


def test_search_goes_from_place_to_place(stand: Stand) -> None:
    page = stand.open()
    page.fill("input[type=search]", "map verdicts")
    want = sum("map verdicts" in row.words for row in stand.widget.listing.compiled.rows)
    assert page.inner_text(".bc-hits") == f"{want} places"
    page.keyboard.press("Enter")
    assert page.inner_text(".bc-hits") == f"1 of {want}"
    page.keyboard.press("Escape")
    assert page.locator(".bc-hit").count() == 0


def test_it_is_accessible_and_nothing_spills(stand: Stand) -> None:
    schemes: tuple[Any, ...] = ("light", "dark")
    for scheme in schemes:
        page = stand.open(color_scheme=scheme)
        page.locator(".bc-costs").nth(2).click()
        for width in (1060, 600, 360):
            page.set_viewport_size({"width": width, "height": 900})
            assert page.evaluate(SPILLS) == [], (scheme, width)
            page.locator(".xdp-panel").screenshot(path=ARTEFACTS / f"bytecode-{scheme}-{width}.png")
        assert accessibility_faults(page) == [], scheme
