"""The lessons in a real JupyterLab, in a real Chromium: what a student does, and what the student must not see.

The server is started by ./env/lab itself. Every test ends with a look at the console (no error) and at the requests (none
but to this machine).
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import BrowserContext, Locator, Page, TimeoutError, sync_playwright

ROOT = Path(__file__).resolve().parents[2]
ARTEFACTS = ROOT / "tests" / "artefacts"
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
RUN_ALL_S = 240
# What JupyterLab itself says about its own plugins; nothing of ours.
NOISE = re.compile(r"jupyter-widgets.*already registered|Source map|preloaded using link preload", re.IGNORECASE)


def wait_for(condition: Callable[[], object], seconds: float, what: str) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"waited {seconds:.0f} s in vain for {what}"
        time.sleep(0.1)


class Server:
    """./env/lab, in its sandbox: it works on a copy of the notebooks in its home, as JupyterLab saves by itself."""

    def __init__(self, home: Path) -> None:
        self.home = home
        environment = {
            **os.environ,
            "JUPYTER_TOKEN": "for-the-test",
            "XDP_LAB_HOME": str(home),
            "XDP_LAB_PROGRESS": str(home / "progress.json"),
            "LAB_SCALE": "0.02",
        }
        self._log = (home / "server.log").open("w")
        self._process = subprocess.Popen(
            [ROOT / "env" / "lab", "--no-browser"], stdout=self._log, stderr=self._log, env=environment, cwd=ROOT
        )
        wait_for(lambda: self._address() or self._process.poll() is not None, 60, "JupyterLab's address")
        assert self._process.poll() is None, self.said()

    def said(self) -> str:
        return (self.home / "server.log").read_text()

    def _address(self) -> str:
        found = re.search(r"http://127\.0\.0\.1:\d+/", self.said())
        return found[0] if found else ""

    def page(self, notebook: str) -> str:
        return f"{self._address()}lab/tree/notebooks/{notebook}?token=for-the-test&reset"

    def close(self) -> None:
        self._process.send_signal(signal.SIGINT)
        try:
            self._process.wait(timeout=30)
        finally:
            self._process.kill()
            self._process.wait()
            self._log.close()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    before = {path: path.read_bytes() for path in (ROOT / "notebooks").glob("*.ipynb")}
    running = Server(tmp_path_factory.mktemp("jupyter"))
    yield running
    running.close()
    for path, content in before.items():
        assert path.read_bytes() == content, f"{path.name} was changed by looking at it"


@pytest.fixture(scope="module")
def context() -> Iterator[BrowserContext]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=FLAGS)
        yield browser.new_context(viewport={"width": 1500, "height": 1100})
        browser.close()


class Notebook:
    """A notebook in the browser: runs its cells, finds its widgets, and remembers what went wrong."""

    def __init__(self, context: BrowserContext, server: Server, name: str) -> None:
        self.complaints: list[str] = []
        self.strangers: list[str] = []
        self.page: Page = context.new_page()
        self.page.on("console", self._console)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", self._request)
        self._address = server.page(name)
        self.open()

    def open(self) -> None:
        """Load the page, or load it again."""
        self.page.goto(self._address)
        # A notebook that is still being read shows one empty cell; a run asked for then asks for a kernel first.
        self.page.locator(".jp-Notebook .jp-Cell").nth(5).wait_for(timeout=60_000)
        self.wait_for_kernel()

    def _console(self, message: object) -> None:
        kind, text = message.type, message.text  # type: ignore[attr-defined]
        if kind == "error" and not NOISE.search(text):
            self.complaints.append(text)

    def _request(self, request: object) -> None:
        url = urlsplit(request.url)  # type: ignore[attr-defined]
        if url.scheme not in ("data", "blob") and url.hostname not in ("127.0.0.1", "localhost"):
            self.strangers.append(request.url)  # type: ignore[attr-defined]

    def wait_for_kernel(self) -> None:
        self.page.locator(".jp-StatusBar-TextItem", has_text="| Idle").first.wait_for(timeout=60_000)

    def command(self, menu: str, item: str) -> None:
        self.page.locator(".lm-MenuBar-itemLabel", has_text=re.compile(f"^{menu}$")).click()
        self.page.locator(".lm-Menu-itemLabel", has_text=re.compile(f"^{item}")).first.click()

    def run_cell(self, source: str) -> None:
        """Run the cell that holds ``source``, as by Shift-Enter."""
        cell = self.cell(source)
        cell.locator(".cm-content").first.click()
        self.page.keyboard.press("Shift+Enter")
        prompt = cell.locator(".jp-InputPrompt")
        wait_for(lambda: re.search(r"\d", prompt.inner_text()), 60, f"the cell {source!r} to run")

    def run_all(self) -> None:
        self.command("Run", "Run All Cells")
        wait_for(self._done, RUN_ALL_S, "all cells to run")

    def save(self) -> None:
        self.command("File", "Save Notebook")
        try:
            self.page.locator(".jp-mod-dirty").wait_for(state="detached", timeout=60_000)
        except TimeoutError:
            self.page.screenshot(path=ARTEFACTS / "not-saved.png")
            raise

    def prompts(self) -> list[str]:
        return self.page.evaluate(
            "() => [...document.querySelectorAll('.jp-CodeCell .jp-InputPrompt')].map(e => e.textContent)"
        )

    def _done(self) -> bool:
        """Whether every cell has its number: one that waits or runs shows [*], one not yet run [ ]."""
        prompts = self.prompts()
        return bool(prompts) and all(re.search(r"\d", prompt) for prompt in prompts)

    def panel(self) -> Locator:
        """The first live panel, scrolled into view: what is out of view, JupyterLab doesn't render."""
        panel = self.page.locator(".xdp-panel").first
        panel.wait_for(timeout=30_000, state="attached")

        def in_view() -> bool:
            panel.evaluate("e => e.scrollIntoView({block: 'center'})")
            box = panel.bounding_box()
            return box is not None and 0 <= box["y"] < 800

        wait_for(in_view, 20, "the panel to come into view")
        return panel

    def cell(self, source: str) -> Locator:
        return self.page.locator(".jp-CodeCell", has_text=source).first

    def still(self) -> Locator:
        """The still picture in place of the panel."""
        cell = self.cell("LivePanel(lab")
        still = cell.locator(".lab-still")

        def in_view() -> bool:
            cell.evaluate("e => e.scrollIntoView({block: 'start'})")
            return still.count() > 0 and still.is_visible()

        wait_for(in_view, 20, "the still picture")
        return still

    def errors(self) -> list[str]:
        return self.page.locator(
            '[data-mime-type="application/vnd.jupyter.stderr"], .jp-RenderedText[data-mime-type*="error"]'
        ).all_inner_texts()

    def close(self) -> None:
        assert self.strangers == []
        assert self.complaints == []
        self.page.close()


