"""The map of pages as a still picture: what is at home and what is away, a square for each page or for some."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import wrap

from labkit.buffers import BufferWatch
from labkit.lesson.buffers.moment import AWAY, HOME, PageMoment, Spot, moment_of, spots_of
from labkit.lesson.page import Table
from labkit.lesson.pictures import Picture, box_at, label_at, svg_of
from labkit.lesson.tracing import Unseen

__all__ = ["page_map", "page_picture", "page_way", "square_of"]

_BOX_W, _BOX_H, _GAP, _LEFT = 164, 104, 24, 14
_TOP, _BELOW = 34, 190
_SQUARE, _STEP = 7, 9  # a page's edge, and from one to the next
_COLUMNS, _ROWS = 16, 5
_WIDTH = _LEFT * 2 + 5 * _BOX_W + 4 * _GAP
_ACROSS = _BOX_W + _GAP  # from a box to the next
_POOL_X = _LEFT + _ACROSS
_LETTERS = 25  # of a line in a box
_ARROW = 'fill="none" stroke="var(--lab-soft)" stroke-width="1.6"'
_SHOWN = 6  # pools in the table


def page_way() -> Picture:
    """The places where a page can be, and what each is: the same drawing with words in the boxes, and its table."""
    title = "Where a page can be: above at home in its pool, below on a frame's way"
    spots = spots_of({}, None)
    boxes = [_box_at(*at, spot.name, _says(*at, spot.says)) for at, spot in _placed(spots)]
    first = _box_at(
        _LEFT, _TOP, "page allocator", _says(_LEFT, _TOP, "the kernel's store of free memory, for everybody")
    )
    said = "; ".join(f"{spot.name}: {spot.says}" for spot in spots)
    rows = tuple((spot.name, spot.side, spot.says) for spot in spots)
    svg = svg_of(title, said, _WIDTH, _BELOW + _BOX_H + 8, "".join([first, *boxes, *_arrows()]))
    return Picture(title, said, svg, Table(("place", "", "what it is"), rows), open=False)


def page_map(pools: BufferWatch | Unseen, title: str = "") -> Picture | Unseen:
    """Where every page of the watched lab is now: a picture and its table. ``title`` says what was done last.

    What ``lesson.if_traced`` gave in place of a watch comes back as it is.
    """
    if isinstance(pools, Unseen):
        return pools
    return page_picture(moment_of(pools.lab, pools), title)


def page_picture(moment: PageMoment, title: str = "") -> Picture:
    """The same of a moment that was read before."""
    said = f"{title}: where the pages are" if title else moment.title
    return Picture(said, f"{moment.sum_in_words}.", _drawn(moment, said), _table(moment), open=False)


def square_of(most: int, room: int = _COLUMNS * _ROWS) -> int:
    """How many pages a square stands for, so that ``most`` of them have room: 1, 2, 5, 10, 20, 50 …"""
    size = 1
    while most > size * room:
        size = size * 5 // 2 if str(size)[0] == "2" else size * 2
    return size


def _drawn(moment: PageMoment, title: str) -> str:
    each = square_of(max((spot.pages or 0 for spot in moment.spots), default=0))
    parts = [_allocator(moment)]
    for (x, y), spot in _placed(moment.spots):
        number = label_at(x + _BOX_W - 10, y + 20, _count(spot.pages), "strong", "end")
        parts.append(_box_at(x, y, spot.name, number + _squares(x, y, spot, each)))
    key = f"a square: {each:,} page{'s' * (each > 1)}; full at home, hollow away"
    parts += [
        *_arrows(),
        label_at(_LEFT, 16, f"At home: {moment.side(HOME):,}   Away: {moment.side(AWAY):,}", "strong"),
        label_at(_WIDTH - _LEFT, 16, key, "soft small", "end"),
        label_at(_LEFT, _BELOW + _BOX_H + 24, moment.sum_in_words, "strong small"),
    ]
    return svg_of(title, f"{moment.sum_in_words}.", _WIDTH, _BELOW + _BOX_H + 36, "".join(parts))


def _placed(spots: Sequence[Spot]) -> list[tuple[tuple[float, float], Spot]]:
    """Each spot and its box's corner: those at home above, behind the allocator, the others below."""
    home = [spot for spot in spots if spot.side == HOME]
    away = [spot for spot in spots if spot.side == AWAY]
    placed: list[tuple[tuple[float, float], Spot]] = [
        ((_POOL_X + i * _ACROSS, _TOP), spot) for i, spot in enumerate(home)
    ]
    return placed + [((_LEFT + i * _ACROSS, _BELOW), spot) for i, spot in enumerate(away)]


