"""A page with one widget in Chromium, in front of its real Python side: a stand-in for anywidget's model is all there is."""

from __future__ import annotations

from typing import Any

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, Route

SITE = "http://lab.test/"
PAGE = """<!doctype html><html lang="en"><meta charset="utf-8"><title>A widget</title>
<link rel="icon" href="data:,"><link rel="stylesheet" href="/widget.css">
<style>body { margin: 12px; background: #fff } @media (prefers-color-scheme: dark) { body { background: #0d1014 } }</style>
<main><h1 style="font: 12px sans-serif; margin: 0; clip-path: inset(50%)">A widget</h1><div id="widget"></div></main>
<script type="module">
import widget from "/widget.js";
class Model {
  heard = {};
  constructor(state) { this.state = state; }
  get(name) { return this.state[name]; }
  on(name, f) { (this.heard[name] ??= []).push(f); }
  off(name, f) { this.heard[name] = (this.heard[name] ?? []).filter((g) => g !== f); }
  async send(message) { this.take(await window.tell(message)); }
  take(state) {
    for (const name of Object.keys(state)) {
      if (JSON.stringify(state[name]) === JSON.stringify(this.state[name])) continue;
      this.state[name] = state[name];
      (this.heard[`change:${name}`] ?? []).forEach((f) => f());
    }
  }
}
window.model = new Model(await window.tell(null));
window.end = widget.render({ model: window.model, el: document.getElementById("widget") });
</script></html>"""


class Stand:
    """Pages that show ``widget`` by its ``front`` (script, style); ``complaints`` of the console, and wrong requests."""

    def __init__(
        self, browser: Browser, widget: Any, front: tuple[str, str], traits: tuple[str, ...], ready: str
    ) -> None:
        self.widget, self._traits, self._ready = widget, traits, ready
        self.complaints: list[str] = []
        self.heard: list[Any] = []
        self._browser = browser
        self._pages: list[Page] = []
        self._files = {
            "": ("text/html", PAGE),
            "widget.js": ("text/javascript", front[0]),
            "widget.css": ("text/css", front[1]),
        }

    def tell(self, message: Any) -> dict[str, Any]:
        """What the page says, and the state after it."""
        if message is not None:
            self.heard.append(message)
            self.widget._heard(self.widget, message, [])
        return {name: getattr(self.widget, name) for name in self._traits}

    def open(self, width: int = 1060, **options: Any) -> Page:
        page = self._browser.new_page(viewport={"width": width, "height": 900}, **options)
        self._pages.append(page)
        page.on("console", lambda m: self.complaints.append(m.text) if m.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.route("**/*", self._serve)
        page.expose_function("tell", self.tell)
        page.goto(SITE)
        page.wait_for_selector(self._ready)
        return page

    def _serve(self, route: Route) -> None:
        kind, text = self._files.get(route.request.url.removeprefix(SITE), ("", ""))
        if not text:
            self.complaints.append(f"asked for {route.request.url}")
        route.fulfill(content_type=f"{kind}; charset=utf-8", body=text)

    def close(self) -> None:
        for page in self._pages:
            page.close()
        self.widget.close()


def accessibility_faults(page: Page) -> list[str]:
    """What axe-core finds on a page, each with the elements it is about."""
    found = Axe().run(page).response["violations"]
    return [f"{each['id']}: {[node['html'][:120] for node in each['nodes']]}" for each in found]
