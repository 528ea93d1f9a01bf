"""What the panel's controls do: traffic on and off, as set, and the programs at its far end."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from labkit.errors import TrafficError
from labkit.interface import Interface
from labkit.lab import Lab
from labkit.program.link import MODES
from labkit.program.program import Program
from labkit.traffic.frame import Frame
from labkit.traffic.frames import icmp, tcp, udp
from labkit.traffic.generator import Generator
from labkit.traffic.report import rate
from labkit.widgets.choice import ProgramChoice
from labkit.widgets.offloads import OFFLOADS, Offloads
from labkit.widgets.settings import (
    FASTEST,
    FLOWS,
    KINDS,
    RATE_PPS,
    SIZE_BYTES,
    THREADS,
    Settings,
    threads_in_words,
)

__all__ = ["Controller"]

_SETTLE_S = 0.5
_CONTROLS = (*(field.name for field in fields(Settings)), "program", "mode", *OFFLOADS)
_BUILDERS: dict[str, Callable[..., Frame]] = {"UDP": udp, "TCP": tcp, "ICMP": icmp}


class Controller:
    """Sends from the first end of the lab's first link to the last host.

    ``choice`` holds the programs for the other end of that link.
    """

    def __init__(self, lab: Lab, programs: Mapping[str, Program | str | Path] | None = None) -> None:
        self.lab = lab
        self.settings = Settings()
        self.sender: Interface | None = None
        target: Interface | None = None
        if lab.topology.links:
            near, far = lab.topology.links[0].ends
            self.sender, target = lab[near.host][near.interface], lab[far.host][far.interface]
        self.choice = ProgramChoice(lab, target, programs or {})
        self.offloads = Offloads(lab)
        self._generators: list[Generator] = []  # one for each protocol
        self._began = 0.0
        self._lock = threading.RLock()

    def start(self) -> None:
        """Start sending. Does nothing where something sends already. Raises LabError."""
        with self._lock:
            if self.sending:
                return
            if self.sender is None:
                raise TrafficError(
                    "This lab has no link.",
                    tried="to send",
                    on=self.lab.name,
                    remedy="use a topology with links",
                )
            settings = self.settings
            receiver = self.lab.hosts[self.lab.topology.hosts[-1]]
            self.stop_own()  # one that has come to its end
            builders = [_BUILDERS[kind] for kind in settings.kinds]
            generators = [
                Generator(
                    self.sender,
                    build(self.sender.host, receiver, size=settings.size_bytes),
                    rate_pps=settings.rate_pps and settings.rate_pps / len(builders),
                    threads=settings.threads,
                    flows=settings.flows if build is not icmp else 1,
                )
                for build in builders
            ]
            if len(generators) > 1:
                self.lab.count_bulks()
            try:
                for each in generators:
                    each.start()
                    self._generators.append(each)
            except BaseException:
                self.stop_own()
                raise
            self._began = time.monotonic()
            self.lab.tell("info", f"Traffic started: {settings}.")

    def stop(self) -> None:
        """Stop the panel's own traffic, or all of the lab's where it has none."""
        with self._lock:
            if not self.stop_own():
                self.lab.traffic.stop()

    def stop_own(self) -> bool:
        """Stop the panel's own traffic; whether there was any."""
        with self._lock:
            own, self._generators = self._generators, []
            if not own:
                return False
            reports = [each.stop() for each in own]
            if not self.lab.closed:
                sent, pps = sum(each.sent for each in reports), sum(each.pps for each in reports)
                words = f"{sent:,} packets sent at {rate(pps)}"
                self.lab.tell("info", f"Traffic stopped: {words}.")
            return True

    def reset(self) -> None:
        """Stop the traffic and count from zero; programs stay attached."""
        with self._lock:
            self.stop()
            self.lab.reset()

    def change(self, **values: Any) -> None:
        """Change settings, the ``program`` (a label, or "none") or the ``mode``.

        Traffic under way goes on with them. Raises LabError, and then nothing has changed but
        what stands before the fault.
        """
        for name in values:
            if name not in _CONTROLS:
                raise TrafficError(
                    f"The panel has no control {name!r}.",
                    tried="to set it",
                    remedy="use " + ", ".join(_CONTROLS),
                )
        with self._lock:
            program, mode = values.pop("program", None), values.pop("mode", None)
            switches = {name: values.pop(name) for name in OFFLOADS if name in values}
            settings = replace(self.settings, **values).checked()
            for name, value in switches.items():
                self.offloads.switch(name, value)
            if program is not None or mode is not None:
                self._choose(program, mode)
            if settings != self.settings:
                self.settings = settings
                if self._sends:
                    self.stop_own()
                    self.start()

    def _choose(self, program: str | None, mode: str | None) -> None:
        """A program is swapped under traffic. A change of mode has a gap without any: the traffic waits for it."""
        gap = mode not in (None, self.choice.mode) and self._sends
        if gap:
            self.stop_own()
            self.lab.ledger(settle_s=_SETTLE_S)  # until the last frame is through the old mode
        try:
            self.choice.choose(program, mode)
        finally:
            if gap:
                self.start()

    def adopt(self, other: Controller) -> None:
        """Take over the traffic, the settings and the programs of a panel that is replaced."""
        with self._lock, other._lock:
            self.settings, self._began = other.settings, other._began
            self._generators, other._generators = other._generators, []
            self.choice.wanted_mode = other.choice.wanted_mode
            if not self.choice.programs:
                known = other.choice.programs.items()
                self.choice.programs = {label: each for label, each in known if not getattr(each, "closed", False)}

    @property
    def _sends(self) -> bool:
        return any(each.running for each in self._generators)

    @property
    def sending(self) -> bool:
        """Whether anything sends in this lab: the panel's generator or a cell's."""
        return any(getattr(source, "running", True) for source in self.lab.traffic.running)

    def elapsed_s(self) -> float:
        """Since the present traffic began; 0 where none runs."""
        if not self.sending:
            self._began = 0.0
            return 0.0
        self._began = self._began or time.monotonic()
        return time.monotonic() - self._began

    def controls(self) -> list[dict[str, Any]]:
        """The controls with their present values, as the front end wants them."""
        now, choice = self.settings, self.choice
        pace = {"scale": "log", "unit": "pps", "end": FASTEST}
        return [
            _segmented("program", "Program", choice.labels, choice.program),
            _segmented("mode", "Mode", list(MODES), choice.mode),
            _range("rate_pps", "Rate", RATE_PPS, now.rate_pps, **pace),
            _range("size_bytes", "Size", SIZE_BYTES, now.size_bytes, step=4, unit="B"),
            _segmented("threads", "Threads", list(THREADS), now.threads),
            {**_segmented("kind", "Protocol", list(KINDS), now.kind), "more": True},
            _range("flows", "Flows", FLOWS, now.flows, scale="log", more=True),
            *self._switches(),
        ]

    def _switches(self) -> list[dict[str, Any]]:
        states = self.offloads.states()
        return [
            {**_segmented(name, label, ["off", "on"], "on" if states[name] else "off"), "more": True}
            for name, (_, label) in OFFLOADS.items()
        ]

    def hosts(self) -> dict[str, list[str]]:
        """Up to two lines for each host: what it does now."""
        found: dict[str, list[str]] = {name: [] for name in self.lab.topology.hosts}
        for source in self.lab.traffic.running:
            if isinstance(source, Generator) and source.running:
                found[source.interface.host.name] = _sender_in_words(source)
        if self.sender is not None and self._sends and len(self._generators) > 1:
            found[self.sender.host.name] = [f"generators of {' and '.join(self.settings.kinds)}", str(self.settings)]
        for sink in self.lab.sinks:
            waiting = f"{sink.queued():,} packets wait"
            found[sink.host.name] = [f"socket {sink.where.partition(' ')[2]}", waiting]
        for name in self.lab.topology.forwarders:
            found[name] = found[name] or ["forwards between its links"]
        if self.sender is not None and not found[self.sender.host.name]:
            frames = f"{self.settings.size_bytes} B frames"
            found[self.sender.host.name] = ["generator ready", frames]
        return found


def _sender_in_words(source: Generator) -> list[str]:
    pace = FASTEST if source.rate_pps is None else f"at {rate(source.rate_pps)}"
    flows = f"{source.flows} flow{'s' if source.flows != 1 else ''}"
    return [
        f"generator, {threads_in_words(source.threads)}",
        f"{len(source.frame)} B, {flows}, {pace}",
    ]


def _segmented(name: str, label: str, options: list[Any], value: Any) -> dict[str, Any]:
    return {
        "id": name,
        "label": label,
        "kind": "segmented",
        "options": options,
        "value": value,
    }


def _range(name: str, label: str, ends: tuple[int, int], value: float | None, **more: Any) -> dict[str, Any]:
    low, high = ends
    return {
        "id": name,
        "label": label,
        "kind": "range",
        "min": low,
        "max": high,
        "value": value,
        **more,
    }
