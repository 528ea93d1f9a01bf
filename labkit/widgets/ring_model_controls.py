"""The ring model's controls: which values a slider has, what they are called, and the knobs that a message asks for."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields, replace
from typing import Any

from labkit.errors import ModelError
from labkit.models import ADAPTIVE, FITTED_ON, PUBLISHED, Costs, Knobs, Scheme
from labkit.widgets.live import segmented

__all__ = [
    "LABELS",
    "TUNINGS",
    "controls_of",
    "costs_of",
    "fixed_names",
    "moved",
    "moved_names",
    "tunings_of",
    "words_for",
]

_TRIED = "to set the ring model"
_RINGS = tuple(1 << n for n in range(6, 13))  # IXGBE_MIN_RXD, IXGBE_MAX_RXD: 64 to 4,096 entries
_PPS = tuple(1e6 * n for n in (0.1, 0.2, 0.5, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 14.88, 20, 25, 30, 40))

# What the sliders offer. Each poll takes the model some µs, so a small budget takes long: below 16 from Python only.
VALUES: dict[str, tuple[float, ...]] = {
    "rx_ring": _RINGS,
    "tx_ring": _RINGS,
    "rx_usecs": (ADAPTIVE, 1, 2, 3, 5, 8, 10, 15, 20, 25, 30, 40, 50, 75, 100, 150, 200),
    "offered_pps": _PPS,
    "line_pps": _PPS,
    "budget": tuple(1 << n for n in range(4, 10)),
    "memory_pages": tuple(1 << n for n in range(13, 21)),
}
_COSTS: dict[str, Iterable[float]] = {
    "receive_ns": range(20, 155, 5),
    "send_ns": range(5, 65, 5),
    "page_ns": range(0, 320, 20),
    "return_ns": range(0, 42, 2),
    "pool_ns": range(0, 42, 2),
    "adaptive_us": range(10, 210, 10),
    "dma_ns": range(0, 110, 10),
}
VALUES |= {name: tuple(sorted({float(n) for n in some} | {getattr(Costs(), name)})) for name, some in _COSTS.items()}

LABELS = {
    "rx_ring": "Receive ring",
    "tx_ring": "Transmit ring",
    "rx_usecs": "rx-usecs",
    "offered_pps": "Offered",
    "line_pps": "Line at most",
    "budget": "Budget",
    "memory_pages": "Memory",
    "scheme": "Way back",
    "receive_ns": "receive a packet",
    "send_ns": "send a packet",
    "page_ns": "a new page",
    "return_ns": "a return call",
    "pool_ns": "through a pool",
    "adaptive_us": "driver's interval",
    "dma_ns": "IOMMU mapping",
}
_HELP = {
    "rx_ring": "Entries, each with a buffer, where the first card puts packets: ethtool -G rx",
    "tx_ring": "Entries for packets that wait for the second card or for their clean-up: ethtool -G tx",
    "rx_usecs": "How long a card waits at least between two interrupts: ethtool -C rx-usecs",
    "offered_pps": "Packets a second that arrive at the first card",
    "line_pps": "Packets a second that the second card sends at most",
    "budget": "Packets that the CPU receives a poll before it looks at anything else",
    "memory_pages": "All the memory there is for buffers, in pages of 4 KiB",
    "scheme": "What happens to a packet's buffer when the second card has sent it",
    "receive_ns": "A descriptor read, the program run, the redirect",
    "send_ns": "A descriptor written, and later its completion",
    "page_ns": "A page from the allocator, mapped for the card, and freed again",
    "return_ns": "A buffer handed back to its owner by a call",
    "pool_ns": "A buffer handed back through a pool",
    "adaptive_us": "The time between two interrupts where the driver chooses",
    "dma_ns": "What an IOMMU adds to each mapping of a buffer, the unmapping included",
}
_WHY_ASSUMED = {"dma_ns": "assumed: a machine without an IOMMU"}

_OF_2017 = {each.name: each.knobs for each in PUBLISHED}
TUNINGS: dict[str, Knobs] = {
    "default tuning": _OF_2017["default_out"],
    "rx-usecs 25": _OF_2017["usecs_out"],
    "rings of 1,024": _OF_2017["rings_out"],
    "transmit ring alone": _OF_2017["tx_alone_out"],
}
"""The tunings that the thread of 2017 gives figures for, by the name on their button."""

_KNOBS = tuple(each.name for each in fields(Knobs) if each.name != "costs")
_TIMES = tuple(each.name for each in fields(Costs))


def fixed_names(names: Iterable[str]) -> frozenset[str]:
    """Checked names of knobs or of times; "costs" stands for all times. Raises ModelError."""
    given = [names] if isinstance(names, str) or not isinstance(names, Iterable) else list(names)
    known = (*_KNOBS, *_TIMES, "costs")
    for each in given:
        if each not in known:
            raise ModelError(f"There is no knob {each!r}.", tried=_TRIED, remedy="use " + ", ".join(known))
    return frozenset(given) | (frozenset(_TIMES) if "costs" in given else frozenset())


def moved(knobs: Knobs, name: Any, value: Any) -> Knobs:
    """``knobs`` with one of them at ``value``, as a browser gives it. Raises ModelError."""
    if name == "scheme":
        return replace(knobs, scheme=_scheme(value))
    if name in _KNOBS:
        return replace(knobs, **{name: value})
    if name in _TIMES:
        return replace(knobs, costs=replace(knobs.costs, **{name: value}))
    raise ModelError(f"There is no knob {name!r}.", tried=_TRIED, remedy="use " + ", ".join((*_KNOBS, *_TIMES)))


def _scheme(value: Any) -> Scheme:
    for each in Scheme:
        if each.value == value:
            return each
    raise ModelError(
        f"scheme can't be {value!r}.", tried=_TRIED, remedy="use " + ", ".join(each.value for each in Scheme)
    )


def value_of(knobs: Knobs, name: str) -> Any:
    """A knob's or a time's value."""
    return getattr(knobs.costs if name in _TIMES else knobs, name)


def moved_names(before: Knobs, after: Knobs) -> list[str]:
    """Names of the knobs and times in which both differ."""
    return [each for each in (*_KNOBS, *_TIMES) if value_of(before, each) != value_of(after, each)]


def words_for(name: str, value: Any) -> str:
    """A knob's value for people, with its unit."""
    if name == "scheme":
        return str(value.value)
    if name.endswith("_pps"):
        return f"{value / 1e6:g} Mpps"
    if name == "rx_usecs":
        return f"{value:g} µs" if value else "driver chooses"
    if name == "memory_pages":
        return f"{value / 256:,.0f} MiB"
    if name in ("rx_ring", "tx_ring"):
        return f"{value:,} entries"
    return f"{value:,} packets" if name == "budget" else f"{value:g} {'µs' if name.endswith('_us') else 'ns'}"


