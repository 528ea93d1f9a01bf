"""The panel's front end alone, in Chromium: a stand-in for the kernel sends the frames.

The page is panel_page.html. Everything comes from 127.0.0.1, and every test ends with a look at the
console and at the requests: no error, and nothing asked of anyone else.
"""

import http.server
import itertools
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from labkit.widgets.assets import CSS, ESM

HERE = Path(__file__).parent
ARTEFACTS = HERE.parent / "artefacts"
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
SCENES = ("pair", "router", "chain", "fanout")
HELPERS = ("formatRate", "formatShare", "formatTime", "axisRate", "makeScale", "niceScale", "dotSpeed", "toCsv")


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        pages = {
            "/": ("text/html", (HERE / "panel_page.html").read_text()),
            "/panel.js": ("text/javascript", ESM),
            "/helpers.js": ("text/javascript", ESM + f"\nexport {{ {', '.join(HELPERS)} }};"),
            "/panel.css": ("text/css", CSS),
        }
        kind, text = pages.get(self.path.split("?")[0], ("text/plain", ""))
        self.send_response(200 if text else 404)
        self.send_header("content-type", f"{kind}; charset=utf-8")
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_: Any) -> None:
        """Nothing in the tests' output."""


@pytest.fixture(scope="module")
def site() -> Iterator[str]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=FLAGS)
        yield browser
        browser.close()


class Bench:
    """Opens pages with the panel, and watches what they say and ask for."""

    def __init__(self, browser: Browser, site: str) -> None:
        self.browser, self.site = browser, site
        self.complaints: list[str] = []
        self.asked: list[str] = []
        self.pages: list[Page] = []

    def open(self, scene: str = "pair", width: int = 980, height: int = 900, **options: Any) -> Page:
        page = self.browser.new_page(viewport={"width": width, "height": height}, **options)
        self.pages.append(page)
        page.on(
            "console",
            lambda m: self.complaints.append(m.text) if m.type in ("error", "warning") else None,
        )
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("request", lambda request: self.asked.append(request.url))
        page.add_init_script(
            "window.turns = 0; const raf = window.requestAnimationFrame.bind(window);"
            "window.requestAnimationFrame = (f) => raf((t) => { window.turns++; f(t); });"
        )
        page.goto(f"{self.site}?scene={scene}")
        page.wait_for_function("window.lab && document.querySelector('.xdp-art .xdp-name')")
        return page


@pytest.fixture
def bench(browser: Browser, site: str) -> Iterator[Bench]:
    bench = Bench(browser, site)
    yield bench
    for page in bench.pages:
        page.close()
    assert bench.complaints == []
    assert [url for url in bench.asked if not url.startswith((site, "data:"))] == []


def sent(page: Page, kind: str) -> list[dict[str, Any]]:
    """The messages of one kind that the page sent to Python."""
    found: list[dict[str, Any]] = page.evaluate("kind => lab.model.sent.filter((m) => m.type === kind)", kind)
    return found


def test_numbers_move_with_the_frames(bench: Bench) -> None:
    page = bench.open()
    assert page.inner_text(".xdp-pill") == "idle"
    assert page.inner_text(".xdp-primary") == "Start"
    page.evaluate("lab.step(51)")
    assert page.inner_text(".xdp-pill") == "running 0:01"
    assert page.inner_text(".xdp-primary") == "Stop"
    total = 11 * 502003
    assert page.inner_text(".xdp-ledger tbody tr:first-child .xdp-n >> nth=0") == f"{total:,}"
    assert page.inner_text(".xdp-ledger tfoot") == "unaccounted ✓\t\t0\t"
    assert "DROP 82 %, PASS 18 %" in page.inner_html(".xdp-art")
    rates = page.locator(".xdp-legend b").all_inner_texts()
    assert all(rate.endswith("pps") for rate in rates)
    assert rates[0].endswith("Mpps")
    assert page.locator(".xdp-rate").first.text_content() == rates[0]
    page.evaluate("lab.step(1)")
    assert page.inner_text(".xdp-ledger tbody tr:first-child .xdp-n >> nth=0") == f"{total + 502003:,}"


