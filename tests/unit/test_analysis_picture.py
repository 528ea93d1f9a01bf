"""The picture of a control flow: nothing overlaps, every edge is drawn, and what a colour says a sign says, too."""

from __future__ import annotations

from itertools import combinations, pairwise
from xml.etree import ElementTree

import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labkit.analysis import analyse
from labkit.analysis.report import Report
from labkit.errors import LessonError
from labkit.lesson.analysis_picture import flow_picture, verdict_table
from labkit.lesson.layered import arranged

BOX, GAP = (100, 40), (20, 30)
SVG = "{http://www.w3.org/2000/svg}"


def report(name: str) -> Report:
    return analyse(f"bpf/analysis/{name}.c")[0]


def words(svg: str) -> list[str]:
    return ["".join(each.itertext()) for each in ElementTree.fromstring(svg).iter(f"{SVG}text")]


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 11), st.integers(0, 11)), max_size=24))
def test_boxes_never_overlap_and_edges_lead_down_from_box_to_box(pairs: list[tuple[int, int]]) -> None:
    whole = nx.DiGraph(pairs)
    whole.add_node(0)
    graph = whole.subgraph({0, *nx.descendants(whole, 0)})
    drawing = arranged(graph, 0, BOX, GAP)
    assert set(drawing.boxes) == set(graph)
    assert set(drawing.edges) == set(graph.edges)
    for (ax, ay), (bx, by) in combinations(drawing.boxes.values(), 2):
        assert abs(ax - bx) >= BOX[0] + GAP[0] or abs(ay - by) >= BOX[1] + GAP[1]
    assert all(0 <= x <= drawing.width and 0 <= y <= drawing.height for x, y in drawing.boxes.values())
    downward = [edge for edge, points in drawing.edges.items() if all(b[1] >= a[1] for a, b in pairwise(points))]
    assert nx.is_directed_acyclic_graph(nx.DiGraph(downward))
    for a, b in downward:
        first, last = drawing.edges[a, b][0], drawing.edges[a, b][-1]
        assert first == (drawing.boxes[a][0] + BOX[0] / 2, drawing.boxes[a][1] + BOX[1])
        assert last == (drawing.boxes[b][0] + BOX[0] / 2, drawing.boxes[b][1])


def test_a_tail_is_marked_by_colour_and_by_sign() -> None:
    picture = flow_picture(report("two_tails"))
    found = words(picture.svg)
    assert found.count("✓") == 2
    assert "✕" not in found
    assert found.count("● bpf_redirect_map ✓") == 2
    assert picture.svg.count('stroke="var(--lab-good)"') == 4  # two lines, two heads
    assert "stroke-dasharray" not in picture.svg
    assert "return ports.redirect_map(0, XDP_PASS);" in found


def test_what_breaks_a_tail_is_dashed_and_crossed() -> None:
    picture = flow_picture(report("counted_behind"))
    found = words(picture.svg)
    assert "● bpf_redirect_map ✕" in found
    assert "✕ calls bpf_map_lookup_elem" in found
    assert "stroke-dasharray" in picture.svg
    assert "✓" not in found
    assert any(text == "packets = verdicts.lookup(&slot);" for text in found)


def test_the_table_says_the_same() -> None:
    picture = flow_picture(report("counted_behind"))
    rows = picture.table.rows
    assert [row[0] for row in rows] == ["A", "B", "C", "D", "E"]
    assert rows[0][4] == "B, C ✕"
    assert rows[-1][3:] == ("■ exit", "the end")
    assert "✕ calls bpf_map_lookup_elem" in picture.description


def test_programs_with_loops_and_many_blocks_are_drawn() -> None:
    for path in ("bpf/router.c", "bpf/hand_out.c"):
        for found in analyse(path):
            picture = flow_picture(found)
            assert len(picture.table.rows) == picture.svg.count('fill="var(--lab-card)"')


def test_a_function_that_is_not_there_is_told() -> None:
    with pytest.raises(LessonError, match="no function 'nowhere'"):
        flow_picture(report("mixed"), "nowhere")


def test_the_table_of_verdicts() -> None:
    table = verdict_table([report("softer_miss"), report("mixed"), *analyse("bpf/pass.c")])
    assert table.rows == (
        ("softer_miss", 1, "no", "yes", "yes", ""),
        ("mixed", 1, "yes", "yes", "no", "calls bpf_redirect as well"),
        ("pass", 0, "–", "–", "no", ""),
    )
