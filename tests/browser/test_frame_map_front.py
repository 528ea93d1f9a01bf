"""The frame's buffer in Chromium, in front of a real lab: every press sends a real frame through the real program.

The page is made here, with a stand-in for anywidget's model alone. Each test ends with a look at the console and at the
requests: no error, and nothing asked of anyone else.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import test_panel_front
from playwright.sync_api import Browser, Page
from stand import Stand, accessibility_faults

import labkit as lk
from labkit.widgets import FrameMap
from labkit.widgets.assets import FRAME_MAP_CSS, FRAME_MAP_ESM

ARTEFACTS = Path(__file__).parents[1] / "artefacts"
# What stands out of the panel (but for what may be scrolled), and texts of the drawing that lie on one another.
FAULTS = """() => {
  const panel = document.querySelector(".fm-panel").getBoundingClientRect();
  const found = [];
  for (const node of document.querySelectorAll(".fm-panel *")) {
    const box = node.getBoundingClientRect();
    if (!box.width || node.closest(".fm-room-for-art, .fm-scroll, .xdp-segments input")) continue;
    if (box.left < panel.left - 1 || box.right > panel.right + 1) found.push(`${node.tagName} ${node.textContent} spills`);
  }
  const texts = [...document.querySelectorAll("svg.fm-art text")].map((n) => [n.textContent, n.getBoundingClientRect()]);
  texts.forEach(([a, p], i) => texts.slice(i + 1).forEach(([b, q]) => {
    const x = Math.min(p.right, q.right) - Math.max(p.left, q.left);
    const y = Math.min(p.bottom, q.bottom) - Math.max(p.top, q.top);
    if (x > 1 && y > 5) found.push(`${a} × ${b}`);
  }));
  return found;
}"""
# The least contrast of a text of the drawing with any surface that may be behind it (relative luminance, WCAG 2.2).
CONTRAST = """() => {
  const brush = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const rgb = (colour) => {
    brush.fillStyle = colour;
    brush.fillRect(0, 0, 1, 1);
    return [...brush.getImageData(0, 0, 1, 1).data];
  };
  const linear = (v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
  const luminance = ([r, g, b]) => 0.2126 * linear(r / 255) + 0.7152 * linear(g / 255) + 0.0722 * linear(b / 255);
  const ratio = (a, b) => {
    const [light, dark] = [luminance(rgb(a)), luminance(rgb(b))].sort((p, q) => q - p);
    return (light + 0.05) / (dark + 0.05);
  };
  const art = getComputedStyle(document.querySelector("svg.fm-art"));
  const of = (name) => art.getPropertyValue(`--fm-${name}`).trim();
  const pairs = ["room", "meta", "link", "tag", "network", "transport", "payload", "new"].map((name) => ["ink", name]);
  pairs.push(["faint", "room"], ["faint", "stripe"], ["soft", "kernel"], ["soft", "bg"], ["bad", "bg"], ["on-accent", "accent"]);
  return pairs.map(([text, surface]) => [ratio(of(text), of(surface)), `${text} on ${surface}`]).sort((a, b) => a[0] - b[0])[0];
}"""


browser = test_panel_front.browser  # the fixture: one Chromium for these tests


class Bench(Stand):
    """A lab, and its widget."""

    def __init__(self, browser: Browser, lab: lk.Lab) -> None:
        self.lab = lab
        super().__init__(
            browser, FrameMap(lab), (FRAME_MAP_ESM, FRAME_MAP_CSS), ("drawing", "table", "state"), ".fm-handle"
        )


@pytest.fixture
def bench(browser: Browser) -> Iterator[Bench]:
    with lk.Lab(lk.Topology.pair(), name="map") as lab:
        bench = Bench(browser, lab)
        yield bench
        bench.close()
    assert bench.complaints == []


def after(page: Page, steps: int) -> None:
    page.wait_for_function(f"document.querySelector('.xdp-who').textContent.includes('{steps} of 8 steps')")


def test_by_keyboard_alone(bench: Bench) -> None:
    page = bench.open()
    page.focus("[data-key='kind=meta']")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.getAttribute('aria-label')") == "bytes"
    page.keyboard.press("Enter")  # as it stands there: -8
    after(page, 1)
    page.focus("[data-key='kind=meta']")
    page.keyboard.press("ArrowLeft")  # round to the last one
    assert page.evaluate("document.activeElement.dataset.key") == "kind=write"
    assert page.is_disabled(".fm-bytes")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Try it"
    page.keyboard.press("Space")
    after(page, 2)
    assert page.inner_text("[role=status] >> nth=1") == "Step 2: 8 bytes of metadata written."
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    strip = "document.activeElement.getAttribute('aria-valuetext')"
    assert page.evaluate("document.activeElement.dataset.strip") == "2"
    assert "h_dest, 02:00:00:00:01:02" in page.evaluate(strip)
    page.keyboard.press("Home")
    assert page.evaluate(strip) == "byte a0; metadata, data_meta + 0, 8 bytes before data"
    page.keyboard.press("ArrowRight")
    assert page.inner_text(".fm-value") == "a1"
    assert page.inner_text(".fm-what").startswith("metadata data_meta + 1, 7 bytes before data")
    page.keyboard.press("PageDown")
    page.keyboard.press("PageDown")
    assert "IPv4 version, 4" in page.evaluate(strip)
    assert "IPv4 ihl, 5" in page.evaluate(strip)
    assert page.is_visible(".fm-at-byte")
    page.keyboard.press("End")
    assert "byte 21; payload, data + 63" in page.evaluate(strip)
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Shift+Tab")
    assert page.evaluate("document.activeElement.textContent") == "Try it"
    ledger = bench.lab.ledger()
    assert (ledger.sent, ledger.unaccounted) == (3, 0)


def test_by_mouse_and_to_the_end(bench: Bench) -> None:
    page = bench.open()
    page.fill(".fm-bytes", "-3")
    page.get_by_text("Try it").click()
    after(page, 1)
    assert "refused with −13 (EACCES)" in page.inner_html(".fm-art")
    assert page.locator(".fm-handle").count() == 1
    page.get_by_text("large", exact=True).click()
    page.wait_for_function("document.querySelector('.fm-art').textContent.includes('1,514 bytes')")
    folds = page.evaluate("model.get('drawing').axis.filter((each) => each[4])")
    _, _, x, width, _ = folds[0]
    box = page.locator(".fm-handle").bounding_box()
    assert box
    page.mouse.move(box["x"] + x + width / 2 - page.evaluate("model.get('drawing').axis[0][2]"), box["y"] + 9)
    page.get_by_text("are folded away here").wait_for()
    page.get_by_text("generic", exact=True).click()
    page.get_by_text("generator", exact=True).click()
    page.wait_for_function("model.get('state').chosen.sender === 'generator'")
    page.get_by_text("Undo").click()
    after(page, 0)
    assert page.is_disabled("text=Reset")
    bench.lab.close()
    page.evaluate("window.tell(null).then((state) => model.take(state))")
    page.get_by_text("The lab is closed.").wait_for()
    assert page.is_disabled("text=Try it")
    assert page.is_disabled("[data-key='mode=native']")


def test_it_stands_out_and_nothing_spills(bench: Bench) -> None:
    for kind, size in (("meta", -8), ("write", 0), ("head", -4), ("meta", -3), ("tail", -10)):
        bench.widget.attempt(kind, size)
    schemes: tuple[Any, ...] = ("light", "dark")
    for scheme in schemes:
        page = bench.open(color_scheme=scheme)
        worst = page.evaluate(CONTRAST)
        assert worst[0] >= 4.5, (scheme, worst)
        assert accessibility_faults(page) == [], scheme
        for width in (1060, 700, 360):
            page.set_viewport_size({"width": width, "height": 900})
            most = min(max(width - 52, 820), 1060)
            page.wait_for_function(f"Math.abs(document.querySelector('.fm-art').clientWidth - {most}) < 30")
            assert page.evaluate(FAULTS) == [], (scheme, width)
            page.locator(".fm-panel").screenshot(path=ARTEFACTS / f"frame-map-{scheme}-{width}.png")