def test_every_drawn_frame_is_answered_once(bench: Bench) -> None:
    page = bench.open()
    assert [m["type"] for m in page.evaluate("lab.model.sent")] == ["hello"]
    page.evaluate("lab.step(7)")
    assert [m["seq"] for m in sent(page, "ack")] == [1, 2, 3, 4, 5, 6, 7]


def test_out_of_sight_is_silent_and_says_hello_when_back(bench: Bench) -> None:
    page = bench.open()
    page.evaluate("document.body.style.paddingTop = '3000px'; scrollTo(0, 0)")
    page.wait_for_function("() => { const n = lab.model.sent.length; lab.step(); return lab.model.sent.length === n; }")
    turns = page.evaluate("lab.step(60); lab.model.sent.length = 0; window.turns")
    page.evaluate("new Promise((done) => setTimeout(done, 250))")
    assert page.evaluate("window.turns") == turns
    page.evaluate("document.body.style.paddingTop = 0")
    page.wait_for_function("lab.model.sent.some((m) => m.type === 'hello')")
    page.evaluate("lab.step(1)")
    assert sent(page, "ack")


def test_by_keyboard_alone(bench: Bench) -> None:
    page = bench.open()
    page.evaluate("lab.idle()")
    last = "lab.model.sent.findLast((m) => m.type === 'control')"
    page.keyboard.press("Tab")
    focus = "document.activeElement.textContent || document.activeElement.dataset.key"
    assert page.evaluate(focus) == "Start"
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    page.keyboard.press("Space")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    assert [m["name"] for m in sent(page, "action")] == ["start", "reset"]
    page.keyboard.press("Tab")
    assert page.evaluate(focus) == "Pause"
    for button in ("CSV", "PNG"):
        page.keyboard.press("Tab")
        assert page.evaluate(focus) == button
    page.keyboard.press("Tab")
    seen = "[document.activeElement.dataset.place, document.activeElement.ariaLabel]"
    assert page.evaluate(seen) == ["host client", "client (10.0.1.1) · generator, ready"]
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    assert page.evaluate(seen)[0] == "program server eth0"
    assert page.inner_text(".xdp-notes >> nth=0").startswith("drop_by_protocol at server eth0 · native mode · id 412")
    page.keyboard.press("Tab")
    assert page.inner_text(".xdp-notes >> nth=0").startswith("Checksum and VLAN offloads off")
    assert page.evaluate(focus) == "program=drop by protocol"
    page.keyboard.press("ArrowRight")
    assert sent(page, "control") == [{"type": "control", "id": "program", "value": "pass all"}]
    page.keyboard.press("Tab")
    page.keyboard.press("ArrowRight")
    assert sent(page, "control")[-1] == {"type": "control", "id": "mode", "value": "generic"}
    page.keyboard.press("Tab")
    assert page.evaluate(focus) == "rate_pps"
    assert page.evaluate("document.activeElement.getAttribute('aria-valuetext')") == "as fast as it goes"
    page.keyboard.press("Home")
    page.wait_for_function(f"{last}.id === 'rate_pps'")
    assert sent(page, "control")[-1] == {"type": "control", "id": "rate_pps", "value": 1000}
    assert page.evaluate("document.activeElement.getAttribute('aria-valuetext')") == "1.00 kpps"
    page.keyboard.press("End")
    page.wait_for_function(f"{last}.value === null")
    page.keyboard.press("Tab")
    page.keyboard.press("ArrowRight")
    page.wait_for_function(f"{last}.id === 'size_bytes'")
    assert sent(page, "control")[-1]["value"] == 68