def records_in_sandboxes(lab: str) -> set[Path]:
    """Records of a lab in any sandbox's own /run, seen through its processes."""
    found = set()
    for path in Path("/proc").glob(f"[0-9]*/root/run/user/xdp-lab/{lab}.*.json"):
        with contextlib.suppress(OSError):
            if "labkit" not in (path.parents[4] / "cmdline").read_text():
                found.add(path)
    return found


def sent(panel: Locator) -> int:
    """The number in the ledger's first row."""
    text = panel.locator("table tbody tr").first.locator("td").all_inner_texts()
    numbers = [cell.replace(",", "") for cell in text if cell.replace(",", "").isdigit()]
    return int(numbers[0])


@pytest.fixture
def open_notebook(context: BrowserContext, server: Server) -> Iterator[Callable[[str], Notebook]]:
    opened: list[Notebook] = []

    def open_(name: str) -> Notebook:
        opened.append(Notebook(context, server, name))
        return opened[-1]

    yield open_
    for notebook in opened:
        notebook.close()


def predict_by_keyboard(notebook: Notebook, server: Server) -> None:
    """Space chooses, arrows change, Enter stores a number: JupyterLab must not take the keys."""
    page = notebook.page
    for cell in ("import labkit as lk", 'lk.predict("drop-rate"', 'lk.predict("touch"'):
        notebook.run_cell(cell)
    field = page.get_by_role("textbox", name=re.compile("How many packets a second .* Mpps"))
    field.focus()
    page.keyboard.type("1,5")
    page.keyboard.press("Backspace")
    page.keyboard.press("Backspace")
    page.keyboard.type(".5")
    page.keyboard.press("Enter")
    page.get_by_role("status").filter(has_text="Stored: 1.5 Mpps.").wait_for(timeout=10_000)
    group = page.get_by_role("group", name=re.compile("Predict. On this veth pair"))
    choices = group.get_by_role("radio")
    choices.first.focus()
    page.keyboard.press("Space")
    page.get_by_role("status").filter(has_text="Stored: at least a third faster").wait_for(timeout=10_000)
    page.keyboard.press("ArrowDown")
    page.get_by_role("status").filter(has_text="Stored: within a quarter").wait_for(timeout=10_000)
    assert [choice.is_checked() for choice in choices.all()] == [False, True]
    stored = json.loads((server.home / "progress.json").read_text())["predictions"]
    assert (stored["drop-rate"]["answer"], stored["touch"]["answer"]) == (1.5, "within a quarter: no real difference")


