"""The model's rules, drawn: two cards, two rings, one CPU, and the way back of a buffer."""

from __future__ import annotations

from textwrap import wrap

from labkit.lesson.page import Table
from labkit.lesson.pictures import Picture, box_at, label_at, svg_of

__all__ = ["model_rules"]

_BOX_W, _BOX_H, _GAP, _LEFT, _TOP, _BELOW = 214, 112, 44, 10, 34, 214
_LETTERS = 33  # of a line in a box
_ARROW = 'fill="none" stroke="var(--lab-soft)" stroke-width="1.8"'

# Place, what happens there, what can be set, what it costs.
_RULES = (
    (
        "receive ring",
        "each packet takes the next free entry, and the buffer there; with none free the card loses it",
        "rx_ring, offered_pps",
        "",
    ),
    (
        "one CPU",
        "asleep until an interrupt; then a budget of packets: run the program, redirect; then clean up what was sent",
        "budget",
        "receive_ns, send_ns",
    ),
    (
        "transmit ring",
        "an entry is taken until its packet was sent and cleaned up; with none free the driver drops the packet",
        "tx_ring, line_pps",
        "",
    ),
    (
        "new pages",
        "where no buffer has come back a new page fills the receive ring, as long as there is memory",
        "memory_pages",
        "page_ns, dma_ns",
    ),
    (
        "the way back",
        "after the clean-up: who gives the buffer back, and to whom?",
        "scheme",
        "return_ns, pool_ns",
    ),
    (
        "interrupts",
        "each card asks for the CPU; between two of a card's interrupts there is a least time",
        "rx_usecs",
        "adaptive_us",
    ),
)


def model_rules() -> Picture:
    """A box for each rule of the model, with the names of what can be set there; the table has the times, too."""
    title = "The model: a packet goes from left to right, its buffer comes back below"
    parts = [_box(i, name, says, knobs) for i, (name, says, knobs, _) in enumerate(_RULES)]
    said = "; ".join(f"{name}: {says}" for name, says, _, _ in _RULES)
    table = Table(("place", "rule", "what can be set", "times"), _RULES)
    width = 2 * _LEFT + 3 * _BOX_W + 2 * _GAP
    svg = svg_of(title, said, width, _BELOW + _BOX_H + 10, "".join([*parts, *_arrows()]))
    return Picture(title, said, svg, table, open=False)


def _place(number: int) -> tuple[float, float]:
    return _LEFT + number % 3 * (_BOX_W + _GAP), _TOP if number < 3 else _BELOW


def _box(number: int, name: str, says: str, knobs: str) -> str:
    x, y = _place(number)
    lines = "".join(
        label_at(x + 10, y + 38 + 14 * i, line, "soft small") for i, line in enumerate(wrap(says, _LETTERS))
    )
    knob = label_at(x + 10, y + _BOX_H - 8, f"set: {knobs}", "small strong")
    return box_at(x, y, _BOX_W, _BOX_H) + label_at(x + 10, y + 20, name, "strong") + lines + knob


def _arrows() -> list[str]:
    (first, _), (middle, _), (last, _) = map(_place, range(3))
    across, down = _TOP + _BOX_H / 2, _TOP + _BOX_H
    return [
        label_at(first, 18, "packets come in, from the first card's line", "soft small"),
        label_at(last + _BOX_W, 18, "and go out, by the second card's", "soft small", "end"),
        f'<path d="M{first + _BOX_W + 5} {across}h{_GAP - 10}m-6 -5l6 5l-6 5" {_ARROW}/>',
        f'<path d="M{middle + _BOX_W + 5} {across}h{_GAP - 10}m-6 -5l6 5l-6 5" {_ARROW}/>',
        f'<path d="M{first + 60} {_BELOW - 5}V{down + 8}m-5 6l5 -6l5 6" {_ARROW}/>',
        label_at(first + 70, (down + _BELOW) / 2 + 4, "fill the ring again", "soft small"),
        f'<path d="M{last + 40} {down + 5}v22H{middle + _BOX_W / 2}V{_BELOW - 7}m-5 -6l5 6l5 -6" {_ARROW}/>',
        label_at(middle + _BOX_W / 2 + 10, down + 44, "sent, and cleaned up", "soft small"),
        f'<path d="M{middle - 5} {_BELOW + _BOX_H / 2}h-{_GAP - 10}m6 -5l-6 5l6 5" {_ARROW}/>',
        f'<path d="M{last + _BOX_W - 40} {_BELOW - 5}V{down + 30}H{middle + _BOX_W - 20}V{down + 7}m-5 6l5 -6l5 6" '
        f'fill="none" stroke="var(--lab-soft)" stroke-width="1.4" stroke-dasharray="3 3"/>',
        label_at(last + _BOX_W - 48, down + 46, "wake it up", "soft small", "end"),
    ]
