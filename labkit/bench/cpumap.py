"""What a CPU map's queue costs and brings: packets worked on by another CPU, by the same, and without a CPU map."""

from __future__ import annotations

from labkit.bench.measure import Measure, Progress, paired
from labkit.bench.result import BenchResult
from labkit.errors import TrafficError
from labkit.lesson.workshop import LONGEST_QUEUE, Workshop

__all__ = ["run"]

_WORK_NS = 2_000


def run(runs: int, progress: Progress, *, packets: int = 16_381) -> BenchResult:
    """Mpps from a packet's arrival until the last one is done, without work and with 2 µs of it; none may be lost.

    ``packets`` fit in one queue, 16,384 at the most.
    """
    number = min(packets, LONGEST_QUEUE)
    with Workshop("bench-light", work_ns=0) as light, Workshop("bench-heavy", work_ns=_WORK_NS) as heavy:
        here, others = light.here, tuple(light.others)
        other = others[:1] or (here,)
        also = {
            "with_work_other_cpu": _done(heavy, number, other),
            "with_work_same_cpu": _done(heavy, number, (here,)),
            "with_work_no_cpumap": _done(heavy, number, ()),
            "with_work_all_cpus": _done(heavy, number, (here, *others)),
        }
        alone = () if others else ("one CPU only: what is called another is the same",)
        return paired(
            _done(light, number, other),
            {"same_cpu": _done(light, number, (here,)), "no_cpumap": _done(light, number, ())},
            unit="Mpps",
            better="more",
            runs=runs,
            progress=progress,
            also=also,
            notes=(
                f"{number:,} packets a run, made and received on CPU {here}; each is dropped when it is worked on",
                f"with_work_…: Mpps with about {_WORK_NS / 1e3:g} µs of work a packet",
                *alone,
            ),
        )


def _done(shop: Workshop, packets: int, cpus: tuple[int, ...]) -> Measure:
    """Mpps with the work done by ``cpus`` in turn (none: in the driver)."""

    def measure() -> float:
        ledger = shop.run(packets, cpus)
        done = sum(shop.done.values())
        if done != packets or ledger.unaccounted:
            raise TrafficError(
                f"Of {packets:,} packets {done:,} were worked on.",
                tried="to measure",
                detail=str(ledger),
                remedy="a rate of less than all would mislead: run it again, and report it if it repeats",
            )
        return packets / shop.seconds / 1e6

    return measure
