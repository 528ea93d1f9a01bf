"""The programs' verdicts for each CPU: where the kernel ran them, and how much of the work each CPU did.

A program runs on the CPU that takes the packet in: in a lab's veth pair the one that NAPI was scheduled on. Its verdicts
are counted in a map with a slot for each CPU, so this is the lab's own; /proc/net/softnet_stat is of the whole machine.
"""

from __future__ import annotations

from typing import Any

from labkit.observe.sample import Sample
from labkit.observe.verdicts import Tally

__all__ = ["by_cpu"]


def by_cpu(now: Sample, past: Sample | None, baseline: Sample) -> list[dict[str, Any]]:
    """A row for each CPU that a program ran on since ``baseline``: packets, verdicts, and a rate from ``past`` (else 0).

    ``number`` is that of the stretch in which the program counted: rows of one number add up to its count.
    """
    seconds = now.time_s - past.time_s if past is not None else 0.0
    rows = []
    for number, tally in now.verdicts.items():
        zero = baseline.verdicts.get(number)
        before = past.verdicts.get(number) if past is not None else None
        for cpu in range(max((len(each) for each in tally.cpus.values()), default=0)):
            counts = _gains(tally, zero, cpu)
            packets = sum(counts.values())
            if packets:
                gain = sum(_gains(tally, before, cpu).values()) if past is not None else 0
                rows.append(
                    {
                        "number": number,
                        "program": tally.program,
                        "where": ", ".join(tally.places),
                        "cpu": cpu,
                        "packets": packets,
                        "verdicts": counts,
                        "pps": round(max(0, gain) / seconds) if seconds > 0 else 0,
                    }
                )
    return rows


def _gains(now: Tally, then: Tally | None, cpu: int) -> dict[str, int]:
    """Verdict → packets that it was returned for on ``cpu``, from one reading to the other; only what isn't 0."""
    gains = {
        name.removeprefix("XDP_"): each[cpu] - (then.cpus[name][cpu] if then is not None and name in then.cpus else 0)
        for name, each in now.cpus.items()
    }
    return {name: gain for name, gain in gains.items() if gain}
