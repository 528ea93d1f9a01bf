"""The arithmetic of page pools: sums, ratios, places."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from labkit.buffers import Buffers, Ended, Pool
from labkit.buffers.places import places_of

POOL = Pool(
    number=1, ident=7, what="generator run 1 at client", kind="run", host="client", interface="", queue=None,
    held=64, released=0, taken=64, returned=0, counted_held=64, counted_released=0, cached=0, ring=0, open=0,
    closing=False, tries=0, last_in_flight=None, alive=True, seconds=0.0,
)  # fmt: skip
SMALL = st.integers(0, 5_003)


def buffers(*pools: Pool, ended: Ended | None = None, frames: int = 0, taken: int = 0, lost: int = 0) -> Buffers:
    return Buffers(pools, (), ended or Ended(), frames, taken, lost)


def sample(sockets: int, cpus: int) -> Any:
    host = SimpleNamespace(queued={"server UDP port 9999": sockets})
    return SimpleNamespace(hosts={"server": host}, queues={"server CPU 0": SimpleNamespace(waiting=cpus)})


@given(SMALL, SMALL, SMALL, SMALL, SMALL, SMALL)
def test_the_places_add_up_to_the_pages_in_flight(
    away: int, cached: int, ring: int, waiting: int, cpus: int, sockets: int
) -> None:
    pool = replace(POOL, held=away + cached + ring + 1, cached=cached, ring=ring, open=1)
    found = places_of(buffers(pool), waiting, sample(sockets, cpus))
    assert found.total == pool.in_flight
    assert all(each.pages >= 0 for each in found.places)
    assert found["socket"] <= sockets
    assert found["elsewhere"] == max(0, away - waiting - cpus - sockets)


def test_what_no_probe_counts_is_elsewhere() -> None:
    without = sample(0, 0)
    without.queues = None
    assert places_of(buffers(POOL), 0, without)["elsewhere"] == 64


def test_sums_and_ratio() -> None:
    found = buffers(POOL, ended=Ended(pools=2, held=128, released=128, taken=128), frames=1_009, taken=192)
    assert (found.held, found.released, found.in_flight, found.taken) == (192, 128, 64, 192)
    assert found.recycle_ratio == 1 - 192 / 1_009
    assert found.agrees
    assert buffers(POOL).recycle_ratio is None
    assert buffers(POOL, frames=7, taken=64).recycle_ratio == 1 - 64 / 7  # negative: more pages than frames


def test_witnesses_that_differ_are_seen() -> None:
    one_less = replace(POOL, counted_held=63)
    assert not buffers(one_less).agrees
    assert replace(buffers(one_less), missed_runs=1).agrees  # the kernel says that it left one out
    assert not replace(buffers(replace(POOL, counted_held=65)), missed_runs=1).agrees
    assert not buffers(POOL, lost=1).agrees
    assert not buffers(ended=Ended(pools=1, held=7, released=5)).agrees
    assert not buffers(ended=Ended(pools=1, held=7, released=7, missed=1)).agrees
    assert "1 events found no row" in str(buffers(POOL, lost=1))


def test_a_table_for_people() -> None:
    waits = replace(POOL, closing=True, tries=3, last_in_flight=64)
    assert (waits.retries, POOL.retries) == (2, 0)
    assert "waits to end, tried 3 times" in str(buffers(waits))
    assert "tried once" in str(buffers(replace(waits, tries=1)))
    assert buffers(waits).as_dict()["pools"][0]["in_flight"] == 64
