"""What a benchmark gives back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["BenchResult"]


@dataclass(frozen=True)
class BenchResult:
    """Medians of ``runs`` runs. ``value`` is the lab's in ``unit``, ``baseline`` that of others in the same unit.

    ``ratio``: how many times better the lab is (more where more is better, less where less is), of these medians.
    ``also``: more figures of the lab, by name.
    """

    value: float
    unit: str
    runs: int
    baseline: Mapping[str, float] = field(default_factory=dict)
    ratio: Mapping[str, float] = field(default_factory=dict)
    also: Mapping[str, float] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "value": _rounded(self.value),
            "unit": self.unit,
            "baseline": {name: _rounded(value) for name, value in self.baseline.items()},
            "ratio": {name: _rounded(value) for name, value in self.ratio.items()},
            "runs": self.runs,
            "also": {name: _rounded(value) for name, value in self.also.items()},
            "notes": list(self.notes),
        }

    def __str__(self) -> str:
        lines = [f"{_shown(self.value)} {self.unit} (median of {self.runs})"]
        width = max((len(name) for name in (*self.baseline, *self.also)), default=0)
        for name, value in self.baseline.items():
            lines.append(f"  {name:<{width}}  {_shown(value)} {self.unit}, {_shown(self.ratio[name])} times")
        lines += [f"  {name:<{width}}  {_shown(value)}" for name, value in self.also.items()]
        lines += [f"  ({note})" for note in self.notes]
        return "\n".join(lines)


def _rounded(value: float) -> float:
    return float(f"{value:.5g}")


def _shown(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
