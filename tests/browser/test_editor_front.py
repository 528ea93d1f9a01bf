"""The editor in Chromium, in front of a real lab: every key press compiles, loads and swaps a real program.

The page is made here, with a stand-in for anywidget's model alone. Each test ends with a look at the console and at the
requests: no error, and nothing asked of anyone else.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import test_panel_front
from axe_playwright_python.sync_playwright import Axe
from patience import until
from playwright.sync_api import Browser, Page, Route

import labkit as lk
from labkit.widgets import ProgramEditor
from labkit.widgets.assets import EDITOR_CSS, EDITOR_ESM

ARTEFACTS = Path(__file__).parents[1] / "artefacts"
SITE = "http://lab.test/"
PARTS = ("given", "state", "versions_shown", "diff_shown", "alive")
PAGE = """<!doctype html><html lang="en"><meta charset="utf-8"><title>A program's editor</title>
<link rel="icon" href="data:,"><link rel="stylesheet" href="/widget.css">
<style>body { margin: 12px; background: #fff } @media (prefers-color-scheme: dark) { body { background: #0d1014 } }</style>
<main><h1 class="xdp-hidden">A lesson</h1><a href="#before">before</a><div id="widget"></div></main>
<script type="module">
import widget from "/widget.js";
window.sent = [];
const heard = {}, state = await tell(null);
window.take = (next) => Object.entries(next).forEach(([name, value]) => {
  if (JSON.stringify(value) === JSON.stringify(state[name])) return;
  state[name] = value;
  (heard[`change:${name}`] ?? []).forEach((each) => each());
});
window.end = widget.render({ el: document.getElementById("widget"), model: {
  get: (name) => state[name],
  on: (name, work) => (heard[name] ??= []).push(work),
  off: (name, work) => (heard[name] = heard[name].filter((each) => each !== work)),
  send: (message) => (window.sent.push(message), tell(message).then(take)),
} });
</script></html>"""
FILES = {"": ("text/html", PAGE), "widget.js": ("text/javascript", EDITOR_ESM), "widget.css": ("text/css", EDITOR_CSS)}
TEXT = """\
/* Drops all,
   over two lines. */
#include "common/verdict.h"

int judge(struct xdp_md *ctx)
{
	return verdict(ctx, XDP_DROP);
}
"""
UNCHECKED = TEXT.replace(
    "	return", "	u8 *data = (void *)(long)ctx->data;\n\n	if (data[12] == 8)\n		return 1;\n	return"
)
_MACROS = ["#define A0 x += x * 3;", *(f"#define A{i} {f'A{i - 1} ' * 4}" for i in range(1, 14))]
ENDLESS = "\n".join([*_MACROS, TEXT.replace("\treturn", "\tvolatile int x = 1;\n\n\tA13\n\treturn")])
SPILLS = """() => {
  const panel = document.querySelector(".ed-panel").getBoundingClientRect();
  return [...document.querySelectorAll(".ed-panel *")].filter((node) => {
    const box = node.getBoundingClientRect();
    const apart = ".ed-sheet, .ed-scroll, .ed-log, .ed-diff, .xdp-hidden";
    return box.width && !node.closest(apart) && (box.left < panel.left - 1 || box.right > panel.right + 1);
  }).map((node) => node.outerHTML.slice(0, 80));
}"""

browser = test_panel_front.browser  # the fixture: one Chromium for these tests


class Bench:
    """A lab, its editor, and pages that show it."""

    def __init__(self, browser: Browser, lab: lk.Lab) -> None:
        self.lab = lab
        self.editor = ProgramEditor(lab, lab["server"]["eth0"], text=TEXT)
        self.beside = False  # whether the page gets its answers before the work is done
        self.complaints: list[str] = []
        self.pages: list[Page] = []
        self._browser = browser

    def tell(self, message: Any) -> dict[str, Any]:
        """What the page says, and what it is shown then."""
        if message is not None:
            self.editor._heard(self.editor, message, [])
            if not self.beside:
                until(lambda: self.editor._work.idle, "the editor's work")
        return {name: getattr(self.editor, name) for name in PARTS}

    def open(self, width: int = 1060, **options: Any) -> Page:
        page = self._browser.new_page(viewport={"width": width, "height": 1000}, **options)
        self.pages.append(page)
        page.on(
            "console", lambda said: self.complaints.append(said.text) if said.type in ("error", "warning") else None
        )
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.expose_function("tell", self.tell)
        page.route("**/*", self._serve)
        page.goto(SITE)
        page.locator(".ed-line").first.wait_for()
        return page

    def _serve(self, route: Route) -> None:
        name = route.request.url.removeprefix(SITE)
        if name not in FILES:
            self.complaints.append(f"asked for {route.request.url}")
        kind, text = FILES.get(name, ("text/plain", ""))
        route.fulfill(content_type=f"{kind}; charset=utf-8", body=text)


@pytest.fixture
def bench(browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    monkeypatch.setenv("XDP_LAB_PROGRESS", str(tmp_path / "progress.json"))
    with lk.Lab(lk.Topology.pair(), name="editor") as lab:
        bench = Bench(browser, lab)
        yield bench
        for page in bench.pages:
            page.close()
        bench.editor.close()
    assert bench.complaints == []


def focused(page: Page, what: str = "textContent") -> str:
    found: str = page.evaluate(f"document.activeElement.{what}")
    return found


def said(page: Page, words: str) -> None:
    page.locator(".ed-headline", has_text=words).wait_for()


def test_by_keyboard_alone(bench: Bench) -> None:
    page = bench.open()
    page.focus("a")
    for _ in range(20):  # past the buttons into the text
        page.keyboard.press("Tab")
        if focused(page, "tagName") == "TEXTAREA":
            break
    assert focused(page, "ariaLabel") == "C source of the program"
    page.keyboard.press("Control+Enter")
    said(page, "Version 1 runs,")
    page.keyboard.press("Control+Home")
    page.keyboard.type("/* mine */\n\tif (x) {\n")
    text = page.input_value(".ed-area")
    assert text.startswith("/* mine */\n\tif (x) {\n\t\t/* Drops"), "Tab indents, and Enter keeps the indent"
    page.keyboard.press("Shift+Tab")
    assert page.input_value(".ed-area").startswith("/* mine */\n\tif (x) {\n\t/* Drops")
    for _ in range(40):
        page.keyboard.press("Control+z")
        if page.input_value(".ed-area") == TEXT:
            break
    assert page.input_value(".ed-area") == TEXT, "all of it can be taken back"
    page.keyboard.press("Control+End")
    page.keyboard.type("int")
    page.keyboard.press("Control+Enter")
    said(page, "Version 1 goes on running, untouched.")
    page.keyboard.press("Escape")
    page.keyboard.press("Tab")
    assert focused(page, "ariaLabel") == "File to save the text in", "Esc, then Tab, leaves"
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    assert focused(page).startswith("Line ")
    page.keyboard.press("Enter")
    assert focused(page, "tagName") == "TEXTAREA", "and the line's link leads back to it"
    for _ in range(3):
        page.keyboard.press("Backspace")
    page.keyboard.press("Control+a")
    page.keyboard.insert_text(TEXT.replace("DROP", "PASS"))
    page.keyboard.press("Control+Enter")
    said(page, "Version 2 runs,")
    page.get_by_label("Go back to version 1").focus()
    page.keyboard.press("Space")
    said(page, "Version 1 runs again.")
    assert page.input_value(".ed-area") == TEXT
    assert page.locator(".ed-running th").inner_text() == "1 ● runs"


def test_messages_are_beside_their_lines(bench: Bench) -> None:
    bench.editor.run()
    page = bench.open()
    page.fill(".ed-area", TEXT.replace("ctx, XDP_DROP", "ctx, XDP_DORP").replace("int judge", "\n\nunsigned int judge"))
    page.get_by_text("Compile and run").click()
    said(page, "Not compiled: 1 error. Version 1 goes on running, untouched.")
    assert page.locator(".ed-at-error .ed-words").inner_text().strip() == "return verdict(ctx, XDP_DORP);"
    assert page.locator(".ed-wrong").inner_text() == "XDP_DORP"
    assert page.locator(".ed-number-error").inner_text() == "✗ 9"
    assert "XDP_DROP is spelt much the same" in page.locator(".ed-at-error .ed-aside").inner_text()
    assert page.locator(".ed-remark").inner_text().startswith("✗ Error\nLine 9")
    page.locator(".ed-goto").click()
    page.keyboard.press("Home")
    page.keyboard.press("Control+Home")
    page.keyboard.type("/* above */\n")
    assert page.locator(".ed-number-error").inner_text() == "✗ 10", "the mark goes with its line"
    page.locator(".ed-goto").click()
    assert "before your last change" in page.evaluate(
        "getComputedStyle(document.querySelector('.ed-headline'), '::after').content"
    )
    page.fill(".ed-area", UNCHECKED)
    assert page.locator(".ed-at-error").count() == 0, "a line that was edited has lost its mark"
    page.get_by_label("Check as I type").check()
    said(page, "the verifier refuses it.")
    row = page.locator(".ed-named").first.inner_text()
    assert "points to the start of the packet (data); no byte has been shown to be there" in row
    assert "u8 *data = (void *)(long)ctx->data;" in row
    assert not page.locator(".ed-log").is_visible()
    page.get_by_text("The whole log").click()
    assert "invalid access to packet" in page.locator(".ed-log").inner_text()
    page.fill(".ed-area", TEXT.replace("DROP", "TX"))
    said(page, "The text compiles and would load. Version 1 goes on running, untouched.")
    assert len(bench.editor.versions) == 1


def test_versions_count_and_compare_and_nothing_is_lost(bench: Bench) -> None:
    page = bench.open()
    page.focus(".ed-area")
    page.keyboard.press("Control+Enter")
    said(page, "Version 1 runs,")
    assert "goes on" not in page.inner_text(".ed-maps")
    client, server = bench.lab["client"], bench.lab["server"]
    assert lk.send_frames(client["eth0"], lk.udp(client, server), 997).sent == 997
    page.locator(".ed-mix", has_text="DROP 997").wait_for()
    page.fill(".ed-area", TEXT.replace("DROP", "ABORTED"))
    page.focus(".ed-area")
    page.keyboard.press("Control+Enter")
    said(page, "Version 2 runs,")
    assert "goes on" in page.inner_text(".ed-maps")
    page.get_by_label("Compare version 1 with the text").click()
    page.locator(".ed-diff").wait_for()
    assert page.locator(".ed-minus").text_content() == "- \treturn verdict(ctx, XDP_DROP);\n"
    assert page.locator(".ed-plus").inner_text().startswith("+")
    page.fill(".ed-area", TEXT)
    page.locator(".ed-diff", has_text="No difference.").wait_for()
    page.get_by_label("Compare with").select_option("version 2")
    page.locator(".ed-plus", has_text="XDP_ABORTED").wait_for()
    page.get_by_text("Close").click()
    page.locator(".ed-diff").wait_for(state="hidden")
    second = bench.open()  # the page again: the text and the versions are there
    assert second.input_value(".ed-area") == TEXT
    assert second.locator(".ed-versions tbody tr").count() == 2
    page.evaluate("end()")
    count = page.evaluate("sent.length")
    second.locator(".ed-mix", has_text="DROP 997").wait_for()
    assert page.evaluate("sent.length") == count, "a page that is gone asks nothing"
    bench.lab.close()
    second.evaluate("tell(null).then(take)")
    second.get_by_text("The lab is closed.").wait_for()
    assert second.get_by_text("Compile and run").is_disabled()
    assert second.evaluate("document.querySelector('.ed-area').readOnly")


def test_where_no_kernel_answers_nothing_is_typed_that_would_be_lost(bench: Bench) -> None:
    page = bench.open()
    assert not page.locator(".xdp-notice").is_visible()
    page.evaluate("void (window.tell = () => new Promise(() => {}))")
    page.get_by_text("No answer from the notebook's kernel").wait_for()
    assert page.evaluate("document.querySelector('.ed-area').readOnly")
    assert page.input_value(".ed-area") == TEXT
    page.evaluate("take({ alive: 999 })")
    page.locator(".xdp-notice").wait_for(state="hidden")
    assert not page.evaluate("document.querySelector('.ed-area').readOnly")


def test_a_compilation_without_end_is_stopped(bench: Bench) -> None:
    bench.editor.run()
    bench.beside = True
    page = bench.open()
    page.evaluate("setInterval(() => tell(null).then(take), 50)")
    for key, number in (("button", 1), ("Escape", 2)):
        page.fill(".ed-area", ENDLESS.replace("x = 1", f"x = {number}"))
        page.focus(".ed-area")
        page.keyboard.press("Control+Enter")
        page.locator(".ed-work").wait_for()
        assert re.fullmatch(r"Compiling … \d+\.\d s", page.inner_text(".ed-time"))
        assert Axe().run(page, context="#widget").response["violations"] == []
        page.locator(".ed-panel").screenshot(path=ARTEFACTS / f"editor-stop-{number}.png")
        if key == "button":
            page.get_by_role("button", name="Stop").click()
        else:
            page.keyboard.press(key)
        said(page, "Stopped: the compiler was ended, and a fresh one takes its place. Version 1 goes on running")
        page.locator(".ed-work").wait_for(state="hidden")
        assert focused(page, "tagName") == "TEXTAREA"
    page.fill(".ed-area", TEXT.replace("DROP", "PASS"))
    page.keyboard.press("Control+Enter")
    said(page, "Version 2 runs,")


def test_it_is_accessible_and_nothing_spills(bench: Bench) -> None:
    bench.editor.run()
    bench.editor.text = TEXT.replace("DROP", "PASS")
    bench.editor.run()
    bench.tell({"type": "diff", "of": 1, "to": None})
    schemes: tuple[Any, ...] = ("light", "dark")
    for refused in (False, True):
        if refused:
            bench.editor.text = UNCHECKED
            with pytest.raises(lk.VerifierError):
                bench.editor.run()
        for scheme in schemes:
            page = bench.open(color_scheme=scheme)
            page.locator(".ed-diff").wait_for()
            for width in (1060, 700, 360):
                page.set_viewport_size({"width": width, "height": 1000})
                assert page.evaluate(SPILLS) == [], (scheme, width)
                state = "refused" if refused else "runs"
                page.locator(".ed-panel").screenshot(path=ARTEFACTS / f"editor-{state}-{scheme}-{width}.png")
            violations = Axe().run(page, context="#widget").response["violations"]
            assert [(each["id"], [node["html"] for node in each["nodes"]]) for each in violations] == [], scheme
            page.close()
            bench.pages.remove(page)
