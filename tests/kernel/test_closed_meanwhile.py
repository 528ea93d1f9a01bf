"""A lab that another thread closes in the midst of a reading: one error, StateError, however the reading noticed."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

import labkit as lk


@contextmanager
def _readers(work: Callable[[], object], count: int = 2) -> Iterator[list[BaseException]]:
    """Threads that do ``work`` until it raises; what each raised, once they have ended."""
    raised: list[BaseException] = []
    begun = threading.Semaphore(0)

    def read() -> None:
        try:
            work()
            begun.release()
            while True:
                work()
        except BaseException as error:
            raised.append(error)

    threads = [threading.Thread(target=read, name=f"reader-{i}") for i in range(count)]
    for each in threads:
        each.start()
    for _ in threads:
        assert begun.acquire(timeout=5)
    yield raised
    for each in threads:
        each.join(10)
        assert not each.is_alive(), "a reader hangs"


@pytest.mark.parametrize("how", ["close", "again"])
@pytest.mark.parametrize("what", ["ledger", "sample", "statistics"])
def test_one_error_however_it_ends(verdicts: lk.ProgramSpec, what: str, how: str) -> None:
    lab = lk.Lab(lk.Topology.pair(), name="race")
    lab.load(verdicts, "drop").attach(lab["server"]["eth0"])
    work = {"ledger": lab.ledger, "sample": lab.sample, "statistics": lab["client"]["eth0"].statistics}[what]
    with _readers(work) as raised:
        if how == "close":
            lab.close()
        else:
            lab = lk.Lab(lk.Topology.pair(), name="race")
    lab.close()
    assert [type(error) for error in raised] == [lk.StateError] * 2, raised
    assert all("closed" in str(error) for error in raised)
    assert all("make" in error.remedy for error in raised if isinstance(error, lk.LabError))


def test_a_reading_that_loses_its_lab_says_meanwhile(lab: lk.Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    def read() -> lk.Sample:
        lab.close()
        raise OSError(19, "No such device")

    monkeypatch.setattr(lab.observer, "sample", read)
    with pytest.raises(lk.StateError, match="test was closed meanwhile"):
        lab.sample()


def test_a_program_loaded_meanwhile_does_not_stay(verdicts: lk.ProgramSpec) -> None:
    lab = lk.Lab(lk.Topology.pair(), name="race")
    with _readers(lambda: lab.load(verdicts, "drop")) as raised:
        time.sleep(0.01)  # a few programs more or less: the outcome is the same
        lab.close()
    assert [type(error) for error in raised] == [lk.StateError] * 2, raised
    assert all(program.closed for program in lab.programs)


def test_a_host_takes_no_work_after_its_last(lab: lk.Lab) -> None:
    """Work queued behind the end of the thread would wait for ever."""
    client = lab["client"]
    with _readers(lambda: client.run(lambda: None)) as raised:
        client.close()
    assert [type(error) for error in raised] == [lk.StateError] * 2


def test_a_reading_sink_is_waited_for(lab: lk.Lab) -> None:
    with lk.UdpSink(lab["server"], 9999) as sink:
        for round_ in range(1, 8):
            lk.generate(lab["client"]["eth0"], lk.udp(lab["client"], lab["server"]), 1009)
            ledger = lab.ledger()
            assert (ledger.in_flight, ledger.unaccounted) == (0, 0)
            assert ledger.sent == 1009 * round_
            assert sink.wait(1009 * round_ - sum(ledger.losses.values())) == ledger.delivered


@pytest.mark.parametrize(("read", "looks"), [(True, 3), (False, 1)])
def test_a_ledger_waits_for_a_reader_and_for_nobody_else(
    lab: lk.Lab, monkeypatch: pytest.MonkeyPatch, read: bool, looks: int
) -> None:
    with lk.UdpSink(lab["server"], 9999, read=False) as sink:
        sink.read = read
        sent, here = lk.Row("sent", "sent", "sent", "client eth0", 1, ""), ("server UDP port 9999", 1, "")
        waiting = lk.Ledger([sent, lk.Row("in_flight", "in flight", "in flight", *here)])
        arrived = lk.Ledger([sent, lk.Row("delivered", "delivered", "delivered", *here)])
        found = iter([waiting, waiting, arrived])
        seen: list[lk.Ledger] = []
        monkeypatch.setattr("labkit.settling.balance", lambda *_: seen.append(next(found)) or seen[-1])
        lab.ledger()
        assert len(seen) == looks
        sink.read = False


@pytest.mark.parametrize("settle_s", [float("inf"), float("nan"), 2**70, 61, None, -1, -0.001, "x", True, [], 1j])
def test_a_settling_time_nobody_would_wait_is_refused(lab: lk.Lab, settle_s: float) -> None:
    with pytest.raises(lk.LabError, match=r"settle_s can't be[\s\S]*0 to 60"):
        lab.ledger(settle_s=settle_s)


def test_a_settling_time_of_nothing_reads_once(lab: lk.Lab) -> None:
    assert lab.ledger(settle_s=0).unaccounted == 0
