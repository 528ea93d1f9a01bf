"""The drawing of a frame's buffer: one scale, honest folds, and pieces that cover it."""

from __future__ import annotations

import re
from collections import Counter
from itertools import pairwise

from hypothesis import example, given, settings
from hypothesis import strategies as st

from labkit.lesson.frame_map_axis import make_axis
from labkit.lesson.frame_map_drawing import draw_frame
from labkit.lesson.frame_map_fields import Part
from labkit.lesson.frame_map_strip import pieces_of
from labkit.lesson.frame_map_style import FRAME_MAP_CSS
from labkit.lesson.frame_map_words import signed
from labkit.observe.adjusting import Adjusted, Finding, Step
from labkit.widgets.assets import FRAME_MAP_CSS as WIDGET_CSS
from labkit.widgets.assets import FRAME_MAP_ESM

PARTS = (Part("Ethernet", "link", 0, 14), Part("payload", "payload", 14, 50))


def finding(left: int, meta: int, frame: int, right: int, step: Step | None = None) -> Finding:
    return Finding(step, 0, meta, frame, left, right, bytes(left + frame))


@settings(deadline=None)
@given(
    st.integers(300, 5000).flatmap(
        lambda n: st.tuples(st.just(n), st.lists(st.integers(0, n), min_size=1, max_size=12), st.integers(0, n - 100))
    ),
    st.integers(700, 1100),
)
def test_an_axis_covers_all_and_shows_what_matters(buffer: tuple[int, list[int], int], width: int) -> None:
    length, points, start = buffer
    axis = make_axis(length, points, (start, start + 54), 50.0, width)
    assert (axis.stretches[0].first, axis.stretches[-1].last) == (0, length)
    assert all(a.last == b.first for a, b in pairwise(axis.stretches))
    assert all(abs(b.x - a.x - a.width) < 1e-6 for a, b in pairwise(axis.stretches))
    for each in axis.stretches:
        if not each.folded:
            assert abs(each.width - (each.last - each.first) * axis.scale) < 1e-6, "all to one scale"
        else:
            assert not any(each.first < point < each.last for point in points), "no pointer is folded away"
            assert not each.first < start + 30 < each.last
    pixels = [axis.x(at) for at in range(length + 1)]
    assert all(a < b for a, b in pairwise(pixels))


def test_what_left_the_frame_is_no_header_when_it_comes_back() -> None:
    came = finding(216, 0, 64, 0)
    cut = finding(220, 0, 60, 0, Step("head", 4))
    back = finding(216, 8, 64, 0, Step("head", -4))
    first, second, third = pieces_of([came, cut, back], PARTS)
    assert [(p.name, p.length) for p in first] == [("headroom", 216), ("Ethernet", 14), ("payload", 50)]
    assert [(p.name, p.length) for p in second] == [("headroom", 220), ("Ethernet", 10), ("payload", 50)]
    assert [(p.name, p.length) for p in third] == [
        ("headroom", 208),
        ("metadata", 8),
        ("new", 4),
        ("Ethernet", 10),
        ("payload", 50),
    ]


@settings(max_examples=30, deadline=None)  # each draws a picture
@given(st.lists(st.tuples(st.sampled_from(["meta", "head", "tail"]), st.integers(-60, 60)), max_size=8))
@example([("head", -15), ("tail", -5), ("tail", -60)])  # the frame ends before the place where it once began
@example([("head", -15), ("tail", -65), ("tail", 40)])
def test_pieces_cover_the_buffer_whatever_is_done(steps: list[tuple[str, int]]) -> None:
    left, meta, frame, right = 216, 0, 64, 100
    found = [finding(left, meta, frame, right)]
    for kind, by in steps:
        if kind == "head":
            left, frame = left + by, frame - by
        elif kind == "tail":
            frame, right = frame + by, right - by
        else:
            meta -= by
        if not (0 <= meta <= left and frame >= 14 and right >= 0):
            break
        found.append(finding(left, meta, frame, right, Step(kind, by)))
    for each, pieces in zip(found, pieces_of(found, PARTS), strict=True):
        assert pieces[0].first == 0
        assert all(a.last == b.first for a, b in pairwise(pieces))
        assert pieces[-1].last == each.end
        inside = [p for p in pieces if p.family not in ("room", "meta")]
        assert sum(p.length for p in inside) == each.frame_bytes
    adjusted = Adjusted(bytes(64), "server eth0", "native", "socket", tuple(found))
    drawing = draw_frame(adjusted)
    assert [number for number, _, _ in drawing.strips] == list(range(len(found)))
    used = set(re.findall(r'class="([^"]+)"', drawing.svg()))
    for name in {word for each in used for word in each.split()}:
        assert f".{name}{{" in FRAME_MAP_CSS or f".{name}." in FRAME_MAP_CSS, name


def test_signs_are_as_wide_as_each_other() -> None:
    assert [signed(-8), signed(4), signed(0)] == ["−8", "+4", "0"]


def test_the_front_end_is_one_module_that_asks_nothing_of_anyone() -> None:
    assert FRAME_MAP_ESM.count("export ") == 1
    assert FRAME_MAP_ESM.rstrip().endswith("export default { render };")
    names = re.findall(r"^(?:function|const|let|class) (\w+)", FRAME_MAP_ESM, re.M)
    assert [name for name, count in Counter(names).items() if count > 1] == []
    for word in ("fetch(", "innerHTML", "insertAdjacentHTML", "eval(", "import(", "XMLHttpRequest"):
        assert word not in FRAME_MAP_ESM
    assert re.findall(r"https?://[^\"]+", FRAME_MAP_ESM) == ["http://www.w3.org/2000/svg"], (
        "a namespace, not an address"
    )
    assert "url(" not in WIDGET_CSS
    assert "@import" not in WIDGET_CSS
