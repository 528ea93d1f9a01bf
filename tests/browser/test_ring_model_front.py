"""The ring model in Chromium, in front of its real Python side: sliders by keyboard, what changed, the end of memory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import test_panel_front
from playwright.sync_api import Browser, Page
from stand import Stand, accessibility_faults

from labkit.models import Knobs, Scheme
from labkit.widgets import RingModel
from labkit.widgets.assets import RING_MODEL_CSS, RING_MODEL_ESM

ARTEFACTS = Path(__file__).parents[1] / "artefacts"
# Asks again when it was answered, and not before: a busy machine would never catch up.
LIVE = """void (async () => {
  for (;;) {
    model.take(await window.tell(null));
    await new Promise((again) => setTimeout(again, 50));
  }
})()"""
# What stands out of the panel, but for what may be scrolled; and texts of a drawing that lie on one another.
FAULTS = """() => {
  const panel = document.querySelector(".rm-panel").getBoundingClientRect();
  const found = [];
  for (const node of document.querySelectorAll(".rm-panel *")) {
    const box = node.getBoundingClientRect();
    if (!box.width || node.closest(".xdp-wide, .xdp-segments input, .xdp-hidden")) continue;
    if (box.left < panel.left - 1 || box.right > panel.right + 1) found.push(`${node.tagName} ${node.textContent} spills`);
  }
  for (const art of document.querySelectorAll(".rm-panel svg")) {
    const texts = [...art.querySelectorAll("text")].map((n) => [n.textContent, n.getBoundingClientRect()]);
    texts.forEach(([a, p], i) => texts.slice(i + 1).forEach(([b, q]) => {
      const x = Math.min(p.right, q.right) - Math.max(p.left, q.left);
      const y = Math.min(p.bottom, q.bottom) - Math.max(p.top, q.top);
      if (x > 1 && y > 5) found.push(`${a} × ${b}`);
    }));
  }
  return found;
}"""

browser = test_panel_front.browser  # the fixture: one Chromium for these tests


def stand_of(browser: Browser, widget: RingModel) -> Stand:
    return Stand(browser, widget, (RING_MODEL_ESM, RING_MODEL_CSS), ("state",), ".rm-station")


@pytest.fixture
def stand(browser: Browser) -> Iterator[Stand]:
    stand = stand_of(browser, RingModel())
    yield stand
    stand.close()
    assert stand.complaints == []


def open_live(stand: Stand, **options: Any) -> Page:
    page = stand.open(**options)
    page.evaluate(LIVE)
    return page


def slider(page: Page, name: str) -> str:
    text: str = page.get_attribute(f"[data-key='{name}']", "aria-valuetext") or ""
    return text


def test_by_keyboard_a_ring_grows_and_what_came_of_it_is_told(stand: Stand) -> None:
    page = open_live(stand)
    page.focus("[data-key='tx_ring']")
    page.keyboard.press("ArrowRight")
    page.get_by_text("512 entries → 1,024 entries").wait_for()
    assert stand.widget.knobs == Knobs(tx_ring=1024)
    assert page.evaluate("document.activeElement.dataset.key") == "tx_ring"
    shown = f"{stand.widget.outcome.out_pps / 1e6:.2f} Mpps"
    assert page.inner_text(".rm-stations > :last-child .rm-rate") == shown
    assert page.get_attribute("text=transmit ring alone", "aria-pressed") == "true"
    assert "fitted on it" in page.inner_text(".rm-published")
    page.get_by_text("Since the last setting: ").wait_for(state="attached")
    page.focus("[data-key='scheme=half pages']")
    page.keyboard.press("ArrowRight")
    page.get_by_text("half pages → free the page").wait_for()
    page.focus("text=rx-usecs 25")
    page.keyboard.press("Space")
    page.wait_for_function("document.querySelector('[data-key=rx_usecs]').getAttribute('aria-valuetext') === '25 µs'")
    page.wait_for_function(
        "document.querySelector('[data-key=tx_ring]').getAttribute('aria-valuetext') === '512 entries'"
    )
    page.focus("text=Reset")
    page.keyboard.press("Enter")
    page.wait_for_function("document.querySelector('.xdp-do .xdp-button').disabled")
    assert stand.widget.knobs == Knobs()
    assert slider(page, "rx_usecs") == "driver chooses"


def test_the_end_of_memory_is_said_and_the_ledger_adds_up(stand: Stand) -> None:
    page = open_live(stand)
    stand.widget.knobs = Knobs(scheme=Scheme.NOBODY)
    page.get_by_text("No page comes home").first.wait_for()
    page.focus("[data-key='memory_pages']")
    page.keyboard.press("Home")
    page.get_by_text("Out of memory").first.wait_for()
    assert page.locator(".rm-broken").count() == 1
    numbers = [
        int(text.replace(",", ""))
        for text in page.locator(".xdp-ledger:has(tfoot) tbody td:nth-child(3)").all_inner_texts()
    ]
    outcome = stand.widget.outcome
    assert numbers[0] == outcome.offered == sum(numbers[1:])
    assert numbers[4] == outcome.lost["no memory"] > 0
    assert page.inner_text(".xdp-ledger tfoot .xdp-n >> nth=0") == "0"


def test_what_is_refused_puts_the_slider_back(stand: Stand) -> None:
    stand.widget.knobs = Knobs(rx_ring=16, memory_pages=64)
    page = open_live(stand)
    page.focus("[data-key='rx_ring']")
    page.keyboard.press("End")
    page.get_by_text("✗ memory_pages can't be 64").wait_for()
    page.wait_for_function(
        "document.querySelector('[data-key=rx_ring]').getAttribute('aria-valuetext') === '16 entries'"
    )
    assert stand.widget.knobs.rx_ring == 16
    assert len(stand.widget.errors) == 1


def test_fixed_knobs_stay_and_the_end_is_told(browser: Browser) -> None:
    stand = stand_of(browser, RingModel(fixed=("tx_ring", "costs")))
    page = open_live(stand)
    assert page.is_disabled("[data-key='tx_ring']")
    assert page.is_enabled("[data-key='rx_ring']")
    assert page.is_disabled("text=transmit ring alone")
    page.click("summary >> nth=0")
    assert page.is_disabled("[data-key='page_ns']")
    page.evaluate("model.send({ type: 'set', id: 'tx_ring', value: 64 })")
    page.get_by_text("✗ tx_ring can't be moved here.").wait_for()
    stand.widget.close()
    page.get_by_text("Closed. Run the cell").wait_for()
    assert page.is_disabled("[data-key='rx_ring']")
    stand.close()
    assert stand.complaints == []


def test_it_is_accessible_and_nothing_spills(stand: Stand) -> None:
    stand.widget.knobs = Knobs(tx_ring=1024)
    stand.widget.knobs = Knobs(scheme=Scheme.NOBODY, tx_ring=1024, memory_pages=8_192)
    assert stand.widget.outcome.out_of_memory
    schemes: tuple[Any, ...] = ("light", "dark")
    for scheme in schemes:
        page = stand.open(color_scheme=scheme)
        for summary in page.locator("summary").all():
            summary.click()
        page.get_by_text("fitted on: default tuning, sent").first.wait_for()
        assert accessibility_faults(page) == [], scheme
        for width in (1060, 760, 360):
            page.set_viewport_size({"width": width, "height": 900})
            page.wait_for_function(f"Math.abs(document.querySelector('.rm-panel').clientWidth - {width - 26}) < 4")
            page.wait_for_function("document.querySelector('.rm-plot svg.xdp-art').clientWidth <= innerWidth")
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), (scheme, width)
            page.wait_for_function(f"({FAULTS})().length === 0")
            page.locator(".rm-panel").screenshot(path=ARTEFACTS / f"ring-model-{scheme}-{width}.png")