def test_statistics_are_asked_for_while_they_are_open(bench: Bench) -> None:
    page = bench.open()
    page.evaluate("lab.step(51)")
    assert page.locator(".xdp-moved tbody tr").count() == 0
    page.focus(".xdp-statistics summary")
    page.keyboard.press("Enter")
    page.wait_for_function("lab.model.sent.some((m) => m.type === 'show')")
    page.evaluate("lab.step(1)")
    rows = page.locator(".xdp-wide tbody tr")
    assert rows.locator("th").all_inner_texts() == ["client eth0", "server eth0", "server eth0"]
    assert f"{12 * 502003:,}" in rows.first.inner_text()
    page.locator(".xdp-panel").screenshot(path=ARTEFACTS / "panel-statistics.png")
    page.evaluate("lab.model.set('frame', { ...lab.model.get('frame'), moved: [], seq: 999 })")
    page.get_by_text("No counter has moved since the reset.").wait_for()
    page.keyboard.press("Enter")
    page.wait_for_function("lab.model.sent.filter((m) => m.type === 'show').length === 2")
    assert [m["statistics"] for m in sent(page, "show")] == [True, False]


def test_controls_follow_python_and_keep_the_focus(bench: Bench) -> None:
    page = bench.open()
    page.focus("[data-key='mode=native']")
    page.evaluate(
        "lab.model.set('controls', lab.model.get('controls').map((c) => ({...c,"
        " options: c.id === 'program' ? [...c.options, 'mine'] : c.options,"
        " value: {program: 'mine', mode: 'generic', rate_pps: 250000, size_bytes: 1500, threads: 2}"
        "[c.id]})))"
    )
    assert page.evaluate("document.activeElement.dataset.key") == "mode=native"
    assert page.locator("input:checked").evaluate_all("nodes => nodes.map((n) => n.dataset.key)") == [
        "program=mine",
        "mode=generic",
        "threads=2",
    ]
    assert page.locator("output").all_inner_texts() == ["250 kpps", "1,500 B"]
    assert page.evaluate("lab.model.sent.filter((m) => m.type === 'control').length") == 0


def test_two_panels_on_a_page_keep_apart(bench: Bench) -> None:
    page = bench.open()
    page.evaluate("lab.second()")
    page.wait_for_selector(".xdp-panel >> nth=1")
    assert page.locator("input:checked").count() == 6


def test_dots_run_only_while_packets_do(bench: Bench) -> None:
    page = bench.open()
    page.evaluate("lab.step(5)")
    page.evaluate("window.turns = 0; new Promise((done) => setTimeout(done, 200))")
    assert page.evaluate("window.turns") == 0
    page.evaluate("lab.step(50)")
    where = "document.querySelector('.xdp-dots circle').getAttribute('cx')"
    before = page.evaluate(where)
    page.wait_for_function(f"{where} !== '{before}'")
    page.evaluate("lab.step(1, {state: 'stopped', links: []})")
    page.wait_for_function("new Promise((done) => { const n = turns; setTimeout(() => done(turns === n), 150); })")


def test_less_motion_where_asked_for(bench: Bench) -> None:
    page = bench.open(reduced_motion="reduce")
    page.evaluate("lab.step(55); window.turns = 0")
    where = "document.querySelector('.xdp-dots circle').getAttribute('cx')"
    before = page.evaluate(where)
    page.evaluate("new Promise((done) => setTimeout(done, 250))")
    assert page.evaluate(where) == before
    assert page.evaluate("window.turns") == 0
    assert page.is_visible(".xdp-dots circle >> nth=0")


def test_a_long_run_makes_no_nodes_and_takes_little_time(bench: Bench) -> None:
    page = bench.open("router")
    page.evaluate("lab.step(60)")
    count = "document.querySelectorAll('*').length"
    before = page.evaluate(count)
    times = page.evaluate(
        "Array.from({length: 200}, () => { const t = performance.now(); lab.step(1); return performance.now() - t; })"
    )
    assert page.evaluate(count) == before
    assert sorted(times)[100] < 4, "half of the ticks should take less than 4 ms even on a slow machine"