def controls_of(knobs: Knobs, fixed: frozenset[str]) -> list[dict[str, Any]]:
    """Every knob but the times."""
    schemes = segmented("scheme", LABELS["scheme"], tuple(each.value for each in Scheme), knobs.scheme.value)
    return [
        *(_slider(name, knobs, fixed) for name in _KNOBS if name != "scheme"),
        {**schemes, **_more("scheme", fixed)},
    ]


def costs_of(knobs: Knobs, fixed: frozenset[str]) -> list[dict[str, Any]]:
    """The times, each with where it comes from."""
    return [{**_slider(name, knobs, fixed), "source": _source(name)} for name in _TIMES]


def tunings_of(knobs: Knobs, fixed: frozenset[str]) -> list[dict[str, Any]]:
    """A button a tuning; one that would move what is fixed says so, and does nothing."""
    return [
        {"name": name, "on": tuning == knobs, "stuck": sorted(fixed & set(moved_names(knobs, tuning)))}
        for name, tuning in TUNINGS.items()
    ]


def _slider(name: str, knobs: Knobs, fixed: frozenset[str]) -> dict[str, Any]:
    value = value_of(knobs, name)
    return {
        "id": name,
        "label": LABELS[name],
        "kind": "range",
        "values": list(VALUES[name]),
        "words": [words_for(name, each) for each in VALUES[name]],
        "value": value,
        "text": words_for(name, value),
        **_more(name, fixed),
    }


def _more(name: str, fixed: frozenset[str]) -> dict[str, Any]:
    return {"help": _HELP[name] + (" (fixed here)" if name in fixed else ""), "fixed": name in fixed}


def _source(name: str) -> str:
    if name in FITTED_ON:
        return f"fitted on: {FITTED_ON[name]}"
    return _WHY_ASSUMED.get(name, "assumed: nobody published it")
