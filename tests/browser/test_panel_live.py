"""The panel on a page, in front of its real Python side and a real lab: by mouse and keyboard, light, dark and narrow."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, sync_playwright
from stand import Stand, accessibility_faults

from labkit.compile import compile_source
from labkit.lab import Lab
from labkit.topology import Topology
from labkit.traffic.frames import udp
from labkit.traffic.generator import generate
from labkit.widgets import LivePanel
from labkit.widgets.assets import CSS, ESM

BPF = Path(__file__).resolve().parents[2] / "bpf"
PACKETS = 10_007  # prime
TAKE = "async () => window.model.take(await window.tell(null))"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path="/usr/bin/chromium", args=["--no-sandbox", "--disable-gpu"]
        )
        yield browser
        browser.close()


@pytest.fixture
def stand(browser: Browser) -> Iterator[Stand]:
    with Lab(Topology.pair(), name="live") as lab:
        lab.load(compile_source(path=BPF / "drop_all.c")).attach(lab["server"]["eth0"])
        generate(lab["client"]["eth0"], udp(lab["client"], lab["server"]), PACKETS)
        panel = LivePanel(lab, {"pass": BPF / "pass.c"})
        panel.ticker.stop()  # the test's own steps
        stand = Stand(browser, panel, (ESM, CSS), ("topology", "controls", "frame"), ".xdp-art .xdp-name")
        yield stand
        stand.close()
        assert stand.complaints == []
        assert list(panel.errors) == []


def shown(stand: Stand, page: Page, until: Callable[[], Any] = lambda: True) -> None:
    for _ in range(400):
        stand.widget.refresh()
        page.evaluate(TAKE)
        if until():
            return
        page.wait_for_timeout(20)
    raise AssertionError("waited in vain")


@pytest.mark.parametrize(("width", "scheme"), [(1060, "light"), (1060, "dark"), (380, "light")])
def test_axe_finds_no_fault(stand: Stand, width: int, scheme: Any) -> None:
    page = stand.open(width, color_scheme=scheme)
    for summary in page.query_selector_all("summary"):
        summary.click()
    shown(stand, page, lambda: page.is_visible("text=rx_queue_0_xdp_drops"))
    page.focus("[data-place='host client']")
    assert accessibility_faults(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_a_place_is_told_to_the_mouse_and_to_the_keyboard(stand: Stand) -> None:
    page = stand.open()
    shown(stand, page)
    page.hover("[data-place='interface server eth0']")
    words = page.inner_text(".xdp-notes >> nth=0")
    assert words.startswith("server eth0 up, MTU 1500, XDP native · joined to client eth0")
    page.focus("[data-place='host client']")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    assert f"DROP {PACKETS:,}" in page.inner_text(".xdp-notes >> nth=0")


def test_the_ledger_can_be_taken_along_as_a_table_and_as_a_picture(stand: Stand, tmp_path: Path) -> None:
    page = stand.open()
    page.evaluate("window.model.take({ frame: { ...window.model.get('frame'), seq: 99 } })")  # a point in the chart
    with page.expect_download() as table:
        page.click("button:text('CSV')")
    table.value.save_as(tmp_path / "table.csv")
    rows = list(csv.reader((tmp_path / "table.csv").open()))
    assert ["sent", "sent", "client eth0", str(PACKETS), "1"] in rows
    assert ["unaccounted", "unaccounted", "", "0", ""] in rows
    assert next(row for row in rows if row[:1] == ["seconds ago"])[1] == "sent (packets a second)"
    with page.expect_download() as picture:
        page.click("button:text('PNG')")
    picture.value.save_as(tmp_path / "picture.png")
    saved = (tmp_path / "picture.png").read_bytes()
    assert table.value.suggested_filename == "live.csv"
    assert saved.startswith(b"\x89PNG")
    assert len(saved) > 10_000


def test_protocols_offloads_and_a_c_file_by_hand(stand: Stand) -> None:
    page, panel = stand.open(), stand.widget
    page.click("text=More traffic, offloads")
    page.click("fieldset:has-text('Checksum offload') label:has-text('on')")
    shown(stand, page, lambda: "Switched on: Checksum offload." in page.inner_text(".xdp-notes >> nth=0"))
    assert panel.lab["server"]["eth0"].features()["tx-checksum-ip-generic"]
    page.click("fieldset:has-text('Checksum offload') label:has-text('off')")
    assert not panel.lab["server"]["eth0"].features()["tx-checksum-ip-generic"]
    page.click("label:has-text('pass')")
    shown(stand, page, lambda: panel.controller.choice.program == "pass")
    panel.set(rate_pps=3_000, program="none")
    page.click("label:has-text('mix')")
    page.click("button:text('Start')")
    assert panel.controller.settings.kind == "mix"
    shown(stand, page, lambda: panel.frame["ledger"]["rows"][0]["packets"] > PACKETS + 300)
    page.click("button:text('Stop')")
    assert panel.lab.ledger().unaccounted == 0