def test_hundreds_of_ticks_leave_the_heap_as_it_was(bench: Bench) -> None:
    page = bench.open("router")
    tools = page.context.new_cdp_session(page)

    def heap() -> float:
        tools.send("HeapProfiler.collectGarbage")
        return float(tools.send("Runtime.getHeapUsage")["usedSize"])

    steps = "for (let i = 0; i < 400; i++) lab.step(1); lab.model.sent.length = 0"
    page.evaluate(steps)  # the chart's past is full
    before = heap()
    page.evaluate(steps)
    assert heap() - before < 200_000  # a frame is 3 kB of JSON: 400 kept would be a megabyte and more


def test_an_interface_that_is_down_is_crossed_out_and_said(bench: Bench) -> None:
    page = bench.open()
    end = {
        "host": "server",
        "interface": "eth0",
        "peer": "client eth0",
        "mtu": 1500,
        "mode": "",
        "rx_pps": 0,
        "tx_pps": 0,
    }
    page.hover("[data-place='interface server eth0']")
    for up, words in ((True, "server eth0 up, MTU 1500"), (False, "server eth0 DOWN, MTU 1500")):
        page.evaluate("end => lab.step(1, { interfaces: [end] })", {**end, "up": up})
        assert page.inner_text(".xdp-notes >> nth=0").startswith(words)
        crosses = page.locator(".xdp-art g:not([display]) > path.xdp-wire:only-child")
        assert crosses.count() == (0 if up else 1)


def test_a_spreadsheet_takes_no_cell_for_a_formula(bench: Bench) -> None:
    page = bench.open()
    rows = [["=1+1", 'a "b", c', -5], [None, "é"]]
    assert page.evaluate("async rows => (await import('/helpers.js')).toCsv(rows)", rows) == (
        '\'=1+1,"a ""b"", c",-5\r\n,é\r\n'
    )


def test_text_stands_out(bench: Bench) -> None:
    page = bench.open("router")
    page.evaluate("lab.step(420)")
    schemes: tuple[Any, ...] = ("light", "dark")
    for scheme, jupyter in itertools.product(schemes, (None, "true", "false")):
        page.emulate_media(color_scheme=scheme)
        page.evaluate(
            "v => v ? document.body.setAttribute('data-jp-theme-light', v)"
            " : document.body.removeAttribute('data-jp-theme-light')",
            jupyter,
        )
        dark = page.evaluate("getComputedStyle(document.querySelector('.xdp-root')).colorScheme")
        assert dark == ("dark" if (jupyter or str(scheme == "light").lower()) == "false" else "light")
        worst = page.evaluate("lab.contrast()")
        assert worst[0] >= 4.5, (scheme, jupyter, worst)


@pytest.mark.parametrize("scene", SCENES)
def test_nothing_spills_or_overlaps(bench: Bench, scene: str) -> None:
    page = bench.open(scene)
    for width, frame in itertools.product((360, 420, 560, 620, 760, 980, 1124), (60, 20_000)):
        page.set_viewport_size({"width": width, "height": 900})
        page.wait_for_function(
            "w => Math.abs(document.querySelector('.xdp-topology svg').clientWidth - Math.min(w - 26, 1098)) < 2",
            arg=width,
        )
        page.evaluate("seq => { lab.jump(seq); lab.step(2); }", frame)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.evaluate("lab.faults()") == [], (width, frame)


def test_an_error_and_a_missing_packet_are_said_in_words(bench: Bench) -> None:
    page = bench.open("router")
    assert not page.is_visible("[role=alert]")
    page.evaluate("lab.step(420)")
    assert page.inner_text("[role=alert]") == (
        "✗ Attaching forward to router eth0 failed: EBUSY. Close the link of the other program first."
    )
    assert page.inner_text(".xdp-ledger tfoot") == "unaccounted ✗\t\t17\t"
    assert "17 packets were sent and no counter says where they went." in page.inner_text(".xdp-why")
    page.evaluate("lab.step(1, {ledger: {rows: [], unaccounted: 4, settled: false}})")
    assert page.inner_text(".xdp-ledger tfoot") == "unaccounted\tstill counting\t4\t"
    assert not page.is_visible(".xdp-why")


