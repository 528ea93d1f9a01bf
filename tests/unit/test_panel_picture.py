"""The still picture of a saved notebook: whole, safe, and with a line on how to wake it."""

from html.parser import HTMLParser
from typing import Any
from xml.etree import ElementTree

import pytest

from labkit.topology import Topology
from labkit.widgets.frame import describe_topology
from labkit.widgets.picture import still_picture

FRAME: dict[str, Any] = {
    "programs": [{"host": "server", "interface": "eth0", "name": "drop_all", "mode": "native", "id": 412}],
    "ledger": {
        "unaccounted": 0,
        "rows": [
            {
                "name": "sent",
                "where": "client eth0",
                "packets": 1000003,
                "share": 1.0,
                "role": "muted",
            },
            {
                "name": "XDP_DROP",
                "where": "server eth0",
                "packets": 1000003,
                "share": 1.0,
                "role": "drop",
            },
            {"name": "in flight", "where": "ring", "packets": 0, "share": None, "role": "muted"},
        ],
    },
}


class Words(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.words: list[str] = []
        self.tags: set[str] = set()

    def handle_starttag(self, tag: str, _: Any) -> None:
        self.tags.add(tag)

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def read(html: str) -> Words:
    ElementTree.fromstring(html)  # every tag closed, every attribute quoted
    words = Words()
    words.feed(html)
    return words


def test_it_says_what_the_panel_said() -> None:
    text = " ".join(read(still_picture(describe_topology(Topology.pair(), "drop"), FRAME)).words)
    for word in (
        "client",
        "10.0.1.1",
        "drop_all, native #412",
        "1,000,003",
        "unaccounted ✓",
        "run this notebook's cells",
    ):
        assert word in text


@pytest.mark.parametrize("topology", [Topology.router(), Topology.chain(7), Topology.fanout(9), Topology(("alone",))])
def test_every_shape_is_drawn_with_every_host(topology: Topology) -> None:
    text = " ".join(read(still_picture(describe_topology(topology, "lab"), {})).words)
    assert all(host in text for host in topology.hosts)


def test_a_missing_packet_is_shown() -> None:
    frame = {**FRAME, "ledger": {"rows": [], "unaccounted": 17}}
    assert "unaccounted ✗" in still_picture(describe_topology(Topology.pair(), "drop"), frame)


def test_names_are_text_and_never_markup() -> None:
    evil = "<script>alert(1)</script>"
    topology = {
        "name": evil,
        "title": evil,
        "hosts": [{"name": evil, "address": evil}],
        "links": [],
    }
    frame = {
        "programs": [{"host": evil, "name": evil, "mode": evil, "id": 1}],
        "ledger": {"rows": [], "unaccounted": 0},
    }
    assert "script" not in read(still_picture(topology, frame)).tags


def test_a_share_is_never_rounded_to_nothing_or_to_all() -> None:
    shares = (1.0, 0.99999, 0.5, 0.00001, 0.0)
    rows = [{"name": "x", "where": "y", "packets": 1, "share": share, "role": "muted"} for share in shares]
    text = " ".join(read(still_picture(describe_topology(Topology.pair(), "drop"), {"ledger": {"rows": rows}})).words)
    for words in ("100 %", "> 99.9 %", "50.0 %", "< 0.1 %", " 0 %"):
        assert words in text
