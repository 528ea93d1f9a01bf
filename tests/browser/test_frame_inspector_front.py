"""The frame inspector in Chromium, in front of real frames and the kernel: chosen, looked through and changed by hand."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import test_panel_front
from patience import until
from playwright.sync_api import Browser, Page, expect
from stand import Stand, accessibility_faults

import labkit as lk
from labkit.widgets import FrameInspector
from labkit.widgets.assets import FRAME_INSPECTOR_CSS, FRAME_INSPECTOR_ESM

ARTEFACTS = Path(__file__).parents[1] / "artefacts"
LIVE = "setInterval(() => window.tell(null).then((state) => model.take(state)), 50)"
browser = test_panel_front.browser  # the fixture: one Chromium for these tests


@pytest.fixture
def stand(browser: Browser) -> Iterator[Stand]:
    with lk.Lab(lk.Topology.pair(), name="inspected") as lab:
        client, server = lab["client"], lab["server"]
        program = lab.load(lk.compile(path="bpf/drop_by_protocol.c"))
        program.attach(server["eth0"])
        program.maps["keep_protocol"][1] = 1
        view = FrameInspector(lab, interval_s=0.05)
        udp = lk.udp(client, server, payload=b"<b>hello</b>, inspector")
        lk.send_frames(client["eth0"], [udp, lk.tcp(client, server), lk.icmp(client, server), lk.arp(client, server)])

        def replayed() -> bool:
            view._heard(view, {"type": "hello"}, [])
            return len(view.rows) == 4 and all(row.trace is not None for row in view.rows)

        until(replayed)
        stand = Stand(
            browser, view, (FRAME_INSPECTOR_ESM, FRAME_INSPECTOR_CSS), ("state", "detail"), ".fi-line-decides"
        )
        yield stand
        stand.close()
    assert stand.complaints == []


def words(page: Page, selector: str) -> str:
    return page.locator(selector).first.inner_text()


def test_a_frame_is_chosen_and_told_by_keyboard(stand: Stand) -> None:
    page = stand.open()
    page.evaluate(LIVE)
    expect(page.locator(".fi-item")).to_have_count(4)
    expect(page.locator(".fi-sentence")).to_contain_text("Dropped at line 38: keep_protocol[17] (0) = 0")
    assert "✗ XDP_DROP" in words(page, ".fi-item")
    page.focus(".fi-item[aria-selected=true]")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    expect(page.locator(".fi-told-head")).to_contain_text("✓ XDP_PASS")
    expect(page.locator(".fi-item:focus")).to_have_attribute("aria-selected", "true")
    page.keyboard.press("End")
    expect(page.locator(".fi-sentence")).to_contain_text("Ethernet h_proto (0x0806) ≠ 0x0800")
    expect(page.locator(".fi-line-decides .fi-mark")).to_contain_text("the verdict hangs on this line")
    expect(page.locator(".fi-remark-decides")).to_contain_text("jump taken: no")
    expect(page.locator(".fi-decided[role=gridcell]")).to_have_count(2)  # h_proto
    page.click("summary")
    expect(page.locator(".fi-changes")).to_contain_text(
        re.compile(r"verdicts\[2\]: \d+ → \d+")
    )  # the real one counts meanwhile
    expect(page.locator(".fi-steps tbody tr")).to_have_count(len(stand.widget.trace.steps))


def test_a_byte_is_changed_and_the_frame_replayed(stand: Stand) -> None:
    page = stand.open()
    page.evaluate(LIVE)
    page.focus(".fi-byte[tabindex='0']")
    assert "byte 23, 11, IPv4 protocol" in page.evaluate("document.activeElement.getAttribute('aria-label')")
    page.keyboard.press("ArrowLeft")
    assert "IPv4 ttl is 64" in words(page, ".fi-about")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    page.keyboard.type("01")
    page.keyboard.press("Enter")
    expect(page.locator(".fi-item")).to_have_count(5)
    expect(page.locator(".fi-told-head")).to_contain_text("Frame 5")
    expect(page.locator(".fi-told-head")).to_contain_text("XDP_PASS")
    assert "edited #1" in page.locator(".fi-item").nth(4).inner_text()
    heard = len(stand.heard)
    page.fill(".fi-input", "1")
    page.click("text=Change and replay")
    assert [each for each in stand.heard[heard:] if each and each["type"] == "edit"] == []
    assert stand.widget.errors == type(stand.widget.errors)()


def test_the_list_is_cleared_and_the_end_told(stand: Stand) -> None:
    page = stand.open()
    page.evaluate(LIVE)
    page.click("text=Clear")
    expect(page.locator(".fi-empty")).to_be_visible()
    stand.widget.lab.close()
    page.get_by_text("The lab is closed: no more frames come.").wait_for()
    assert page.is_disabled("text=Replay all again")


def test_it_stands_out_is_accessible_and_nothing_spills(stand: Stand) -> None:
    schemes: tuple[Any, ...] = ("light", "dark")
    for scheme in schemes:
        page = stand.open(color_scheme=scheme)
        page.click("summary")
        assert accessibility_faults(page) == [], scheme
        page.click("summary")
        for width in (1060, 380):
            page.set_viewport_size({"width": width, "height": 900})
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), (scheme, width)
            page.locator(".fi-panel").screenshot(path=ARTEFACTS / f"frame-inspector-{scheme}-{width}.png")