def test_rows_of_the_ledger_can_be_read_at_700_pixels(bench: Bench) -> None:
    """Names and places stand on one line each, whole, with the numbers beside them."""
    page = bench.open("pair", width=726)
    page.evaluate(
        """lab.step(1, {ledger: {unaccounted: 0, rows: [
          {kind: 'sent', name: 'sent', where: 'client eth0', packets: 12345678901, share: 1, role: 'sent'},
          {kind: 'loss', name: 'redirect without a destination', where: 'after client eth0', packets: 12345678,
           share: 0.001, role: 'abort'},
          {kind: 'loss', name: 'socket receive buffer full', where: 'server UDP :9999', packets: 12345,
           share: 1e-6, role: 'drop'}]}})"""
    )
    heights = page.locator(".xdp-ledger tbody tr").evaluate_all("rows => rows.map((r) => r.offsetHeight)")
    assert max(heights) <= min(heights) + 2, heights
    assert page.evaluate("document.documentElement.scrollWidth") <= 726


@pytest.mark.parametrize(("state", "words"), [("replaced", "Replaced by the panel"), ("closed", "The lab is closed")])
def test_an_ended_panel_says_so_and_keeps_quiet(bench: Bench, state: str, words: str) -> None:
    page = bench.open()
    page.evaluate("lab.step(60)")
    page.evaluate("s => { lab.model.sent.length = 0; lab.step(1, {state: s}); }", state)
    assert words in page.inner_text(".xdp-notice")
    assert page.is_disabled(".xdp-primary")
    assert page.is_disabled("[data-key='mode=generic']")
    page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    assert page.evaluate("lab.model.sent") == []


def test_a_kernel_that_went_away_is_noticed(bench: Bench) -> None:
    page = bench.open()
    page.wait_for_selector(".xdp-notice:has-text('No answer from the kernel')", timeout=20_000)
    assert page.inner_text(".xdp-pill") == "no answer"
    page.evaluate("lab.step(1)")
    assert not page.is_visible(".xdp-notice")


def test_pause_holds_the_picture(bench: Bench) -> None:
    page = bench.open()
    page.evaluate("lab.step(60)")
    page.click("text=Pause")
    before = page.inner_text(".xdp-ledger")
    page.evaluate("lab.model.sent.length = 0; lab.step(9)")
    assert page.inner_text(".xdp-ledger") == before
    assert page.evaluate("lab.model.sent") == []
    page.click("text=Resume")
    assert page.evaluate("lab.model.sent") == [{"type": "hello"}]
    page.evaluate("lab.step(1)")
    assert page.inner_text(".xdp-ledger") != before


def test_the_summary_speaks_seldom(bench: Bench) -> None:
    page = bench.open()
    page.evaluate(
        "window.spoken = []; new MutationObserver(() => spoken.push(performance.now()))"
        ".observe(document.querySelector('[aria-live=polite]'),"
        " {childList: true, characterData: true, subtree: true})"
    )
    page.evaluate(
        "new Promise((done) => { let n = 0; const timer = setInterval(() => { lab.step(2);"
        " if (++n > 90) { clearInterval(timer); done(); } }, 50); })"
    )
    spoken = page.evaluate("spoken")
    assert spoken
    assert all(later - earlier >= 1950 for earlier, later in itertools.pairwise(spoken))
    assert "Mpps" in page.inner_text("[aria-live=polite]")


def test_data_is_text_never_markup(bench: Bench) -> None:
    page = bench.open()
    evil = "<img src=x onerror=alert(1)>"
    page.evaluate(
        """evil => lab.step(1, {
          hosts: {client: [evil, evil]},
          events: [{t_s: 1, level: evil, text: evil}],
          error: {text: evil, remedy: evil},
          programs: [{host: 'server', interface: 'eth0', name: evil, mode: evil, id: evil,
                      verdicts: {[evil]: 3}}],
          series: [{key: evil, label: evil, role: evil, pps: 1}],
          ledger: {unaccounted: 0, rows: [
            {kind: evil, name: evil, where: evil, packets: 1, share: 1, role: evil}]},
        })""",
        evil,
    )
    assert page.locator("img").count() == 0
    assert evil in page.inner_text(".xdp-ledger tbody")


