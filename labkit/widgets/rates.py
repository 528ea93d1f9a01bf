"""A map of counters as a live table: what it holds, and what it gains a second."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from html import escape

import ipywidgets as widgets

from labkit.errors import LabError
from labkit.lab import Lab
from labkit.lesson.page import Table, block
from labkit.program.map import Map
from labkit.widgets.still import Still

__all__ = ["MapRates"]

_shown: dict[str, MapRates] = {}


class MapRates(widgets.HTML):  # type: ignore[misc]  # ipywidgets has no types
    """Rows of ``counters`` that are not 0, with their rate; ``names`` says what a key means.

    ``kept`` (key → not 0 where the program lets it through) tells drops from the others.
    Reads on a thread of its own until ``stop()``, the lab's end, or another table of the same map name in the same lab.
    """

    def __init__(
        self,
        lab: Lab,
        counters: Map,
        names: Mapping[int, str] | None = None,
        *,
        kept: Map | None = None,
        unit: str = "drops",
        interval_s: float = 0.25,
    ) -> None:
        super().__init__()
        self._lab, self._counters, self._kept = lab, counters, kept
        self._names, self._unit, self._interval_s = names or {}, unit, interval_s
        self._ended = threading.Event()
        self._still = Still()
        self._before: tuple[float, dict[int, int]] | None = None
        self._thread = threading.Thread(target=self._run, name=f"rates-{counters.name}", daemon=True)
        self._place = f"{lab.name} {counters.name}"
        self._show()  # a map that is closed is told here, and nothing has begun yet
        if self._place in _shown:
            _shown[self._place].close()
        _shown[self._place] = self
        lab.on_close(self.stop)
        self._thread.start()

    def stop(self) -> None:
        """Stop reading; what was shown last stays. Safe to call again."""
        self._ended.set()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join(2)
        if _shown.get(self._place) is self:
            del _shown[self._place]
            self._still.update(self.value)

    def close(self) -> None:
        """Stop, and take the table off the page."""
        if hasattr(self, "_place"):
            self.stop()
        parts = [part for part in (self.layout, self.style) if part is not None]  # widgets with comms of their own
        super().close()
        for part in parts:
            part.close()

    def _ipython_display_(self) -> None:
        self._still.show(self, self.value)

    def _run(self) -> None:
        """A thread's exception would go unseen: whatever ends the reading is shown."""
        while not self._ended.wait(self._interval_s):
            try:
                self._show()
            except LabError as error:
                self.value += f"<p>{escape(error.message)} {escape(error.remedy)}</p>"
                return
            except Exception as error:
                self.value += f"<p>The table stopped: {escape(str(error))}</p>"
                return

    def _show(self) -> None:
        now, held = time.monotonic(), {key: value for key, value in self._counters.items() if value}
        past = self._before
        rates = {}
        if past is not None:
            rates = {key: (value - past[1].get(key, 0)) / (now - past[0]) for key, value in held.items()}
        self._before = (now, held)
        kept = {key for key, value in self._kept.items() if value} if self._kept is not None else set()
        rows = tuple(
            (
                self._names.get(key, str(key)) + (", let through" if key in kept else ""),
                value,
                None if key in kept else round(rates.get(key, 0)),
            )
            for key, value in sorted(held.items())
        )
        head = ("protocol", "packets", f"{self._unit}/s")
        caption = f"{self._counters.name}, live" if rows else f"{self._counters.name}, live: nothing counted yet"
        self.value = block(Table(head, rows, caption).html())
