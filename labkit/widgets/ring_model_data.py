"""What the page shows of a run of the ring model: the way of a packet, the ledger, the thread's figures, what changed.

Pure: no comm, no thread.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from labkit.models import PUBLISHED, Knobs, Moment, Outcome, Scheme
from labkit.widgets.ring_model_controls import LABELS, TUNINGS, moved_names, value_of, words_for

__all__ = ["HOMES", "Shown", "changes_of", "history_of", "ledger_of", "published_of", "said_of", "warning_of", "way_of"]

WARM_UP = 0.25
"""The share of the time that rates leave out: labkit.models.run's own."""

HOMES = {
    Scheme.HALF_PAGES: (
        "reference count",
        "The sending driver drops its reference. A page is used again while its other half is free; else a new one is taken.",
    ),
    Scheme.FREE: (
        "page allocator",
        "The sending driver frees the page. It goes back to the allocator, and each packet needs a new one.",
    ),
    Scheme.RETURN: (
        "return call",
        "The sending driver calls the owner, which keeps page and mapping for the next packet.",
    ),
    Scheme.POOL: ("page pool", "What was sent goes into one pool, and the receive ring is filled from it."),
    Scheme.NOBODY: ("nobody", "Neither driver knows of the other's buffers: what was sent never comes home."),
}
"""By scheme: what brings a page home, and how."""

_WHERE = {
    "receive ring full": ("first card", "abort", "A packet came, and no entry of the receive ring was free"),
    "transmit ring full": ("second card", "drop", "The CPU had a packet to send, and no entry was free for it"),
    "no memory": ("CPU", "tx", "There was no page to put into the receive ring in its place"),
}


@dataclass(frozen=True)
class Shown:
    """Knobs, and what came of them."""

    knobs: Knobs
    outcome: Outcome


def mpps(pps: float) -> str:
    """A rate in Mpps with two decimals."""
    return f"{pps / 1e6:.2f}"


def percent(share: float) -> str:
    """A share of 1 for people; never rounds something to nothing, or nearly all to all."""
    text = f"{100 * share:.1f}"
    if text == "0.0":
        return "< 0.1 %" if share > 0 else "0 %"
    return ("> 99.9 %" if share < 1 else "100 %") if text == "100.0" else f"{text} %"


def way_of(now: Shown) -> dict[str, Any]:
    """The stations of a packet's way and of its page's way back."""
    knobs, outcome = now.knobs, now.outcome
    steady = [each for each in outcome.history if each.at_us * 1e-6 >= WARM_UP * outcome.seconds]
    name, how = HOMES[knobs.scheme]
    return {
        "offered": f"{mpps(knobs.offered_pps)} Mpps",
        "received": f"{mpps(outcome.in_pps)} Mpps",
        "sent": f"{mpps(outcome.out_pps)} Mpps",
        "line": f"{mpps(knobs.line_pps)} Mpps",
        "share": min(1.0, outcome.out_pps / knobs.line_pps),
        "rx": _fill([each.in_rx_ring for each in steady], knobs.rx_ring),
        "tx": _fill([each.in_tx_ring for each in steady], knobs.tx_ring),
        "idle": outcome.idle,
        "asleep": percent(outcome.idle),
        "budget": knobs.budget,
        "interval": f"{knobs.interval_us:g} µs" + ("" if knobs.rx_usecs else ", the driver's choice"),
        "lost": {cause: [packets, _of(packets, outcome.offered)] for cause, packets in outcome.lost.items()},
        "home": name,
        "how": how,
        "broken": knobs.scheme is Scheme.NOBODY,
        "held": outcome.pages_held,
        "most": max(outcome.most_pages, outcome.pages_held),
        "memory": knobs.memory_pages,
        "recycled": outcome.recycled,
        "fresh": outcome.allocated,
        "ratio": outcome.recycle_ratio,
        "ratio_words": percent(outcome.recycle_ratio),
    }


def _fill(entries: list[int], size: int) -> dict[str, Any]:
    mean = sum(entries) / len(entries) if entries else 0.0
    return {"size": size, "mean": round(mean), "most": max(entries, default=0)}


def _of(packets: int, offered: int) -> str:
    return percent(packets / offered) if offered else "–"


def history_of(now: Shown) -> dict[str, Any]:
    """The moments, one list a measure, and the levels that lines may touch."""
    history = now.outcome.history
    return {
        "end_us": now.outcome.seconds * 1e6,
        "at_us": [round(each.at_us, 1) for each in history],
        "rx": [each.in_rx_ring for each in history],
        "tx": [each.in_tx_ring for each in history],
        "pages": [each.pages for each in history],
        "asleep": [int(each.asleep) for each in history],
        "rx_ring": now.knobs.rx_ring,
        "tx_ring": now.knobs.tx_ring,
        "memory": now.knobs.memory_pages,
    }


