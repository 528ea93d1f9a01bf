"""The panel's clock: it ticks while somebody looks, sleeps otherwise, and ends when told."""

import threading
import time
from collections.abc import Callable, Iterator

import pytest

from labkit.widgets.ticker import Ticker

INTERVAL_S = 0.005


def until(condition: Callable[[], bool], seconds: float = 5.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.001)


class Book:
    def __init__(self) -> None:
        self.ticks: list[int] = []
        self.errors: list[Exception] = []
        self.fault: Exception | None = None
        self.ticker = Ticker(self.tick, self.errors.append, interval_s=INTERVAL_S, name="test-ticker")

    def tick(self, seq: int) -> None:
        self.ticks.append(seq)
        if self.fault is not None:
            raise self.fault


@pytest.fixture
def book() -> Iterator[Book]:
    book = Book()
    yield book
    book.ticker.stop()
    assert not book.ticker.alive
    assert "test-ticker" not in {thread.name for thread in threading.enumerate()}


def test_nobody_answers_two_frames_and_no_more(book: Book) -> None:
    book.ticker.start()
    until(lambda: book.ticker.waiting)
    time.sleep(10 * INTERVAL_S)  # time in which more would come
    assert book.ticks == [1, 2]


def test_an_answer_keeps_it_going(book: Book) -> None:
    answer = book.tick

    def tick(seq: int) -> None:
        answer(seq)
        book.ticker.acknowledge(seq)

    book.ticker._tick = tick
    book.ticker.start()
    until(lambda: len(book.ticks) >= 13)
    assert book.ticks[:13] == list(range(1, 14))


def test_hello_wakes_it_up(book: Book) -> None:
    book.ticker.start()
    until(lambda: book.ticker.waiting)
    book.ticker.hello()
    until(lambda: len(book.ticks) == 4)
    until(lambda: book.ticker.waiting)


def test_a_late_or_a_foreign_answer_does_no_harm(book: Book) -> None:
    book.ticker.acknowledge(99)
    book.ticker.start()
    until(lambda: book.ticker.waiting)
    book.ticker.acknowledge(0)
    assert book.ticker.waiting
    assert book.ticks == [1, 2]


def test_a_fault_is_handed_over_and_the_ticks_go_on(book: Book, capfd: pytest.CaptureFixture[str]) -> None:
    book.fault = OSError(5, "broken")
    book.ticker.start()
    until(lambda: len(book.errors) == 2)
    assert book.ticker.alive
    assert capfd.readouterr() == ("", "")


def test_the_pace_is_the_interval() -> None:
    times: list[float] = []
    ticker = Ticker(lambda seq: times.append(time.monotonic()), lambda error: None, interval_s=0.03)

    def tick(seq: int) -> None:
        times.append(time.monotonic())
        ticker.acknowledge(seq)

    ticker._tick = tick
    ticker.start()
    until(lambda: len(times) >= 11)
    ticker.stop()
    assert 0.29 <= times[10] - times[0] < 1.0


def test_stop_is_quick_and_can_be_repeated(book: Book) -> None:
    book.ticker.start()
    until(lambda: book.ticker.waiting)
    before = time.monotonic()
    book.ticker.stop()
    book.ticker.stop()
    assert time.monotonic() - before < 0.5


def test_stop_before_start_and_from_the_tick_itself() -> None:
    Ticker(lambda seq: None, lambda error: None).stop()
    ticker = Ticker(lambda seq: ticker.stop(), lambda error: None, interval_s=INTERVAL_S)
    ticker.start()
    until(lambda: not ticker.alive)
