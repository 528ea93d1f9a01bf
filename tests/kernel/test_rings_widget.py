"""The rings as a widget, without a browser: every moment adds up, nothing fails unseen, nothing stays."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator

import pytest

import labkit as lk
from labkit.errors import LessonError, StateError
from labkit.lesson import AtWork
from labkit.widgets import Rings
from labkit.xsk import Umem, XskSocket

N = 101  # a prime
FRAMES = 16


@pytest.fixture
def way() -> Iterator[tuple[lk.Lab, XskSocket]]:
    with lk.Lab(lk.Topology.pair(), name="turning") as lab:
        server = lab["server"]["eth0"]
        program = lab.load(lk.compile(path="bpf/to_socket.c"))
        program.attach(server)
        sizes = dict.fromkeys(("receive_ring", "fill_ring", "transmit_ring", "completion_ring"), 8)
        with XskSocket(server, umem=Umem(FRAMES), **sizes) as xsk:  # type: ignore[arg-type]
            program.maps["sockets"][0] = xsk
            yield lab, xsk


def until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def shown(rings: Rings, ring: str) -> int:
    return next(int(each["filled"]) for each in rings.state["rings"] if each["name"] == ring)


def test_the_whole_is_there_at_every_moment(way: tuple[lk.Lab, XskSocket]) -> None:
    lab, xsk = way
    with AtWork(xsk, lab["client"]["eth0"]) as work:
        rings = Rings(work, interval_s=0.01)
        moments: list[int] = []

        def look(change: dict[str, dict[str, list[tuple[str, int]]]]) -> None:
            moments.append(sum(number for _, number in change["new"]["places"]))
            rings._heard(rings, {"type": "ack", "seq": change["new"]["seq"]}, [])  # as a browser would

        rings.observe(look, "state")
        work.send(N, rate_pps=400)
        until(lambda: not work.sending and work.taken + sum(rings._lost.values()) == N)
        ledger = lab.ledger()
        rings.close()
    assert set(moments) == {FRAMES}
    assert (ledger.sent, ledger.unaccounted) == (N, 0)
    assert ledger.delivered == work.taken


def test_a_program_that_keeps_its_frames_starves_and_recovers(way: tuple[lk.Lab, XskSocket]) -> None:
    lab, xsk = way
    with AtWork(xsk, lab["client"]["eth0"]) as work:
        work.gives_back = "nothing"
        work.send(N, rate_pps=1_000)
        until(lambda: not work.sending and work.taken == work.kept == 8)
        assert xsk.statistics().rx_fill_ring_empty_descs == N - 8
        work.gives_back = "all"
        until(lambda: work.kept == 0)
        assert xsk.places()["fill"] == 8
        work.gives_back = "half"
        work.send(7, rate_pps=1_000)
        until(lambda: work.taken == 15)
        assert work.kept in (3, 4)


def test_what_the_browser_says_is_done_or_shown_as_wrong(way: tuple[lk.Lab, XskSocket]) -> None:
    lab, xsk = way
    with AtWork(xsk, lab["client"]["eth0"]) as work:
        rings = Rings(work)
        rings._heard(rings, {"type": "choose", "id": "pace", "value": "now and then"}, [])
        assert work.pace == "now and then"
        rings._heard(rings, {"type": "choose", "id": "gives_back", "value": "most"}, [])
        assert (work.gives_back, len(rings.errors)) == ("all", 1)
        assert "use 'all', 'half', 'nothing'" in rings.state["error"]
        for rubbish in (
            None,
            7,
            {},
            {"type": "choose", "id": "xsk", "value": 1},
            {"type": "choose"},
            {"type": "ack", "seq": "x"},
        ):
            rings._heard(rings, rubbish, [])
        rings._heard(rings, {"type": "send"}, [])
        assert work.sending
        rings._heard(rings, {"type": "send"}, [])
        assert not work.sending
        rings.close()


def test_a_thread_that_fails_says_so_on_the_page(
    way: tuple[lk.Lab, XskSocket], monkeypatch: pytest.MonkeyPatch
) -> None:
    lab, xsk = way
    work = AtWork(xsk, lab["client"]["eth0"])
    rings = Rings(work, interval_s=0.01)

    def broken(_most: int) -> None:
        raise ValueError("a ring fell off")

    monkeypatch.setattr(xsk, "take", broken)
    work.send(3, rate_pps=1_000)
    until(lambda: isinstance(work.problem, ValueError))
    rings._heard(rings, {"type": "hello"}, [])
    until(lambda: "ValueError: a ring fell off" in rings.state["error"])
    rings.close()
    work.close()


def test_shown_fifty_times_and_nothing_more_than_one(way: tuple[lk.Lab, XskSocket]) -> None:
    _, xsk = way
    before = threading.active_count()
    views = [Rings(xsk) for _ in range(50)]
    assert threading.active_count() <= before + 1
    assert [view.ended for view in views] == ["replaced"] * 49 + [None]
    for view in views:
        view.close()
    assert threading.active_count() == before


def test_it_ends_with_its_socket_and_keeps_the_last_moment(way: tuple[lk.Lab, XskSocket]) -> None:
    _, xsk = way
    rings = Rings(xsk, interval_s=0.01)
    xsk.close()
    rings._heard(rings, {"type": "hello"}, [])
    until(lambda: rings.ended == "gone")
    assert "last moment" in rings.state["ended"]
    assert shown(rings, "fill") == 8
    picture = rings._picture()
    assert "<svg" in picture
    assert "<table" in picture
    rings.close()


def test_what_is_no_socket_is_refused_by_name(way: tuple[lk.Lab, XskSocket]) -> None:
    lab, xsk = way
    with pytest.raises(StateError, match="no open AF_XDP socket"):
        Rings(lab)  # type: ignore[arg-type]
    with pytest.raises(LessonError, match="no interface"):
        AtWork(xsk, lab)  # type: ignore[arg-type]
    xsk.close()
    with pytest.raises(LessonError, match="no open AF_XDP socket"):
        AtWork(xsk, lab["client"]["eth0"])
    with pytest.raises(StateError, match="no open AF_XDP socket"):
        Rings(xsk)
