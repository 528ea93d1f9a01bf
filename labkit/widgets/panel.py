"""LivePanel: a lab on the page, as it is ten times a second."""

from __future__ import annotations

import threading
import time
import weakref
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anywidget
import traitlets

from labkit.errors import LabError, StateError
from labkit.lab import Lab
from labkit.program.program import Program
from labkit.widgets.assets import CSS, ESM
from labkit.widgets.comms import answer_beside_cells
from labkit.widgets.controller import Controller
from labkit.widgets.frame import Badge, Reading, Shown, build_frame, describe_topology
from labkit.widgets.picture import still_picture
from labkit.widgets.readings import Readings
from labkit.widgets.still import Still
from labkit.widgets.ticker import Ticker
from labkit.widgets.words import sentence

__all__ = ["LivePanel"]

_WINDOW = 6  # readings that a rate is taken over: half a second at 10 Hz
_LONGEST_S = 1.5
_MOST_ERRORS = 50
_STILL_S = 2.0  # how old the still picture may get while traffic runs
_panels: dict[str, LivePanel] = {}
_watched: weakref.WeakSet[Lab] = weakref.WeakSet()
_panels_lock = threading.RLock()


class LivePanel(anywidget.AnyWidget):
    """The topology, the rates, the ledger and the controls of a lab, live.

    ``programs`` (label → Program, or the path of a C file, loaded when it is chosen) are offered at the receiving end
    of the first link; a program already attached there is offered in any case. One panel a lab: showing another, as by
    running the cell again, ends the first. The panel ends with the lab. What a control could not do
    is shown in red and kept in ``errors``.
    """

    _esm = ESM
    _css = CSS
    topology = traitlets.Dict().tag(sync=True)
    controls: Any = traitlets.List().tag(sync=True)
    frame = traitlets.Dict().tag(sync=True)
    _ended: str | None = "closed"  # until it has begun: a panel that could not be made is closed by its collector

    def __init__(
        self, lab: Lab, programs: Mapping[str, Program | str | Path] | None = None, *, interval_s: float = 0.1
    ) -> None:
        if lab.closed:
            raise StateError(
                f"The lab {lab.name} is closed.",
                tried="to show its panel",
                remedy="make it again: run the cell that calls lk.Lab(…)",
            )
        self.lab = lab
        self.errors: deque[Exception] = deque(maxlen=_MOST_ERRORS)
        self.controller = Controller(lab, programs)
        self.ticker = Ticker(self._tick, self._failed, interval_s=interval_s, name=f"panel-{lab.name}")
        self._readings: deque[Reading] = deque(maxlen=_WINDOW)
        self._baseline: object = None
        self._read = Readings(lab, lambda: self.controller.sending)
        self._epoch = 0
        self._statistics = False  # whether somebody looks at them
        self._problem: tuple[str, str] | None = None
        self._tick_failed = False
        self._ended: str | None = None
        self._before: LivePanel | None = None
        self._still = Still()
        self._still_at = 0.0
        self._work = threading.RLock()
        _take_over(self)
        super().__init__(topology=describe_topology(lab.topology, lab.name), controls=self.controller.controls())
        answer_beside_cells(self)
        self.on_msg(self._heard)
        self.refresh()
        self.ticker.start()

    # From Python

    def start(self) -> None:
        """Start the traffic. Raises LabError."""
        self.controller.start()
        self.refresh()

    def stop(self) -> None:
        """Stop the traffic. Safe to call again."""
        self.controller.stop()
        self.refresh()

    def reset(self) -> None:
        """Stop the traffic and count from zero; programs stay attached."""
        self.controller.reset()
        self.refresh()

    def set(self, **values: Any) -> None:
        """Set rate_pps (None: as fast as it goes), size_bytes, threads, flows, kind, program, mode or an offload.

        ``kind`` is UDP, TCP, ICMP or mix; tx_checksum, tx_vlan and rx_vlan are "on" or "off".

        Raises LabError.
        """
        self.controller.change(**values)
        self.refresh()

    def refresh(self) -> None:
        """Read the counters and show them now."""
        self._tick(self.ticker.seq, exact=True)

    @property
    def ended(self) -> str | None:
        """ "replaced" or "closed" once the panel shows nothing new, else None."""
        return self._ended

    def close(self) -> None:
        """Stop the panel's traffic, end the panel and take it off the page. Safe to call again."""
        if self._ended is None:
            self.controller.stop_own()
        self._end("closed")
        with _panels_lock:
            for name in [name for name, panel in _panels.items() if panel is self]:
                del _panels[name]
        layout = self.layout  # a widget of its own, with a comm of its own
        super().close()
        if layout is not None:
            layout.close()

    # The clock's side

    def _tick(self, seq: int, *, exact: bool = False) -> None:
        with self._work:
            if self._ended is not None or self.lab.closed:
                return
            baseline = self.lab.baseline
            if baseline is not self._baseline:  # the lab was reset, here or in a cell
                self._baseline = baseline
                self._epoch += 1
                self._readings.clear()
                self._read.ledger = None
            reading = self._read.read(baseline, exact=exact)
            sample = reading.sample
            while len(self._readings) > 1 and sample.time_s - self._readings[0].sample.time_s > _LONGEST_S:
                self._readings.popleft()  # from before a pause: the rates would be of long ago
            past = self._readings[0] if self._readings else None
            self._readings.append(reading)
            if self._tick_failed:
                self._problem, self._tick_failed = None, False
            shown = self._shown(reading)
            frame = build_frame(seq, self.lab.topology, reading, past, baseline, shown, exact=self._read.ledger)
            self.controls = self.controller.controls()
            notes = list(self.controller.offloads.notes())
            if notes != self.topology["notes"]:
                self.topology = {**self.topology, "notes": notes}
            self.frame = frame
            self._keep_still(running=frame["state"] == "running")

    def _shown(self, reading: Reading) -> Shown:
        sending = self.controller.sending
        return Shown(
            state="running" if sending else "stopped" if reading.ledger.sent else "idle",
            elapsed_s=self.controller.elapsed_s(),
            badges=[
                Badge(
                    link.interface.where.partition(" ")[0],
                    link.interface.where.partition(" ")[2],
                    link.program.name,
                    link.mode,
                    link.program.id,
                    link.program.tag,
                )
                for link in list(self.lab.attached)
            ],
            hosts=self.controller.hosts(),
            events=[(event.time_s, event.level, event.text) for event in list(self.lab.events)],
            error=self._problem,
            epoch=self._epoch,
            statistics=self._statistics,
            offloads=self.controller.offloads.at_interfaces(),
        )

    def _failed(self, error: Exception, *, in_tick: bool = True) -> None:
        """Show what went wrong, in words, and keep it; once, where it repeats with every tick."""
        if self._ended is not None or (in_tick and self.lab.closed):
            return
        known = self.errors and str(self.errors[-1]) == str(error)
        if not (in_tick and known):
            self.errors.append(error)
        self._tick_failed = in_tick
        if isinstance(error, LabError):
            self._problem = (error.message, sentence(error.remedy))
        else:
            words = f"{type(error).__name__}: {error}"
            self._problem = (
                words,
                "Run the cell again; if it repeats, panel.errors[-1] has the whole of it.",
            )
        text, remedy = self._problem
        self.frame = {**self.frame, "error": {"text": text, "remedy": remedy}}

    # The browser's side

    def _heard(self, _widget: object, message: Any, _buffers: object) -> None:
        kind = message.get("type") if isinstance(message, dict) else None
        if kind == "ack":
            self.ticker.acknowledge(int(message.get("seq", 0)))
        elif kind == "hello":
            self.ticker.hello()
        elif kind == "show":
            self._statistics = bool(message.get("statistics"))
            self.ticker.hello()
        elif kind in ("control", "action") and self._ended is None:
            self._obey(kind, message)

    def _obey(self, kind: str, message: Mapping[str, Any]) -> None:
        """Do what a control asks for. Nothing escapes: a callback's exception would go unseen."""
        try:
            if kind == "control":
                self.controller.change(**{str(message.get("id")): message.get("value")})
            else:
                actions = {
                    "start": self.controller.start,
                    "stop": self.controller.stop,
                    "reset": self.controller.reset,
                }
                actions[str(message.get("name"))]()
            self._problem = None
            self.refresh()
        except Exception as error:
            self._failed(error, in_tick=False)
            self.controls = []  # a control goes back to what is the case
            self.controls = self.controller.controls()

    # The end

    def _end(self, state: str) -> None:
        """Stop the clock and say why on the page; the picture stays. Safe to call again."""
        if self._ended is not None:
            return
        self._ended = state
        self.ticker.stop()
        self.frame = {**self.frame, "state": state, "error": None, "seq": self.ticker.seq + 1}
        self._keep_still(running=False)

    def _keep_still(self, *, running: bool) -> None:
        """Renew the picture that stays when the kernel goes: now and then under traffic, else where something is new."""
        now = time.monotonic()
        if running and now - self._still_at < _STILL_S:
            return
        self._still_at = now
        self._still.update(still_picture(self.topology, self.frame))

    def _ipython_display_(self) -> None:
        self._still.show(self, still_picture(self.topology, self.frame))

    def _repr_mimebundle_(self, **kwargs: Any) -> tuple[dict[str, Any], dict[str, Any]] | None:
        """The live view, and for a page without widgets (a notebook on the web) a still picture."""
        bundle = super()._repr_mimebundle_(**kwargs)
        if bundle is not None:
            bundle[0]["text/html"] = still_picture(self.topology, self.frame)
        return bundle

    def __repr__(self) -> str:
        return f"<live panel of {self.lab.name}: {self._ended or self.frame.get('state', 'idle')}>"


def _take_over(panel: LivePanel) -> None:
    """Make ``panel`` the one of its lab; the one before says so, the one before that is closed."""
    with _panels_lock:
        before = _panels.get(panel.lab.name)
        _panels[panel.lab.name] = panel
        if panel.lab not in _watched:
            _watched.add(panel.lab)
            weak = weakref.ref(panel.lab)
            panel.lab.on_close(lambda: _lab_closed(weak()))
    if before is None:
        return
    before._end("replaced")
    if before.lab is panel.lab:
        panel.controller.adopt(before.controller)
    older, before._before = before._before, None
    if older is not None:
        older.close()
    panel._before = before


def _lab_closed(lab: Lab | None) -> None:
    panel = _panels.get(lab.name) if lab is not None else None
    if panel is not None and panel.lab is lab:
        panel._end("closed")