def moves_beside_a_long_cell(notebook: Notebook, panel: Locator) -> None:
    """The panel and its buttons work while a cell of the student's runs."""
    cell = notebook.cell("panel.set(rate_pps")
    cell.evaluate("e => e.scrollIntoView({block: 'center'})")
    cell.locator(".cm-content").first.click()
    notebook.page.keyboard.press("Control+A")
    notebook.page.keyboard.insert_text(
        "import threading\npanel.start()\nthreading.Event().wait(30)  # panel.set(rate_pps"
    )
    notebook.page.keyboard.press("Shift+Enter")
    before = sent(notebook.panel())
    for _ in range(3):
        now = before
        wait_for(lambda now=now: sent(panel) > now, 10, "the counter to move beside the cell")
        before = sent(panel)
    panel.get_by_role("button", name="Stop").click()
    panel.get_by_role("button", name="Start").wait_for(timeout=10_000)
    cell.evaluate("e => e.scrollIntoView({block: 'center'})")
    assert "*" in cell.locator(".jp-InputPrompt").inner_text(), "the cell runs still"
    notebook.command("Kernel", "Interrupt Kernel")
    # "Idle" says little: the panel's own messages end with it, too. The cell's end would make a saved page a changed one.
    wait_for(lambda: re.search(r"\d", cell.locator(".jp-InputPrompt").inner_text()), 30, "the cell to be interrupted")
    notebook.wait_for_kernel()
    notebook.panel()


def has_names_for_those_who_do_not_see_it(panel: Locator) -> None:
    snapshot = panel.aria_snapshot()
    for words in (
        'button "Start"',
        'button "Reset"',
        'button "Pause"',
        'group "Topology client – server: client eth0 to server eth0.',
        'table "Ledger: every packet since reset"',
        'group "Program"',
        'radio "drop"',
        'group "Mode"',
        'slider "Rate"',
        'slider "Size"',
        'group "Threads"',
        'list "What happened"',
    ):
        assert words in snapshot, snapshot
    assert "region" in panel.locator("xpath=..").aria_snapshot()


def test_the_drop_lesson_runs_and_its_counter_moves(open_notebook: Callable[[str], Notebook], server: Server) -> None:
    notebook = open_notebook("01-drop.ipynb")
    assert notebook.page.locator(".jp-Dialog").count() == 0
    predict_by_keyboard(notebook, server)
    notebook.run_all()
    assert notebook.errors() == []
    panel = notebook.panel()
    panel.get_by_role("button", name="Start").click()
    wait_for(lambda: sent(panel) > 0, 20, "the counter to move")
    first = sent(panel)
    wait_for(lambda: sent(panel) > first, 20, "the counter to move on")
    assert "unaccounted ✓" in panel.inner_text()
    panel.get_by_role("button", name="Reset").click()
    wait_for(lambda: sent(panel) == 0, 20, "the reset")
    panel.get_by_role("button", name="Start").click()
    if os.environ.get("UPDATE_PICTURES"):
        time.sleep(12)  # a picture with a history in its chart
    panel.screenshot(path=ARTEFACTS / "lesson-panel.png")
    if os.environ.get("UPDATE_PICTURES"):  # the picture of the README
        shutil.copy(ARTEFACTS / "lesson-panel.png", ROOT / "tests" / "pictures" / "panel.png")
    panel.get_by_role("button", name="Stop").click()
    panel.get_by_role("button", name="Start").wait_for(timeout=10_000)


def test_after_a_restart_and_a_reload_the_last_picture_stays(
    open_notebook: Callable[[str], Notebook], server: Server
) -> None:
    """The lab goes with its kernel and leaves no trace; the page shows what was, and says that it was."""
    notebook = open_notebook("00-tour.ipynb")
    notebook.run_all()
    assert notebook.errors() == []
    panel = notebook.panel()
    panel.get_by_role("button", name="Start").wait_for(timeout=20_000)  # what it missed while it was out of sight
    has_names_for_those_who_do_not_see_it(panel)
    moves_beside_a_long_cell(notebook, panel)
    counted = sent(panel)
    records = records_in_sandboxes("tour")
    assert records
    notebook.save()
    notebook.command("Kernel", "Restart Kernel…")
    notebook.page.locator(".jp-Dialog button", has_text="Restart").click()
    wait_for(lambda: not any(path.exists() for path in records), 20, "the lab to be gone")
    notebook.wait_for_kernel()  # a server told to stop while a kernel restarts stumbles over it
    notebook.open()  # the saved page has the panel's last state
    panel = notebook.panel()
    panel.get_by_text("No answer from the kernel").wait_for(timeout=20_000)
    assert sent(panel) == counted
    assert panel.get_by_role("button", name="Start").is_disabled()
    notebook.save()  # without a kernel that knows them, JupyterLab saves no widgets
    notebook.open()
    still = notebook.still()
    assert f"{counted:,}" in still.inner_text()
    still.screenshot(path=ARTEFACTS / "still-panel.png")
    for cell in ("lk.predict(", "LivePanel(lab"):
        notebook.cell(cell).scroll_into_view_if_needed()
        assert "model not found" not in notebook.page.locator("body").inner_text().lower()
    # What JupyterLab itself writes to the console about it can't be helped.
    notebook.complaints = [words for words in notebook.complaints if "widget model not found" not in words]