def ledger_of(outcome: Outcome) -> dict[str, Any]:
    """The rows of the ledger, in the form of the panel's, and the sum in numbers."""
    lost = [(name, *_WHERE[name][:2], packets, _WHERE[name][2]) for name, packets in outcome.lost.items()]
    parts = [
        ("sent", "out of the second card", "redirect", outcome.sent, "The second card has sent it"),
        *lost,
        ("in flight", "transmit ring", "muted", outcome.in_flight, "Handed over, and not yet sent"),
        ("waiting", "receive ring", "pass", outcome.waiting, "Arrived, and not yet received"),
    ]
    rows = [_row("sent", "offered", "wire", "", outcome.offered, outcome.offered, "Arrived at the first card")]
    rows += [_row("part", *part[:4], outcome.offered, part[4]) for part in parts]
    terms = " + ".join(f"{part[3]:,}" for part in parts if part[3]) or "0"
    return {"rows": rows, "unaccounted": outcome.unaccounted, "settled": True, "sum": f"{outcome.offered:,} = {terms}"}


def _row(kind: str, name: str, where: str, role: str, packets: int, offered: int, explains: str) -> dict[str, Any]:
    share = packets / offered if offered else 0.0
    words = {"kind": kind, "name": name, "where": where, "role": role, "explains": explains}
    return {**words, "packets": packets, "share": share}


def published_of(now: Shown) -> dict[str, Any]:
    """The thread's figures for exactly these knobs beside the model's; no rows where it gives none."""
    name = next((name for name, knobs in TUNINGS.items() if knobs == now.knobs), "")
    rows = [
        [
            each.what.rpartition(", ")[2],
            f"{each.mpps:.2f}",
            f"{each.of(now.outcome):.2f}",
            f"{each.of(now.outcome) / each.mpps:.3f}",
            "fitted on it" if each.fitted else "predicted",
        ]
        for each in PUBLISHED
        if each.knobs == now.knobs
    ]
    return {"name": name, "rows": rows}


def changes_of(before: Shown | None, now: Shown) -> dict[str, Any]:
    """What was moved since ``before``, and what came of it: name, before, after, and whether it is more or less."""
    if before is None:
        return {"moved": [], "came": []}
    names = moved_names(before.knobs, now.knobs)
    changed = [
        [LABELS[each], words_for(each, value_of(before.knobs, each)), words_for(each, value_of(now.knobs, each))]
        for each in names
    ]
    came = [
        [what, words, words_now, (value_now > value) - (value_now < value)]
        for (what, value, words), (_, value_now, words_now) in zip(_measures(before), _measures(now), strict=True)
        if words != words_now
    ]
    return {"moved": changed, "came": came}


def _measures(shown: Shown) -> list[tuple[str, float, str]]:
    """Name, value, words of everything that is compared."""
    outcome = shown.outcome
    lost = [
        (f"lost, {name}", packets / max(1, outcome.offered), _of(packets, outcome.offered))
        for name, packets in outcome.lost.items()
    ]
    return [
        ("received", outcome.in_pps, f"{mpps(outcome.in_pps)} Mpps"),
        ("sent", outcome.out_pps, f"{mpps(outcome.out_pps)} Mpps"),
        *lost,
        ("buffers recycled", outcome.recycle_ratio, percent(outcome.recycle_ratio)),
        ("pages held", outcome.pages_held, f"{outcome.pages_held:,}"),
        ("CPU asleep", outcome.idle, percent(outcome.idle)),
    ]


def warning_of(now: Shown) -> str:
    """In words where memory is out, or when it will be; "" where neither."""
    outcome, memory = now.outcome, now.knobs.memory_pages
    if outcome.out_of_memory:
        since = next((each.at_us for each in outcome.history if each.pages >= memory), outcome.seconds * 1e6)
        why = " Nobody gives pages back, so it stays like this." if now.knobs.scheme is Scheme.NOBODY else ""
        return (
            f"Out of memory, {since / 1e3:.1f} ms after the start: all {memory:,} pages are taken, and "
            f"{outcome.lost['no memory']:,} packets were lost, as there was no page to take their buffer's place.{why}"
        )
    if now.knobs.scheme is not Scheme.NOBODY or len(outcome.history) < 2:
        return ""
    grows = _growth(outcome.history[len(outcome.history) // 4], outcome.history[-1])
    if grows <= 0:
        return ""
    left = (memory - outcome.pages_held) / grows
    return (
        f"No page comes home: {grows / 1e3:,.0f} more are taken every millisecond. The {memory:,} pages there are last "
        f"for {(outcome.seconds + left) * 1e3:,.1f} ms; {outcome.seconds * 1e3:.3g} ms of it were simulated."
    )


def _growth(first: Moment, last: Moment) -> float:
    """Pages a second."""
    return (last.pages - first.pages) / max(1e-9, (last.at_us - first.at_us) * 1e-6)


def said_of(now: Shown) -> str:
    """Everything in a few sentences, for those who don't see the picture."""
    outcome, way = now.outcome, way_of(now)
    lost = ", ".join(f"{packets:,} {name}" for name, packets in outcome.lost.items() if packets) or "none"
    home = "No page comes home" if way["broken"] else f"Pages come home by {way['home']}"
    return (
        f"A model: {way['offered']} offered, {way['received']} received, {way['sent']} sent. Packets lost: {lost}. "
        f"Receive ring {_ring_words(way['rx'])}; transmit ring {_ring_words(way['tx'])}. CPU asleep {way['asleep']} of the "
        f"time. {home}: {way['held']:,} held, {way['ratio_words']} of buffers recycled."
    )


def _ring_words(fill: dict[str, Any]) -> str:
    return f"{fill['mean']:,} of {fill['size']:,} entries taken on average, {fill['most']:,} at most"