def _arrows() -> list[str]:
    out, back = _POOL_X + 30, _POOL_X + 2 * _BOX_W
    between = (_TOP + _BOX_H + _BELOW) / 2 + 4
    return [
        _right(_LEFT + _BOX_W, _TOP),
        *(_right(_LEFT + i * _ACROSS - _GAP, _BELOW) for i in range(1, 5)),
        f'<path d="M{out} {_TOP + _BOX_H + 4}V{_BELOW - 24}H{_LEFT + _BOX_W / 2}V{_BELOW - 6}m-4 -5l4 5l4 -5" {_ARROW}/>',
        f'<path d="M{back} {_BELOW - 4}V{_TOP + _BOX_H + 6}m-4 5l4 -5l4 5" {_ARROW}/>',
        label_at(out + 8, between - 10, "out, with a frame", "soft small"),
        label_at(back + 8, between, "home, when the frame's end has come", "soft small"),
    ]


def _right(x: float, y: float) -> str:
    return f'<path d="M{x + 4} {y + _BOX_H / 2}h{_GAP - 8}m-5 -4l5 4l-5 4" {_ARROW}/>'


def _box_at(x: float, y: float, name: str, inner: str) -> str:
    return box_at(x, y, _BOX_W, _BOX_H) + label_at(x + 10, y + 20, name, "strong") + inner


def _says(x: float, y: float, words: str) -> str:
    lines = wrap(words, _LETTERS)
    return "".join(label_at(x + 10, y + 40 + 15 * i, line, "soft small") for i, line in enumerate(lines))


def _squares(x: float, y: float, spot: Spot, each: int) -> str:
    squares = min(-(-(spot.pages or 0) // each), _COLUMNS * _ROWS)
    marks = "".join(
        f"M{x + 10 + i % _COLUMNS * _STEP:g} {y + 32 + i // _COLUMNS * _STEP:g}h{_SQUARE}v{_SQUARE}h-{_SQUARE}z"
        for i in range(squares)
    )
    home = spot.side == HOME
    paint = 'fill="var(--lab-accent)"' if home else 'fill="none" stroke="var(--lab-accent)" stroke-width="1.4"'
    return f'<path d="{marks}" {paint}/>' if marks else ""


def _allocator(moment: PageMoment) -> str:
    lines = (f"taken from it: {_count(moment.held)}", f"given back: {_count(moment.released)}")
    shown = (label_at(_LEFT + 10, _TOP + 40 + 17 * i, line) for i, line in enumerate(lines))
    return _box_at(_LEFT, _TOP, "page allocator", "".join(shown))


def _count(pages: int | None) -> str:
    return "–" if pages is None else f"{pages:,}"


def _table(moment: PageMoment) -> Table:
    rows: list[tuple[object, ...]] = [(spot.name, spot.side, spot.pages, spot.says) for spot in moment.spots]
    rows.append(("in flight", "", moment.in_flight, f"{_count(moment.held)} held − {_count(moment.released)} released"))
    for pool in moment.pools[:_SHOWN]:
        state = f"waits to end, tried {pool.tries}×" if pool.closing else "in use"
        rows.append((pool.what, f"{pool.home:,} at home", pool.out, f"away; {state}"))
    if len(moment.pools) > _SHOWN:
        rest = moment.pools[_SHOWN:]
        rows.append(
            (f"{len(rest)} more pools", f"{sum(p.home for p in rest):,} at home", sum(p.out for p in rest), "away")
        )
    return Table(("place, or pool", "", "pages", ""), tuple(rows))
