"""What a lesson shows: tables, pictures, C source; each as HTML and as plain text."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

import labkit as lk
from labkit import lesson
from labkit.errors import LessonError
from labkit.lesson.page import Table, number
from labkit.lesson.pictures import Picture, bars, draw, receive_path
from labkit.lesson.race import Lane, Race, runs_scaled, scaled
from labkit.observe.ledger import Ledger

TOPOLOGIES = [
    lk.Topology.pair(),
    lk.Topology.router(),
    lk.Topology.fanout(3),
    lk.Topology.chain(4),
    lk.Topology(("alone",)),
]
PICTURES = [
    *map(draw, TOPOLOGIES),
    receive_path(),
    bars({"a <b>": 1.5, "c": 0.0}, "Mpps", "Rates"),
    bars({"a": 2}, "%", "S", beside={"a": 3}, beside_name="2016"),
]


@pytest.mark.parametrize("picture", PICTURES, ids=lambda p: p.title)
def test_every_picture_is_named_described_and_tabled(picture: Picture) -> None:
    svg = ElementTree.fromstring(picture.svg)
    title, description = svg[0], svg[1]
    assert title.text == picture.title
    assert svg.get("role") == "img"
    assert svg.get("aria-labelledby") == f"{title.get('id')} {description.get('id')}"
    assert picture.table.rows or picture.title == "alone"
    assert "<table>" in picture._repr_html_()
    assert picture.title in str(picture)


@pytest.mark.parametrize("picture", PICTURES, ids=lambda p: p.title)
def test_pictures_keep_to_the_themes_colours(picture: Picture) -> None:
    assert not re.search(r"#[0-9a-f]{3,6}|rgb\(", picture.svg)


def test_a_topology_names_every_end() -> None:
    text = str(draw(lk.Topology.router()))
    assert "router  eth1       10.0.2.1/24" in text
    assert "client eth0" in text


def test_ids_differ_between_pictures_of_a_page() -> None:
    plan = lk.Topology.pair()
    assert ElementTree.fromstring(draw(plan).svg)[0].get("id") != ElementTree.fromstring(draw(plan).svg)[0].get("id")


def test_table_as_text_and_html() -> None:
    table = Table(("name", "packets"), (("a & b", 1234567), ("c", None)), "Caption", ((0, 1, "good"),))
    assert str(table).splitlines() == [
        "Caption",
        "name     packets",
        "─────  ─────────",
        "a & b  1,234,567",
        "c              –",
    ]
    assert '<td class="n good">1,234,567</td>' in table.html()
    assert "a &amp; b" in table.html()


@pytest.mark.parametrize(
    ("value", "text"), [(3, "3"), (1000003, "1,000,003"), (0.12345, "0.123"), (12345.6, "12,346"), (100.0, "100")]
)
def test_number(value: float, text: str) -> None:
    assert number(value) == text


def test_source_by_file_and_function() -> None:
    whole = lk.source("bpf/drop_all.c")
    assert str(whole).startswith("   1  // SPDX")
    only = lk.source("drop_all.c", function="drop_all")
    assert only.text.startswith("int drop_all")
    assert only.text.endswith("}")
    assert only.first == whole.lines.index("int drop_all(struct xdp_md *ctx)") + 1


def test_a_listing_is_a_path() -> None:
    listing = lk.source("bpf/drop_all.c")
    assert Path(listing).read_text() == listing.text


def test_source_is_escaped_and_keeps_its_lines() -> None:
    html = lk.source(text='/* a <b>\n   & c */\n#include <uapi/linux/bpf.h>\nint x;\t"s" // t\n')._repr_html_()
    assert "<b>" not in html
    body = html.split("<pre", 1)[1]
    assert body.count("\n") == 4
    assert "&lt;uapi/linux/bpf.h&gt;" in body


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"path": "bpf/no.c"}, "no file"),
        ({}, "either a path or text"),
        ({"text": "int x;", "function": "f"}, "no function 'f'"),
    ],
)
def test_source_that_is_not_there(arguments: dict[str, str], said: str) -> None:
    with pytest.raises(LessonError, match=said):
        lk.source(**arguments)


def test_scaled_is_a_prime_not_smaller(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAB_SCALE", "1")
    assert scaled(1_000_003) == 1_000_003
    assert scaled(1_000_000) == 1_000_003
    monkeypatch.setenv("LAB_SCALE", "0.01")
    assert scaled(1_000_003) == 10_007
    assert runs_scaled(5) == 2
    monkeypatch.setenv("LAB_SCALE", "much")
    assert scaled(5) == 101


def test_race_table_has_both_sources() -> None:
    made = Race(
        "Where",
        7,
        (Lane("native XDP", (4.0, 5.0, 9.0), Ledger([]), 9.7), Lane("TC", (1.0, 2.0, 1.5), Ledger([]))),
        "2016",
        ("A note.",),
    )
    assert made.mpps == {"native XDP": 5.0, "TC": 1.5}
    assert made.ratio("native XDP", "TC") == pytest.approx(10 / 3)
    text = str(made)
    assert "30 %" in text
    assert "9.7" in text
    assert "A note." in text
    assert "97" not in made._repr_html_().split("<desc")[0]
    with pytest.raises(LessonError, match="it has native XDP, TC"):
        made["XDP"]


def test_hints_climb_and_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("labkit.lesson.practice._hints_given", {})
    ladder = lesson.exercise("low-ttl").hints
    given = [lk.hint("low-ttl").text for _ in range(len(ladder) + 2)]
    assert given == [*ladder, ladder[-1], ladder[-1]]
    assert "last one" in str(lk.hint("low-ttl"))


def test_exercises_are_complete() -> None:
    for each in lesson.exercises():
        assert each.stub_file.is_file()
        assert each.hints
        assert each.statement
        python = (f"def {each.function}(", f"class {each.function}(")
        wanted = (f"int {each.function}(struct xdp_md *ctx)",) if each.language == "C" else python
        assert any(words in lesson.stub(each.id) for words in wanted)


def test_an_unknown_exercise_names_the_others() -> None:
    with pytest.raises(LessonError, match="drop-udp-port"):
        lk.check("no-such")
