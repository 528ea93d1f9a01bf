"""The ring model's still picture, for pages without a kernel: the way of a packet and of its page, and the tables."""

from __future__ import annotations

from html import escape
from typing import Any

from labkit.lesson.page import Table
from labkit.lesson.pictures import Picture, box_at, label_at, svg_of
from labkit.models import Outcome
from labkit.widgets.ring_model_controls import LABELS, VALUES, value_of, words_for
from labkit.widgets.ring_model_data import Shown, published_of, said_of, warning_of, way_of

__all__ = ["still_of"]

_BOX_W, _BOX_H, _GAP, _TOP = 176, 96, 22, 4
_BACK_Y, _BACK_H = 178, 50
_WIDTH = 5 * _BOX_W + 4 * _GAP + 4
_ARROW = 'fill="none" stroke="var(--lab-soft)" stroke-width="1.6"'


def still_of(now: Shown, title: str) -> str:
    """HTML: that it is a model, the picture, the knobs, the ledger, and the thread's figures where there are any."""
    warning = warning_of(now)
    parts = [
        f"<p><b>A model: nothing here is measured.</b> {escape(warning)}</p>",
        _picture(now, title)._repr_html_(),
        _knobs(now)._repr_html_(),
    ]
    published = published_of(now)
    if published["rows"]:
        head = (published["name"], "thread of 2017, Mpps", "model, Mpps", "ratio", "the model's figure is")
        parts.append(Table(head, tuple(map(tuple, published["rows"])))._repr_html_())
    return "".join(parts)


def _picture(now: Shown, title: str) -> Picture:
    said = said_of(now)
    return Picture(
        title, said, svg_of(title, said, _WIDTH, _BACK_Y + _BACK_H + 6, _drawn(way_of(now))), ledger(now.outcome)
    )


def ledger(outcome: Outcome) -> Table:
    """What became of every packet."""
    rows = (
        ("offered", outcome.offered),
        ("sent", outcome.sent),
        *((f"lost: {name}", packets) for name, packets in outcome.lost.items()),
        ("in flight", outcome.in_flight),
        ("waiting", outcome.waiting),
        ("unaccounted", outcome.unaccounted),
    )
    return Table(("packets", "number"), rows)


def _knobs(now: Shown) -> Table:
    rows = tuple((LABELS[name], words_for(name, value_of(now.knobs, name))) for name in (*VALUES, "scheme"))
    return Table(("knob", "set to"), rows)


def _drawn(way: dict[str, Any]) -> str:
    lost = way["lost"]
    stations = (
        ("wire", (f"{way['offered']} offered",), ()),
        ("receive ring", _ring(way["rx"]), ("receive ring full",)),
        ("CPU", (f"{way['received']} received", f"asleep {way['asleep']} of the time"), ("no memory",)),
        ("transmit ring", _ring(way["tx"]), ("transmit ring full",)),
        ("wire", (f"{way['sent']} sent", f"of {way['line']} at most"), ()),
    )
    drawn = []
    for i, (name, lines, losses) in enumerate(stations):
        x = 2 + i * (_BOX_W + _GAP)
        drawn += [box_at(x, _TOP, _BOX_W, _BOX_H), label_at(x + 12, _TOP + 22, name, "strong")]
        drawn += [label_at(x + 12, _TOP + 44 + 18 * j, line, "small") for j, line in enumerate(lines)]
        drawn += [_loss(x, cause, *lost[cause]) for cause in losses]
        if i:
            drawn.append(f'<path d="M{x - _GAP + 3} {_TOP + _BOX_H / 2}h{_GAP - 7}m-5 -4l5 4l-5 4" {_ARROW}/>')
    return "".join([*drawn, *_back(way)])


def _ring(fill: dict[str, Any]) -> tuple[str, ...]:
    return (f"{fill['mean']:,} of {fill['size']:,} on average", f"{fill['most']:,} at most")


def _loss(x: float, cause: str, packets: int, share: str) -> str:
    if not packets:
        return label_at(x + 12, _TOP + _BOX_H + 20, f"{cause}: none", "soft small")
    mark = f'<path d="M{x + 8} {_TOP + _BOX_H + 16}l6 -6l6 6l-6 6z" fill="var(--lab-bad)"/>'
    return (
        mark
        + label_at(x + 25, _TOP + _BOX_H + 20, cause, "small strong")
        + label_at(x + 25, _TOP + _BOX_H + 36, f"{packets:,} lost ({share})", "small")
    )


def _back(way: dict[str, Any]) -> list[str]:
    """The page's way back, from the transmit ring to the receive ring."""
    left, right = 2 + _BOX_W + _GAP, 2 + 3 * (_BOX_W + _GAP) + _BOX_W
    dashes = ' stroke-dasharray="5 4"' if way["broken"] else ""
    words = f"{way['held']:,} pages held, {way['ratio_words']} of buffers recycled, {way['fresh']:,} new pages"
    return [
        f'<rect x="{left}" y="{_BACK_Y}" width="{right - left}" height="{_BACK_H}" rx="9" fill="none" '
        f'stroke="var(--lab-soft)"{dashes}/>',
        label_at(left + 12, _BACK_Y + 20, f"the page's way back: {way['home']}", "strong"),
        label_at(left + 12, _BACK_Y + 38, words, "small"),
        f'<path d="M{right - 40} {_TOP + _BOX_H + 48}V{_BACK_Y - 4}m-4 -5l4 5l4 -5" {_ARROW}{dashes}/>',
        "" if way["broken"] else f'<path d="M{left + 40} {_BACK_Y - 4}V{_TOP + _BOX_H + 48}m-4 5l4 -5l4 5" {_ARROW}/>',
    ]
