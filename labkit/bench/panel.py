"""What the panel costs: the receiver's rate and the time of a CPU, with a panel ten times a second and without one."""

from __future__ import annotations

import threading
import time
from statistics import median

from labkit.bench.measure import Progress
from labkit.bench.result import BenchResult
from labkit.compile import compile_source
from labkit.compile.source import lesson_directory
from labkit.lab import Lab
from labkit.topology import Topology
from labkit.traffic.frames import udp
from labkit.traffic.generator import Generator
from labkit.widgets import LivePanel

__all__ = ["run"]

_LOOK_S = 0.05  # a browser answers each frame


def run(runs: int, progress: Progress, *, seconds: float = 1.5) -> BenchResult:
    """Mpps at a dropping program while a panel is looked at; the baseline is the same traffic unwatched, by turns."""
    with Lab(Topology.pair(), name="bench-panel") as lab:
        lab.load(compile_source(path=lesson_directory() / "drop_by_protocol.c")).attach(lab["server"]["eth0"])
        frame = udp(lab["client"], lab["server"])
        rates: dict[bool, list[float]] = {True: [], False: []}
        shares: list[float] = []
        source = Generator(lab["client"]["eth0"], frame)
        source.start()
        try:
            for turn in range(runs + 1):  # the first one warms up
                for watched in (True, False) if turn % 2 else (False, True):
                    mpps, share = _watched(lab, seconds) if watched else (_mpps(lab, seconds), 0.0)
                    if turn:
                        rates[watched].append(mpps)
                        shares += [share] if watched else []
                progress(f"  run {turn} of {runs}" if turn else "  warmed up")
        finally:
            source.stop()
    with_panel, without = median(rates[True]), median(rates[False])
    pairs = [on / off for on, off in zip(rates[True], rates[False], strict=True)]
    return BenchResult(
        value=with_panel,
        unit="Mpps",
        runs=runs,
        baseline={"no_panel": without},
        ratio={"no_panel": median(pairs)},
        also={"cpu_share": median(shares)},
        notes=("the ratio is the median of the rounds' ratios; cpu_share is of one CPU, the panel's thread alone",),
    )


def _mpps(lab: Lab, seconds: float) -> float:
    """Arrived at the server's interface over about so many seconds."""
    end = lab["server"]["eth0"]
    began, before = time.perf_counter(), end.statistics()["rx_packets"]
    time.sleep(seconds)
    return (end.statistics()["rx_packets"] - before) / (time.perf_counter() - began) / 1e6


def _watched(lab: Lab, seconds: float) -> tuple[float, float]:
    panel = LivePanel(lab)
    ended = threading.Event()

    def look() -> None:
        while not ended.wait(_LOOK_S):
            panel.ticker.acknowledge(panel.ticker.seq)

    eyes = threading.Thread(target=look, name="eyes", daemon=True)
    eyes.start()
    try:
        began, used = time.perf_counter(), panel.ticker.cpu_s()
        mpps = _mpps(lab, seconds)
        return mpps, (panel.ticker.cpu_s() - used) / (time.perf_counter() - began)
    finally:
        ended.set()
        eyes.join()
        panel.close()
