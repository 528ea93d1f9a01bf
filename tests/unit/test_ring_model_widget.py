"""The ring model as a widget, without a browser: what is shown is what the model says, and nothing fails unseen or stays."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from dataclasses import fields, replace
from typing import Any

import pytest
from patience import until

from labkit.errors import ModelError, StateError
from labkit.models import ADAPTIVE, FITTED_ON, PUBLISHED, Costs, Knobs, Scheme, run
from labkit.widgets import RingModel, ring_model
from labkit.widgets.assets import RING_MODEL_CSS, RING_MODEL_ESM, RING_MODEL_PARTS
from labkit.widgets.ring_model import simulated_us
from labkit.widgets.ring_model_controls import TUNINGS, VALUES, moved
from labkit.widgets.ring_model_newest import Newest


@pytest.fixture
def widget() -> Iterator[RingModel]:
    widget = RingModel()
    yield widget
    assert list(widget.errors) == [] or widget.state["error"]
    widget.close()


def heard(widget: RingModel, **message: Any) -> None:
    """As the page says it, and until all is shown."""
    widget._heard(widget, message, [])
    widget.outcome  # noqa: B018  (waits)


def test_what_is_shown_is_what_the_model_says(widget: RingModel) -> None:
    for knobs in [*TUNINGS.values(), *(Knobs(scheme=scheme, memory_pages=8_192) for scheme in Scheme)]:
        widget.knobs = knobs
        assert widget.outcome == run(knobs)
        assert widget.knobs == knobs
        ledger = widget.state["ledger"]
        first, *rest = (row["packets"] for row in ledger["rows"])
        assert first == sum(rest) == widget.outcome.offered
        assert ledger["unaccounted"] == 0
        history = widget.state["history"]
        assert {len(history[name]) for name in ("at_us", "rx", "tx", "pages", "asleep")} == {
            len(widget.outcome.history)
        }
        assert max(history["rx"]) <= knobs.rx_ring
        assert ("Out of memory" in widget.state["warning"]) == widget.outcome.out_of_memory


def test_every_knob_and_every_time_has_a_slider_with_a_source(widget: RingModel) -> None:
    controls, costs = widget.state["controls"], widget.state["costs"]
    assert {each["id"] for each in controls} == {each.name for each in fields(Knobs)} - {"costs"}
    assert {each["id"] for each in costs} == {each.name for each in fields(Costs)}
    for each in costs:
        assert each["source"].startswith("fitted on" if each["id"] in FITTED_ON else "assumed")
        assert getattr(Costs(), each["id"]) in each["values"]
    for each in (*controls, *costs):
        assert len(each.get("values", [])) == len(each.get("words", []))
    for knobs in TUNINGS.values():
        assert {each.knobs for each in PUBLISHED} == set(TUNINGS.values())
        assert all(getattr(knobs, name) in VALUES[name] for name in ("rx_ring", "tx_ring", "rx_usecs"))


def test_every_value_of_every_slider_is_taken_and_none_shortens_the_run(widget: RingModel) -> None:
    some = random.Random(11)
    for name, values in VALUES.items():
        for value in values:
            assert simulated_us(moved(Knobs(), name, value)) == 3_000
    for _ in range(300):
        knobs = Knobs()
        for name, values in VALUES.items():
            knobs = moved(knobs, name, some.choice(values))
        assert simulated_us(knobs) == 3_000, knobs


def test_the_published_figures_stand_beside_exactly_their_knobs(widget: RingModel) -> None:
    for name, knobs in TUNINGS.items():
        heard(widget, type="tune", name=name)
        assert widget.knobs == knobs
        shown = widget.state["published"]
        assert shown["name"] == name
        assert [row[1] for row in shown["rows"]] == [f"{e.mpps:.2f}" for e in PUBLISHED if e.knobs == knobs]
        assert [each["on"] for each in widget.state["tunings"]] == [each == name for each in TUNINGS]
    heard(widget, type="set", id="page_ns", value=100.0)
    assert widget.state["published"] == {"name": "", "rows": []}


def test_a_slider_on_its_way_is_one_change(widget: RingModel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ring_model, "_GESTURE_S", 1e9)
    for value in (1_024, 2_048, 4_096):
        heard(widget, type="set", id="tx_ring", value=value)
    assert widget.state["changes"]["moved"] == [["Transmit ring", "512 entries", "4,096 entries"]]
    heard(widget, type="set", id="budget", value=16)
    assert widget.state["changes"]["moved"] == [["Budget", "64 packets", "16 packets"]]
    monkeypatch.setattr(ring_model, "_GESTURE_S", 0)
    for value in (32, 128):
        heard(widget, type="set", id="budget", value=value)
    assert widget.state["changes"]["moved"] == [["Budget", "32 packets", "128 packets"]]
    widget.knobs = Knobs(rx_usecs=25)
    before, after = widget.outcome, run(Knobs())
    widget.reset()
    assert widget.outcome == after
    assert ["sent", f"{before.out_pps / 1e6:.2f} Mpps", f"{after.out_pps / 1e6:.2f} Mpps", -1] in widget.state[
        "changes"
    ]["came"]
    assert widget.state["changes"]["moved"] == [["rx-usecs", "25 µs", "driver chooses"]]


def test_rubbish_is_refused_in_words_and_changes_nothing(widget: RingModel) -> None:
    for name, value, words in (
        ("rx_ring", "many", "rx_ring can't be 'many'"),
        ("rx_ring", None, "rx_ring can't be None"),
        ("budget", True, "budget can't be True"),
        ("scheme", "theft", "scheme can't be 'theft'"),
        ("scheme", ["half pages"], "scheme can't be"),
        ("receive_ns", -1, "receive_ns can't be -1"),
        ("line_pps", float("nan"), "line_pps can't be nan"),
        ("costs", {}, "There is no knob 'costs'"),
        ("__class__", 1, "There is no knob"),
        ([1], 1, r"There is no knob [1]"),
    ):
        turn = widget.state["turn"]
        heard(widget, type="set", id=name, value=value)
        assert words in widget.state["error"], name
        assert widget.state["turn"] == turn + 1
        assert widget.knobs == Knobs()
    heard(widget, type="tune", name={})
    assert "There is no tuning" in widget.state["error"]
    for message in (None, 7, "reset", {}, {"type": ["set"]}, {"type": "hello"}):
        widget._heard(widget, message, [])
    assert len(widget.errors) == 11
    heard(widget, type="set", id="rx_usecs", value=ADAPTIVE)  # as it stands already: an answer, and no error any more
    assert widget.state["error"] == ""
    widget.errors.clear()


def test_only_the_newest_is_simulated_and_each_result_is_one_message(
    widget: RingModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, go, done, seen = threading.Event(), threading.Event(), [], []

    def slow(knobs: Knobs, **more: Any) -> Any:
        done.append((knobs.tx_ring, threading.current_thread() is threading.main_thread()))
        begun.set()
        assert go.wait(20)
        return run(knobs, **more)

    monkeypatch.setattr(ring_model, "run", slow)
    widget.observe(lambda change: seen.append(change["new"]["turn"]), "state")
    for value in (64, 128, 256, 1_024):
        widget._heard(widget, {"type": "set", "id": "tx_ring", "value": value}, [])
        assert begun.wait(20)
    go.set()
    assert widget.outcome == run(Knobs(tx_ring=1_024))
    assert done == [(64, False), (1_024, False)]
    assert len(seen) == 2
    assert widget.state["changes"]["moved"][0][1] == "512 entries"


def test_a_run_that_fails_is_told_and_leaves_the_setting_before(
    widget: RingModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise ValueError("a ring fell off")

    monkeypatch.setattr(ring_model, "run", broken)
    heard(widget, type="set", id="tx_ring", value=64)
    assert "ValueError: a ring fell off" in widget.state["error"]
    assert widget.knobs == Knobs()
    assert widget.outcome == run(Knobs())
    monkeypatch.undo()
    heard(widget, type="set", id="tx_ring", value=64)
    assert widget.state["error"] == ""
    assert widget.outcome == run(Knobs(tx_ring=64))
    widget.errors.clear()


def test_fixed_knobs_are_the_authors_alone() -> None:
    widget = RingModel(Knobs(rx_usecs=25), fixed=("rx_usecs", "costs"))
    heard(widget, type="set", id="rx_usecs", value=50)
    assert "rx_usecs can't be moved here" in widget.state["error"]
    heard(widget, type="set", id="pool_ns", value=8.0)
    assert "pool_ns can't be moved here" in widget.state["error"]
    heard(widget, type="tune", name="default tuning")
    assert widget.knobs == Knobs(rx_usecs=25)
    assert [each["stuck"] for each in widget.state["tunings"]] == [["rx_usecs"], [], ["rx_usecs"], ["rx_usecs"]]
    widget.knobs = Knobs(rx_usecs=50)
    assert widget.outcome == run(Knobs(rx_usecs=50))
    assert len(widget.errors) == 3
    widget.close()


@pytest.mark.parametrize("fixed", [("ring",), "ring", 7, (None,), ([],)])
def test_wrong_names_are_refused(fixed: Any) -> None:
    with pytest.raises(ModelError, match="There is no knob"):
        RingModel(fixed=fixed)


def test_wrong_knobs_are_refused(widget: RingModel) -> None:
    with pytest.raises(ModelError, match="are no knobs"):
        RingModel({"rx_ring": 512})  # type: ignore[arg-type]
    with pytest.raises(ModelError, match="are no knobs"):
        widget.knobs = None  # type: ignore[assignment]


def test_what_would_take_too_long_is_simulated_for_less_time_and_says_so() -> None:
    knobs = Knobs(budget=1, offered_pps=1e9, line_pps=1e9, costs=replace(Costs(), receive_ns=1.0, send_ns=0.0))
    widget = RingModel(knobs)
    assert widget.outcome.seconds < 1e-3
    assert "as more would take too long" in widget.state["span"]
    assert widget.outcome == run(knobs, microseconds=simulated_us(knobs))
    widget.close()


def test_two_views_are_two_and_fifty_leave_no_thread() -> None:
    before = threading.active_count()
    views = [RingModel(Knobs(budget=64 + n)) for n in range(50)]
    until(lambda: threading.active_count() == before, "threads to end")
    assert [view.knobs.budget for view in views] == list(range(64, 114))
    for view in views:
        view.close()
        view.close()
    with pytest.raises(StateError, match="Closed"):
        views[0].reset()
    views[1]._heard(views[1], {"type": "reset"}, [])
    assert views[1].outcome.offered > 0


def test_an_observer_may_ask_for_the_outcome(widget: RingModel) -> None:
    seen: list[float] = []
    widget.observe(lambda _: seen.append(widget.outcome.out_pps), "state")
    widget.knobs = Knobs(rx_usecs=25)
    assert seen == [widget.outcome.out_pps]


def test_the_still_picture_says_the_same(widget: RingModel) -> None:
    widget.knobs = Knobs(rx_usecs=25)
    outcome = widget.outcome
    for words in (
        "A model: nothing here is measured",
        f"{outcome.offered:,}",
        f"{outcome.out_pps / 1e6:.2f} Mpps sent",
        "13.10",
    ):
        assert words in widget._picture()
    marked = RingModel(title="<b>x</b>")
    assert "<b>x</b>" not in marked._picture()
    marked.close()


def test_newest_drops_what_was_not_begun_and_ends_its_thread() -> None:
    begun, go, done = threading.Event(), threading.Event(), []

    def work(number: int) -> None:
        begun.set()
        assert go.wait(20)
        done.append(number)

    newest = Newest(work, name="newest")
    newest.ask(0)
    assert begun.wait(20)
    for number in range(1, 100):
        newest.ask(number)
    assert not newest.wait(0.01)
    go.set()
    assert newest.wait(20)
    assert done == [0, 99]
    newest.stop()
    newest.ask(100)
    newest.stop()
    assert done == [0, 99]


def test_the_front_end_is_one_module_that_asks_nothing_of_the_network() -> None:
    assert RING_MODEL_ESM.count("export default { render };") == RING_MODEL_ESM.count("export ") == 1
    assert len(RING_MODEL_PARTS) == len(set(RING_MODEL_PARTS))
    for word in ("fetch(", "innerHTML", "insertAdjacentHTML", "XMLHttpRequest", "eval(", "import("):
        assert word not in RING_MODEL_ESM
    assert "url(" not in RING_MODEL_CSS
