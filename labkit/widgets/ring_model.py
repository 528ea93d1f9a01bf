"""RingModel: a receive ring, one CPU and a transmit ring with a slider for everything. A model; nothing is measured."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterable, Mapping
from html import escape
from typing import Any

import traitlets

from labkit.errors import LabError, ModelError, StateError
from labkit.models import Knobs, Outcome, run
from labkit.widgets.assets import RING_MODEL_CSS, RING_MODEL_ESM
from labkit.widgets.comms import answer_beside_cells
from labkit.widgets.ring_model_controls import (
    TUNINGS,
    controls_of,
    costs_of,
    fixed_names,
    moved,
    moved_names,
    tunings_of,
    words_for,
)
from labkit.widgets.ring_model_data import (
    Shown,
    changes_of,
    history_of,
    ledger_of,
    published_of,
    said_of,
    warning_of,
    way_of,
)
from labkit.widgets.ring_model_newest import Newest
from labkit.widgets.ring_model_still import still_of
from labkit.widgets.still import Pictured, Still
from labkit.widgets.words import sentence

__all__ = ["RingModel", "simulated_us"]

_TRIED = "to show the ring model"
_MOST_ERRORS = 50
_MICROSECONDS = 3_000.0
_MOST_POLLS = 30_000  # of a simulation: what a slider can ask for stays below
_GESTURE_S = 1.5  # values of one slider that follow one another faster are one change
_PATIENCE_S = 30.0
_CLOSED = "Closed. Run the cell that shows it again to go on."


def simulated_us(knobs: Knobs) -> float:
    """How long a view simulates: 3 ms, and less where that would take the CPU too many polls."""
    fastest = 1e9 / (knobs.costs.receive_ns + knobs.costs.send_ns / 2)
    polls = min(knobs.offered_pps, fastest) * _MICROSECONDS * 1e-6 / knobs.budget
    return max(1.0, _MICROSECONDS * min(1.0, _MOST_POLLS / polls))


class RingModel(Pictured):
    """The ring model at ``knobs``, with sliders. ``fixed``: names of knobs or times ("costs": all) that stay as they are.

    Each setting is simulated on a thread of its own, which is there only meanwhile; of settings that come faster, the
    newest. ``knobs`` are the ones set, ``outcome`` is what came of them; what went wrong is shown, kept in ``errors``,
    and leaves the setting before. Raises ModelError for what are no knobs or no names of them.
    """

    _esm = RING_MODEL_ESM
    _css = RING_MODEL_CSS
    state = traitlets.Dict().tag(sync=True)
    ended = True  # until it has begun

    def __init__(
        self, knobs: Knobs | None = None, *, fixed: Iterable[str] = (), title: str = "Two cards, two rings, one CPU"
    ) -> None:
        self._first = self._knobs = _checked(Knobs() if knobs is None else knobs)
        self._fixed = fixed_names(fixed)
        self._title = str(title)
        self.errors: deque[Exception] = deque(maxlen=_MOST_ERRORS)
        self.ended = False
        self._problem = ""
        self._turn = self._gesture = self._gesture_shown = 0
        self._last_moved: tuple[list[str], float] = ([], 0.0)
        self._shown: Shown | None = None
        self._before: Shown | None = None
        self._lock = threading.RLock()
        self._still = Still()
        self._newest: Newest[tuple[Knobs, int]] = Newest(self._simulate, name="ring-model")
        super().__init__()
        answer_beside_cells(self)
        self.on_msg(self._heard)
        self._newest.ask((self._knobs, self._gesture))
        self._newest.wait(_PATIENCE_S)

    # From Python

    @property
    def knobs(self) -> Knobs:
        """The knobs as they are set now. Setting them moves the sliders, fixed ones too; raises ModelError, StateError."""
        return self._knobs

    @knobs.setter
    def knobs(self, knobs: Knobs) -> None:
        self._set(_checked(knobs))

    @property
    def outcome(self) -> Outcome:
        """What came of ``knobs``: waits while they are being simulated. Raises StateError where nothing came of them."""
        self._newest.wait(_PATIENCE_S)
        if self._shown is None:
            raise StateError("No run of the model has ended well.", tried=_TRIED, remedy="see .errors")
        return self._shown.outcome

    def reset(self) -> None:
        """Back to the knobs it was made with. Raises StateError where it is closed."""
        self._set(self._first)

    def close(self) -> None:
        """Take it off the page. Safe to call again."""
        if not self.ended:
            self.ended = True
            self._newest.stop()
            self._tell()
            self._still.update(self._picture())
        layout = self.layout  # a widget of its own, with a comm of its own
        super().close()
        if layout is not None:
            layout.close()

    # The work

    def _set(self, knobs: Knobs, *, by_hand: bool = False) -> None:
        with self._lock:
            if self.ended:
                raise StateError(_CLOSED, tried=_TRIED)
            self._problem = ""
            if knobs == self._knobs:
                self._tell()
                return
            names, now = moved_names(self._knobs, knobs), time.monotonic()
            goes_on = by_hand and names == self._last_moved[0] and now - self._last_moved[1] < _GESTURE_S
            self._gesture += not goes_on
            self._last_moved = (names if by_hand else [], now)
            self._knobs = knobs
            self._newest.ask((knobs, self._gesture))

    def _simulate(self, asked: tuple[Knobs, int]) -> None:
        """On the thread of its own."""
        knobs, gesture = asked
        try:
            outcome = run(knobs, microseconds=simulated_us(knobs))
            with self._lock:
                if gesture != self._gesture_shown:
                    self._before, self._gesture_shown = self._shown, gesture
                self._shown = Shown(knobs, outcome)
                self._tell()
        except Exception as error:
            with self._lock:
                if self._shown is not None and self._knobs == knobs:
                    self._knobs = self._shown.knobs
                self._failed(error)

    def _failed(self, error: Exception) -> None:
        self.errors.append(error)
        known = f"{error.message} {sentence(error.remedy)}" if isinstance(error, LabError) else ""
        self._problem = known or f"{type(error).__name__}: {error}"
        self._tell()

    # The browser's side

    def _heard(self, _widget: object, message: Any, _buffers: object) -> None:
        """Nothing escapes: a callback's exception would go unseen. What is refused puts the controls back."""
        if not isinstance(message, Mapping) or self.ended:
            return
        try:
            self._obey(message)
        except Exception as error:
            with self._lock:
                self._failed(error)

    def _obey(self, message: Mapping[str, Any]) -> None:
        kind = message.get("type")
        if kind == "set":
            self._move(moved(self._knobs, message.get("id"), message.get("value")), by_hand=True)
        elif kind == "tune":
            self._move(_tuning(message.get("name")))
        elif kind == "reset":
            self._move(self._first)
        elif kind == "keep":  # the page has come to rest: what stays is not drawn for every step of a slider
            self._still.update(self._picture())

    def _move(self, knobs: Knobs, *, by_hand: bool = False) -> None:
        stuck = [name for name in moved_names(self._knobs, knobs) if name in self._fixed]
        if stuck:
            raise ModelError(f"{', '.join(stuck)} can't be moved here.", tried=_TRIED, remedy="move another knob")
        self._set(knobs, by_hand=by_hand)

    # What is shown, and what stays

    def _tell(self) -> None:
        """One message: everything anew."""
        self._turn += 1  # so that the browser hears an answer to everything
        self.state = {
            "turn": self._turn,
            "title": self._title,
            "controls": controls_of(self._knobs, self._fixed),
            "costs": costs_of(self._knobs, self._fixed),
            "tunings": tunings_of(self._knobs, self._fixed),
            "first": self._knobs == self._first,
            "ended": _CLOSED if self.ended else "",
            "error": self._problem,
            **({} if self._shown is None else _seen(self._shown, self._before)),
        }

    def _picture(self) -> str:
        """What a page shows where no kernel answers."""
        note = "<p><b>A still picture.</b> Run this notebook's cells again to move the knobs.</p>"
        error = f"<p>{escape(self._problem)}</p>" if self._problem else ""
        return note + error + ("" if self._shown is None else still_of(self._shown, self._title))

    def __repr__(self) -> str:
        knobs = self._knobs
        shown = ", ".join(
            f"{name} {words_for(name, getattr(knobs, name))}" for name in ("rx_ring", "tx_ring", "rx_usecs", "scheme")
        )
        return f"<ring model, {'closed' if self.ended else shown}>"


def _seen(now: Shown, before: Shown | None) -> dict[str, Any]:
    simulated = now.outcome.seconds * 1e3
    short = simulated < _MICROSECONDS / 1e3
    return {
        "span": f"{simulated:.3g} ms simulated" + (", as more would take too long" if short else ""),
        "way": way_of(now),
        "history": history_of(now),
        "ledger": ledger_of(now.outcome),
        "published": published_of(now),
        "changes": changes_of(before, now),
        "warning": warning_of(now),
        "said": said_of(now),
    }


def _checked(knobs: Any) -> Knobs:
    if not isinstance(knobs, Knobs):
        raise ModelError(f"{knobs!r} are no knobs.", tried=_TRIED, remedy="give labkit.models.Knobs(…)")
    return knobs


def _tuning(name: Any) -> Knobs:
    if not isinstance(name, str) or name not in TUNINGS:
        raise ModelError(f"There is no tuning {name!r}.", tried=_TRIED, remedy="use " + ", ".join(TUNINGS))
    return TUNINGS[name]
