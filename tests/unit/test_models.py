"""The ring model against the figures of 2017: fitted, predicted, and what must never happen in it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labkit.errors import ModelError
from labkit.models import PUBLISHED, Costs, Knobs, Scheme, fitted, run
from labkit.models.pages import Pages, pages_of


@pytest.mark.parametrize("figure", PUBLISHED, ids=lambda figure: figure.name)
def test_each_published_figure_is_within_five_percent(figure) -> None:
    assert figure.of(run(figure.knobs)) == pytest.approx(figure.mpps, rel=0.05)


def test_the_stored_times_are_what_the_fit_finds() -> None:
    assert fitted().costs == Costs()
    assert sum(not figure.fitted for figure in PUBLISHED) >= 2


@settings(max_examples=25, deadline=None)
@given(
    st.builds(
        Knobs,
        rx_ring=st.integers(16, 2048),
        tx_ring=st.integers(16, 2048),
        rx_usecs=st.just(0.0) | st.floats(1, 200),
        scheme=st.sampled_from(Scheme),
        offered_pps=st.floats(1e4, 2e7),
        budget=st.integers(8, 256),
    )
)
def test_no_packet_is_nowhere_and_the_same_knobs_end_the_same(knobs: Knobs) -> None:
    outcome = run(knobs, microseconds=400)
    assert outcome.unaccounted == 0
    assert outcome == run(knobs, microseconds=400)


def test_mapping_for_a_card_is_paid_for_new_pages_and_what_keeps_its_page_saves_it() -> None:
    """An IOMMU makes every scheme slower, and by as much more as it takes new pages."""

    def slowed(scheme: Scheme) -> float:
        plain, costly = (
            run(Knobs(scheme=scheme, rx_usecs=25, offered_pps=60e6, line_pps=60e6, costs=Costs(dma_ns=ns)))
            for ns in (0.0, 50.0)
        )
        assert costly.unaccounted == 0
        return 1e9 / costly.in_pps - 1e9 / plain.in_pps

    assert slowed(Scheme.RETURN) == pytest.approx(50, abs=5)  # ns a packet: the sending card's mapping alone
    assert slowed(Scheme.FREE) == pytest.approx(100, abs=10)


def test_time_goes_on_where_a_packet_is_due_at_this_very_moment() -> None:
    knobs = Knobs(rx_usecs=1, costs=Costs(receive_ns=55.0, send_ns=21.3, page_ns=78.0, adaptive_us=73.5))
    assert run(knobs).offered == 44_640


def test_a_way_back_that_loses_pages_is_caught() -> None:
    class Leak(type(pages_of(Knobs(scheme=Scheme.RETURN)))):  # type: ignore[misc]
        def came_home(self: Pages, packets: int) -> None:
            self.away -= packets

    knobs = Knobs(scheme=Scheme.RETURN)
    with pytest.raises(ModelError, match="lost a packet or a page"):
        run(knobs, pages=Leak(knobs))


def test_memory_is_used_up_where_nobody_tells_and_nowhere_else() -> None:
    knobs = Knobs(memory_pages=5_003, rx_usecs=25)
    ended = {scheme: run(replace(knobs, scheme=scheme)).out_of_memory for scheme in Scheme}
    assert [scheme for scheme, out in ended.items() if out] == [Scheme.NOBODY]


def test_the_moments_see_the_cpu_asleep_and_a_sleep_at_the_end_counts() -> None:
    outcome = run(Knobs(offered_pps=1_000))
    assert outcome.idle > 0.99
    assert len(outcome.history) == 400
    half = run(Knobs(offered_pps=6e6, rx_usecs=25))
    asleep = [moment.asleep for moment in half.history if moment.at_us * 1e-6 >= half.seconds / 4]
    assert sum(asleep) / len(asleep) == pytest.approx(half.idle, abs=0.1)
    assert 0.2 < half.idle < 0.8


@pytest.mark.parametrize("wrong", [{"warm_up": 1}, {"warm_up": "x"}, {"microseconds": 0}])
def test_wrong_times_are_refused(wrong) -> None:
    with pytest.raises(ModelError):
        run(Knobs(), **wrong)


def test_wrong_costs_are_refused() -> None:
    with pytest.raises(ModelError, match="rx_usecs"):
        Knobs(rx_usecs=1e-9)
    with pytest.raises(ModelError, match="adaptive_us"):
        Costs(adaptive_us=0)
    with pytest.raises(ModelError, match="costs"):
        Knobs(costs="cheap")  # type: ignore[arg-type]