def test_the_cleanup_leaves_nothing_running(bench: Bench) -> None:
    page = bench.open()
    page.evaluate("lab.step(60)")
    page.evaluate("lab.cleanup(); lab.model.sent.length = 0; window.turns = 0")
    assert page.evaluate("Object.values(lab.model.heard).flat().length") == 0
    page.evaluate("document.dispatchEvent(new Event('visibilitychange')); lab.step(3)")
    page.evaluate("new Promise((done) => setTimeout(done, 2300))")
    assert page.evaluate("[lab.model.sent.length, window.turns]") == [0, 0]


def test_the_past_is_bounded_and_a_new_count_starts_it_anew(bench: Bench) -> None:
    page = bench.open()
    page.evaluate("lab.replay(900)")
    points = page.locator(".xdp-line.xdp-stroke-sent").last.get_attribute("d") or ""
    assert 250 < points.count("L") + points.count("M") <= 330
    page.evaluate("lab.step(1, {epoch: 1})")
    points = page.locator(".xdp-line.xdp-stroke-sent").last.get_attribute("d") or ""
    assert points.count("L") + points.count("M") == 1


@pytest.mark.parametrize(
    ("name", "scene", "scheme", "width"),
    [
        ("panel-light", "pair", "light", 1004),
        ("panel-dark", "router", "dark", 1004),
        ("panel-narrow", "pair", "light", 420),
        ("panel-fanout", "fanout", "light", 1004),
    ],
)
def test_pictures_for_a_look(bench: Bench, name: str, scene: str, scheme: Any, width: int) -> None:
    page = bench.open(scene, width, 300, color_scheme=scheme)
    page.evaluate("lab.replay(350)")
    picture = page.screenshot(full_page=True)
    ARTEFACTS.mkdir(exist_ok=True)
    (ARTEFACTS / f"{name}.png").write_bytes(picture)
    assert len(picture) > 20_000


def test_numbers_in_words(bench: Bench) -> None:
    page = bench.open()
    assert page.evaluate(
        """async () => {
          const { formatRate, formatShare, formatTime, ...h } = await import('/helpers.js');
          const { axisRate, makeScale, niceScale, dotSpeed } = h;
          const log = makeScale({min: 1000, max: 1e7, scale: 'log', end: 'all'});
          return [
            [0, 7, 999.4, 999.6, 1000, 12345, 999499, 999900, 5021334, 14.96e6, 2e9, NaN]
              .map((v) => formatRate(v)),
            [0, 1e-6, 0.082, 0.5371, 0.99999, 1, NaN].map((v) => formatShare(v)),
            [0, 42.9, 3605, undefined].map(formatTime),
            [500, 1500000, 2000000, 10].map(axisRate),
            [0, 240, log.steps].map(log.value),
            [null, 1e5, 5].map(log.position),
            [0, 3, 5.3e6, 9.9e6].map((v) => niceScale(v).top >= v),
            [dotSpeed(0), dotSpeed(1e6) > dotSpeed(1e5), dotSpeed(1e12)],
          ];
        }"""
    ) == [
        [
            "0 pps",
            "7 pps",
            "999 pps",
            "1.00 kpps",
            "1.00 kpps",
            "12.3 kpps",
            "999 kpps",
            "1.00 Mpps",
            "5.02 Mpps",
            "15.0 Mpps",
            "2.00 Gpps",
            "–",
        ],
        ["0 %", "< 0.1 %", "8.2 %", "53.7 %", "> 99.9 %", "100 %", ""],
        ["0:00", "0:42", "1:00:05", "0:00"],
        ["500 pps", "1.5 Mpps", "2 Mpps", "10 pps"],
        [1000, 1e7, None],
        [250, 120, 0],
        [True, True, True, True],
        [0, True, 300],
    ]
