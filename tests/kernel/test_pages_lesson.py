"""Lesson 06: every experiment counts pages exactly, and by two witnesses where there are two."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest
from patience import until

import labkit as lk
from labkit import lesson
from labkit.errors import LessonError, StateError
from labkit.lesson.buffers import COPIED, ENDS, KEPT, OWNERS, Counted, PagesAtWork, page_picture
from labkit.lesson.page import Table
from labkit.lesson.tracing import Unseen
from labkit.widgets import PageMap

N = 601  # a prime


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAB_SCALE", "0.1")


@pytest.fixture
def work(lab: lk.Lab) -> Iterator[PagesAtWork]:
    with PagesAtWork(lab) as made:
        yield made


def cells(found: Counted) -> list[tuple[Any, ...]]:
    return list(found.table.rows)


def test_a_run_takes_a_batch_of_pages_whatever_it_sends() -> None:
    found = lesson.handful_of_pages(packets=100_003)
    [(frames, runs, pages, a_run, recycled)] = cells(found)
    assert (frames, found.answers) == (100_003, {"pool-pages": pages})
    assert 0 < runs <= pages < frames
    assert a_run == pages / runs
    assert recycled == f"{100 * (1 - pages / frames):.2f} %"


def test_a_larger_batch_takes_more_pages() -> None:
    one, many = cells(lesson.batches_and_pages((1, 256), packets=N, runs=1))
    assert (one[:2], many[:2]) == ((1, N), (256, N))
    assert 1 <= one[2] < 256 <= many[2]


def test_a_page_goes_to_its_owner_or_by_reference_to_the_allocator() -> None:
    found = lesson.out_and_back(packets=N)
    made, sent = cells(found)
    assert made[1:3] == sent[1:3] == (N, N)  # the ledger's own count of both
    assert made[3] == "the generator at client"
    assert made[4] == made[5] < N
    assert sent[3] == "router eth0"
    assert sent[5] == N <= sent[4]
    assert found.answers == {"pool-owner": OWNERS[0], "pool-reference": 0}


def test_pages_out_are_the_datagrams_that_wait() -> None:
    found = lesson.parked_pages()
    before, filled, later, read, closed = cells(found)
    sent = filled[1]
    assert before[1:] == closed[1:] == (0, 0, 0, 0, 0, 0)
    assert filled[3] == filled[4] == later[3] == sent > 200
    assert filled[2] >= sent * os.sysconf("SC_PAGE_SIZE")
    assert (filled[5], later[5], read[5]) == (2, 2, 1)
    assert later[6] > filled[6] >= 1
    assert 0 < read[1] == read[3] < sent
    assert found.answers["pool-parked"] == ENDS[1]


def test_a_long_queue_keeps_pages_out() -> None:
    [(length, frames, worked_on, lost, pages)] = cells(lesson.pages_in_a_queue((4_096,)))
    assert (length, worked_on, lost) == (4_096, frames, 0)
    assert 0 < pages <= frames + 64


def test_what_is_kept_and_what_is_copied() -> None:
    rows = cells(lesson.kept_or_copied())
    assert [row[5] for row in rows] == [COPIED, KEPT, COPIED, COPIED, KEPT]
    for _, frames, charged, sender, receiver, said, _ in rows:
        assert (charged >= os.sysconf("SC_PAGE_SIZE")) == (receiver == 0) == (said == KEPT)
        assert sender == frames or said == COPIED
    assert [rows[0][3], rows[2][3]] == [0, 0]
    assert rows[3][3] == rows[3][1]  # tcpdump has the sender's pages


def test_half_of_the_frames_given_back_is_soon_nothing() -> None:
    rows = cells(lesson.fill_ring_runs_dry())
    assert [row[1:6] for row in rows] == [(1009, 1009, 0, 0, 64), (1009, 127, 882, 64, 0), (1009, 64, 945, 64, 0)]


def test_what_could_not_be_seen_is_a_line_and_not_an_error() -> None:
    found = Counted(Table(("pages",), ((None,),)), {"seen": None}, notes=("Withheld.",))
    said = found.compare("seen")
    assert isinstance(said, Unseen)
    assert "nothing to compare with" in str(said)
    assert "Withheld." in found._repr_html_()
    assert lesson.page_map(said) is said
    with pytest.raises(LessonError, match="answered are: seen"):
        found.compare("other")


def test_the_map_adds_up_and_reading_sends_home(work: PagesAtWork) -> None:
    work.choose(reads="never")
    for source in ("the client's stack", "the generator"):
        work.choose(source=source)
        work.send(1)
        work.wait()
        until(lambda: work.moment().side("away") == work.sink.queued() > 0, "the datagrams to wait")
        now = work.moment()
        assert now.adds_up
        assert f"{work.sink.queued()} socket" in now.sum_in_words
        picture = page_picture(now)
        assert picture.svg.count('stroke-width="1.4"') == 1
        assert ("in flight", "", now.in_flight) in [row[:3] for row in picture.table.rows]
    waiting = work.sink.queued()
    assert work.read() == waiting == 34
    until(lambda: not work.moment().side("away"), "the pages to come home")
    work.choose(program="drops them", source="the client's stack")
    work.send(1)
    work.wait()
    until(lambda: work.lab.ledger().losses.get("XDP_DROP") == 17, "the program to drop")
    assert (work.sink.queued(), work.problem) == (0, None)


def test_bad_input_is_named(lab: lk.Lab, work: PagesAtWork) -> None:
    before = dict(work.chosen)
    for bad in ({"reads": "often"}, {"speed": "high"}, {"program": None}):
        with pytest.raises(LessonError, match="can't be"):
            work.choose(**bad)
    assert work.chosen == before
    with pytest.raises(lk.LabError, match="bursts"):
        work.send(0)
    for wrong in ("lab", None):
        with pytest.raises(LessonError, match="is no open lab"):
            PagesAtWork(wrong)  # type: ignore[arg-type]
        with pytest.raises(LessonError, match="is no open lab"):
            PageMap(wrong)  # type: ignore[arg-type]
    work.close()
    for ask in (work.moment, work.send):
        with pytest.raises(StateError, match="closed"):
            ask()


def test_the_widget_obeys_tells_and_ends_with_its_lab(lab: lk.Lab, work: PagesAtWork) -> None:
    shown = PageMap(work, interval_s=0.01)
    shown._heard(shown, {"type": "choose", "id": "reads", "value": "never"}, [])
    assert work.chosen["reads"] == "never"
    shown._heard(shown, {"type": "choose", "id": "reads", "value": "rarely"}, [])
    assert "use 'at once', 'now and then', 'never'" in shown.state["error"]
    for rubbish in (None, 7, {}, {"type": "choose"}, {"type": "ack", "seq": "x"}, {"type": ["send"]}):
        shown._heard(shown, rubbish, [])
    shown._heard(shown, {"type": "send"}, [])
    assert work.sending
    shown._heard(shown, {"type": "send"}, [])
    assert not work.sending
    waiting = work.sink.queued()

    def all_shown() -> bool:
        shown._heard(shown, {"type": "hello"}, [])  # as a browser that looks
        return waiting in [spot["pages"] for spot in shown.state["spots"] if spot["name"] == "socket"]

    until(all_shown, "the widget to show what waits")
    again = PageMap(work)
    assert (shown.ended, again.ended) == ("replaced", None)
    watching = PageMap(lab)  # a lab alone has no controls
    assert (again.ended, watching.state["controls"]) == ("replaced", [])
    assert f"{waiting} socket" in watching._picture()
    lab.close()
    assert watching.ended == "gone"
    assert "last moment" in watching.state["ended"]
    with pytest.raises(StateError):
        watching.pages.moment()
    for each in (shown, again, watching):
        each.close()
