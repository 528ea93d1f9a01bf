"""The editor in a real JupyterLab: its keys are its own, and the text outlives the kernel, the page and a second run."""

from __future__ import annotations

from collections.abc import Callable

import test_jupyterlab
from playwright.sync_api import Locator
from test_jupyterlab import Notebook, wait_for

server = test_jupyterlab.server
context = test_jupyterlab.context
open_notebook = test_jupyterlab.open_notebook
MINE = "/* mine: dd, aa, 00 */"
EDITOR = "ProgramEditor(lab"
NEEDED = ("import labkit as lk", "plan = lk.Topology", 'name="tour"', "c_text = r", EDITOR)


def editor(notebook: Notebook) -> Locator:
    """The editor, scrolled into view."""
    panel = notebook.page.locator(".ed-panel").first
    panel.wait_for(timeout=30_000, state="attached")
    panel.evaluate("e => e.scrollIntoView({block: 'start'})")
    return panel


def runs(panel: Locator, words: str) -> None:
    panel.locator(".ed-headline", has_text=words).wait_for(timeout=30_000)


def test_keys_restart_and_reload(open_notebook: Callable[[str], Notebook]) -> None:
    notebook = open_notebook("00-tour.ipynb")
    page = notebook.page
    for cell in NEEDED:
        notebook.run_cell(cell)
    panel = editor(notebook)
    before = notebook.prompts()
    panel.locator(".ed-area").focus()
    page.keyboard.press("Control+End")
    page.keyboard.type(MINE)  # letters that are commands of a notebook
    page.keyboard.press("Control+Enter")
    runs(panel, "Version 1 runs,")
    page.keyboard.press("Control+End")
    page.keyboard.type("oops")
    page.keyboard.press("Control+Enter")
    runs(panel, "Version 1 goes on running, untouched.")
    panel.screenshot(path=test_jupyterlab.ARTEFACTS / "lesson-editor.png")
    page.keyboard.press("Escape")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.ariaLabel") == "File to save the text in"
    assert notebook.prompts() == before, "no cell has run by these keys"
    panel.locator(".ed-area").focus()
    page.keyboard.press("Control+End")
    for _ in range(4):
        page.keyboard.press("Backspace")
    page.keyboard.press("Control+Enter")
    runs(panel, "Version 1 runs already")
    notebook.command("Kernel", "Restart Kernel…")
    page.locator(".jp-Dialog button", has_text="Restart").click()
    notebook.wait_for_kernel()
    notebook.save()  # without a kernel that knows them, JupyterLab saves no widgets
    notebook.open()
    cell = notebook.cell(EDITOR)
    still = cell.locator(".lab-still", has_text=MINE)

    def stays() -> bool:
        cell.evaluate("e => e.scrollIntoView({block: 'start'})")
        return still.count() > 0 and still.is_visible()

    wait_for(stays, 30, "the text as a still picture")
    assert "model not found" not in page.locator("body").inner_text().lower()
    for again in NEEDED:
        notebook.run_cell(again)
    panel = editor(notebook)
    wait_for(lambda: panel.locator(".ed-area").input_value().endswith(MINE), 30, "the edited text")
    assert "kept from before" in panel.inner_text()
    notebook.save()
    # What JupyterLab itself writes to the console about it can't be helped.
    notebook.complaints = [words for words in notebook.complaints if "widget model not found" not in words]
