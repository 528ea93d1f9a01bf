"""The four rings and the memory's frames as SVG: cells with frame numbers where there are few, bars where there are many."""

from __future__ import annotations

from typing import TYPE_CHECKING

from labkit.lesson.pictures import label_at, svg_of

if TYPE_CHECKING:
    from labkit.lesson.xsk_rings import RingsState, RingState

__all__ = ["MEMORY_STEP", "MEMORY_WIDTH", "drawn", "memory"]

_LEFT, _WIDTH, _STEP, _TALL = 190, 512, 74, 26
_ROWS, _LETTER = 4, 6.5
_FEW = 16  # entries drawn as cells
MEMORY_STEP, MEMORY_WIDTH = 64, _LEFT + _WIDTH + 20
_ARROW = 'fill="none" stroke="var(--lab-soft)" stroke-width="1.6"'


def drawn(state: RingsState, title: str, description: str) -> str:
    """The picture as SVG."""
    parts = [_ring(20 + i * _STEP, ring) for i, ring in enumerate(state.rings)]
    y = 20 + len(state.rings) * _STEP
    parts.append(memory(y, state, "the memory"))
    return svg_of(title, description, MEMORY_WIDTH, y + _TALL + 10 + 15 * _ROWS, "".join(parts))


def _ring(y: int, ring: RingState) -> str:
    parts = [
        label_at(4, y + 12, ring.name, "strong"),
        label_at(4, y + 28, f"{ring.puts_in} → {ring.takes_out}", "soft small"),
        _frame(_LEFT, y, _WIDTH),
    ]
    parts.append(_cells(y, ring) if ring.size <= _FEW else _spans(y, ring))
    step = _WIDTH / ring.size
    take, put = (_LEFT + (at % ring.size) * step + min(step, 10) / 2 for at in (ring.consumer, ring.producer))
    parts += [
        f'<path d="M{put:g} {y - 12}v9m-3 -4l3 4l3 -4" {_ARROW}/>',
        f'<path d="M{take:g} {y + _TALL + 12}v-9m-3 4l3 -4l3 4" {_ARROW}/>',
        _beside(put, y - 5, f"{ring.puts_in} puts in: {ring.producer:,}"),
        _beside(take, y + _TALL + 13, f"{ring.takes_out} takes out: {ring.consumer:,}"),
    ]
    return "".join(parts)


def _beside(x: float, y: float, text: str) -> str:
    """Beside an arrow, on the side where there is room."""
    right = x < _LEFT + _WIDTH * 0.6
    return label_at(x + (7 if right else -7), y, text, "soft small", "start" if right else "end")


def _frame(x: float, y: float, width: float) -> str:
    return (
        f'<rect x="{x:g}" y="{y}" width="{width:g}" height="{_TALL}" rx="4" fill="var(--lab-card)" '
        f'stroke="var(--lab-line)"/>'
    )


def _cells(y: int, ring: RingState) -> str:
    step = _WIDTH / ring.size
    parts = [
        f'<path d="M{_LEFT + i * step:g} {y}v{_TALL}" stroke="var(--lab-line)" stroke-width="1"/>'
        for i in range(1, ring.size)
    ]
    for i, frame in enumerate(ring.frames):
        x = _LEFT + (ring.consumer + i) % ring.size * step
        parts.append(_full(x + 2, y, step - 4))
        parts.append(label_at(x + step / 2, y + 18, f"{frame}", "strong small", "middle"))
    return "".join(parts)


def _full(x: float, y: int, width: float) -> str:
    return (
        f'<rect x="{x:.1f}" y="{y + 2}" width="{max(width, 1):.1f}" height="{_TALL - 4}" rx="3" '
        f'fill="var(--lab-accent)" fill-opacity=".28" stroke="var(--lab-accent)"/>'
    )


def _spans(y: int, ring: RingState) -> str:
    """The entries between the positions as one bar, or two where they go over the end."""
    step, start, number = _WIDTH / ring.size, ring.consumer % ring.size, len(ring.frames)
    first = min(number, ring.size - start)
    parts = [_full(_LEFT + start * step, y, first * step)] if first else []
    if number > first:
        parts.append(_full(_LEFT, y, (number - first) * step))
    return "".join(parts)


def memory(y: int, state: RingsState, name: str) -> str:
    """Every frame once, side by side by its place, as a line called ``name``."""
    parts = [label_at(4, y + 12, name, "strong"), label_at(4, y + 28, f"{state.frames:,} frames", "soft small")]
    parts.append(_frame(_LEFT, y, _WIDTH))
    x, step = float(_LEFT), _WIDTH / state.frames
    ends = [0.0] * _ROWS  # of the labels in each row below
    for place, frames in state.places.items():
        if not frames:
            continue
        width = frames * step
        paint = "var(--lab-line)" if place == "free" else "var(--lab-accent)"
        opacity = ".28" if place != "free" else ".5"
        parts.append(
            f'<rect x="{x + 1:.1f}" y="{y + 2}" width="{max(width - 2, 1):.1f}" height="{_TALL - 4}" rx="3" '
            f'fill="{paint}" fill-opacity="{opacity}" stroke="{paint}"/>'
        )
        label = f"{place} {frames:,}"
        row = next((i for i, end in enumerate(ends) if end <= x), _ROWS - 1)
        ends[row] = x + _LETTER * (len(label) + 2)
        parts.append(label_at(x + 4, y + _TALL + 15 + 15 * row, label, "small"))
        x += width
    return "".join(parts)
