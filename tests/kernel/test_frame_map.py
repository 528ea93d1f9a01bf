"""The frame in its buffer: what bpf/adjust.c found is what the kernel does, and the widget shows it."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

import labkit as lk
from labkit import lesson
from labkit.errors import AttachError, LabError, StateError
from labkit.observe.adjusting import SENDERS, Adjusted, Adjuster, Finding, steps_of
from labkit.widgets import FrameMap

LABKIT = Path(sys.prefix) / "bin" / "labkit"
BPF = Path(__file__).resolve().parents[2] / "bpf"
WAYS = [(mode, sender) for mode in ("native", "generic") for sender in SENDERS]
FRAMES = 7  # prime


@pytest.fixture
def adjuster(lab: lk.Lab) -> Iterator[Adjuster]:
    with Adjuster(lab) as made:
        yield made


def run(
    adjuster: Adjuster, steps: Sequence[Any], mode: Any = "native", sender: str = "socket", frame: bytes | None = None
) -> Adjusted:
    client, server = adjuster.lab["client"], adjuster.lab["server"]
    sent = lk.udp(client, server) if frame is None else frame
    return adjuster.run(sent, steps_of(steps), mode=mode, interface=server["eth0"], sender=sender)


def codes(found: Adjusted) -> list[int]:
    return [each.code for each in found.findings[1:]]


@pytest.mark.parametrize(("mode", "sender"), WAYS)
def test_every_end_goes_where_it_was_sent(adjuster: Adjuster, mode: str, sender: str) -> None:
    sent = lk.udp(adjuster.lab["client"], adjuster.lab["server"], size=101)
    steps = [("meta", -8), "write", ("head", -4), ("head", 18), ("tail", -10), ("tail", 3), ("meta", 4)]
    found = run(adjuster, steps, mode, sender, sent)
    assert codes(found) == [0] * 7
    came, meta, wrote, grown, cut, shrunk, longer, less = found.findings
    assert came.frame == sent
    assert [each.frame_bytes for each in found.findings] == [101, 101, 101, 105, 87, 77, 80, 80]
    assert [each.meta_bytes for each in found.findings] == [0, 8, 8, 8, 8, 8, 8, 4]
    assert {each.end for each in found.findings} == {came.end}, "the buffer itself stays as it is"
    written = bytes(range(0xA0, 0xA8))
    assert meta.metadata == came.memory[came.data - 8 : came.data], "nothing clears it"
    assert wrote.metadata == grown.metadata == cut.metadata == written
    assert less.metadata == written[4:]
    assert grown.frame == written[4:] + sent, "the metadata are copied along; what lay there becomes the frame's"
    assert cut.frame == sent[14:]
    assert shrunk.frame == sent[14:-10]
    assert longer.frame == sent[14:-10] + bytes(3)


@pytest.mark.parametrize(("mode", "sender"), WAYS)
def test_the_room_that_was_tried_is_all_there_is(adjuster: Adjuster, mode: str, sender: str) -> None:
    came = run(adjuster, [], mode, sender).findings[0]
    left, right = came.left_bytes, came.right_bytes
    assert left > 100
    found = run(adjuster, [("head", -left), ("head", -1), ("head", left), ("tail", right), ("tail", 1)], mode, sender)
    assert codes(found) == [0, -errno.EINVAL, 0, 0, -errno.EINVAL]
    assert found.findings[-1].right_bytes == 0
    most = left // 4 * 4
    found = run(adjuster, [("meta", -min(most, 252)), ("head", -(left - most))], mode, sender)
    assert codes(found) == [0, 0]
    assert found.findings[-1].data_meta == max(0, most - 252)


@pytest.mark.parametrize("mode", ["native", "generic"])
def test_refusals_and_their_words(adjuster: Adjuster, mode: str) -> None:
    frame = lk.udp(adjuster.lab["client"], adjuster.lab["server"], size=62)
    steps = [
        ("meta", -1),
        ("meta", -3),
        ("meta", -4),
        ("meta", -248),
        ("meta", 8),
        ("head", 49),
        ("tail", -49),
        ("head", 48),
    ]
    found = run(adjuster, steps, mode, frame=frame)
    assert codes(found) == [-13, -13, 0, -22, -22, -22, -22, 0]
    picture = lesson.frame_map(adjuster.lab, frame, steps, mode)
    said = [str(row[2]) for row in picture.table.rows]
    assert said[1].startswith("refused with −13 (EACCES): metadata come in multiples of 4 bytes")
    assert f"headroom is {found.findings[3].data_meta} bytes" in said[4]
    assert "data_meta can't lie behind data" in said[5]
    assert "13 would be left" in said[6]
    assert "13 would be left" in said[7]
    assert picture.svg.count("✗") == 6
    assert all(words.split(": ")[0] in picture.svg for words in said[1:])


def test_every_frame_is_accounted_for(lab: lk.Lab, adjuster: Adjuster) -> None:
    before = lab["server"]["eth0"].statistics()["rx_packets"]
    for _ in range(FRAMES):
        run(adjuster, [("meta", -8), ("head", 2), ("tail", -3)])
    ledger = lab.ledger()
    assert (ledger.sent, ledger.losses, ledger.unaccounted) == (FRAMES, {"XDP_DROP": FRAMES}, 0)
    assert lab["server"]["eth0"].statistics()["rx_packets"] - before == FRAMES


def test_a_long_frame_is_known_in_part(lab: lk.Lab) -> None:
    client, server = lab["client"], lab["server"]
    for end in (client["eth0"], server["eth0"]):
        end.set_mtu(3000)
    picture = lesson.frame_map(lab, lk.udp(client, server, size=3001), [("tail", -1000)])
    came, cut = picture.findings
    assert (came.frame_bytes, cut.frame_bytes) == (3001, 2001)
    assert len(came.memory) == 2048 < came.data_end
    assert "only the first 2,048 bytes" in str(picture)


def test_other_frames_pass(lab: lk.Lab, adjuster: Adjuster) -> None:
    client, server = lab["client"], lab["server"]
    run(adjuster, [], frame=lk.udp(client, server, size=64))
    with adjuster._program.attach(server["eth0"]), lk.UdpSink(server) as sink:
        for size in (64, 65):  # as long as the one that was taken, and not
            assert lk.send_udp(client, server, FRAMES, size=size).sent == FRAMES
        sink.wait(2 * FRAMES)
        ledger = lab.ledger()
    assert (ledger.sent, ledger.delivered, ledger.unaccounted) == (2 * FRAMES + 1, 2 * FRAMES, 0)
    assert (adjuster._program.verdicts() or {})["XDP_PASS"] == 2 * FRAMES


def test_a_program_that_is_there_comes_back(lab: lk.Lab, adjuster: Adjuster) -> None:
    client, server = lab["client"], lab["server"]
    own = lab.load(lk.compile(path=BPF / "drop_all.c"))
    link = own.attach(server["eth0"])
    assert codes(run(adjuster, [("meta", -4)])) == [0]
    assert server["eth0"].xdp().program_id == own.id
    assert link.program is own
    lk.send_frames(client["eth0"], lk.udp(client, server), FRAMES)
    ledger = lab.ledger()
    assert (own.verdicts() or {})["XDP_DROP"] == FRAMES
    assert (ledger.sent, ledger.unaccounted) == (FRAMES + 1, 0)
    with pytest.raises(AttachError, match="in native mode") as caught:
        run(adjuster, [], "generic")
    assert 'mode="native"' in caught.value.remedy


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"steps": "meta"}, "Step 1"),
        ({"steps": [("meta", -8), ("up", 1)]}, "Step 2"),
        ({"steps": [("meta", "8")]}, "move by '8'"),
        ({"steps": [("head", 1)] * 9}, "too many"),
        ({"mode": "offload"}, "mode 'offload'"),
        ({"interface": "eth0"}, "'eth0' is no interface"),
        ({"frame": b"\0" * 13}, "13 bytes"),
        ({"frame": "a frame"}, "'a frame'"),
        ({"sender": "pigeon"}, "'pigeon'"),
    ],
)
def test_what_cannot_be_is_named(lab: lk.Lab, changes: dict[str, Any], word: str) -> None:
    given = {"frame": lk.udp(lab["client"], lab["server"]), **changes}
    with pytest.raises(LabError) as caught:
        lesson.frame_map(lab, **given)
    assert word in caught.value.message
    assert caught.value.remedy


def test_not_while_something_else_sends(lab: lk.Lab, adjuster: Adjuster) -> None:
    traffic = lk.Generator(lab["client"]["eth0"], lk.udp(lab["client"], lab["server"]), rate_pps=1000).start()
    try:
        with pytest.raises(StateError, match="Something else sends"):
            run(adjuster, [])
    finally:
        traffic.stop()


def test_the_picture_says_the_same_as_its_table(lab: lk.Lab) -> None:
    frame = lk.vlan(lk.tcp(lab["client"], lab["server"]), 7)
    picture = lesson.frame_map(lab, frame, [("meta", -8), "write", ("head", -4)])
    assert isinstance(picture, lesson.Picture)
    last = picture.findings[-1]
    assert picture.table.rows[-1][3:7] == (last.data_meta, 8, len(frame) + 4, last.right_bytes)
    assert "a0 a1 a2 a3 a4 a5 a6 a7" in str(picture)
    for words in ("data_hard_start", "data_meta", "data_end", "metadata 8 B", "Ethernet 14 B", "VLAN", "IPv4 20 B"):
        assert words in picture.svg
    assert "VLAN tag" in {row[0] for row in picture.fields.rows}
    page = picture._repr_html_()
    assert "a number between two zigzag lines counts bytes" in page.lower()
    assert "struct xdp_frame" in page


SCRIPT = """
import json, labkit as lk
with lk.Lab(lk.Topology.pair(), name="map") as lab:
    shown = lk.lesson.frame_map(lab, lk.udp(lab["client"], lab["server"]), [("meta", -8), "write", ("head", -4)])
    print(json.dumps([[f.code, f.meta_bytes, f.frame_bytes, f.metadata.hex()] for f in shown.findings]))
"""


def test_in_a_sandbox_where_tracing_is_withheld(tmp_path: Path) -> None:
    found = subprocess.run(
        [LABKIT, "sandbox", "--without-tracing", "--", sys.executable, "-c", SCRIPT],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "XDP_LAB_HOME": str(tmp_path)},
    )
    assert found.returncode == 0, found.stderr
    written = "a0a1a2a3a4a5a6a7"
    came, meta, *later = json.loads(found.stdout)
    assert came[:3] == [0, 0, 64]
    assert meta[:3] == [0, 8, 64]
    assert later == [[0, 8, 64, written], [0, 8, 68, written]]


@pytest.fixture
def shown(lab: lk.Lab) -> Iterator[FrameMap]:
    widget = FrameMap(lab)
    yield widget
    widget.close()


def say(widget: FrameMap, what: str, **values: Any) -> None:
    """What the browser says."""
    widget._heard(widget, {"type": what, **values}, [])


def test_the_widget_tries_and_takes_back(lab: lk.Lab, shown: FrameMap) -> None:
    assert (shown.state["steps"], shown.state["error"]) == (0, "")
    say(shown, "try", kind="meta", bytes=-8)
    say(shown, "try", kind="write", bytes=0)
    say(shown, "try", kind="meta", bytes=-3)
    assert shown.state["said"].startswith("Step 3: refused with −13")
    assert [strip["number"] for strip in shown.drawing["strips"]] == [0, 1, 2], "a refusal has no strip"
    strip = shown.drawing["strips"][-1]
    assert strip["memory"][2 * strip["data_meta"] : 2 * strip["data"]] == "a0a1a2a3a4a5a6a7"
    say(shown, "undo")
    say(shown, "choose", id="frame", value="VLAN")
    assert (shown.state["steps"], shown.state["chosen"]["frame"]) == (2, "VLAN")
    assert "VLAN tag" in {field[0] for field in shown.drawing["fields"]}
    say(shown, "choose", id="mode", value="generic")
    say(shown, "choose", id="sender", value="generator")
    assert (shown.found.mode, shown.found.sender) == ("generic", "generator")
    say(shown, "reset")
    assert len(shown.table["rows"]) == 1
    ledger = lab.ledger()
    assert (ledger.sent, ledger.delivered, ledger.unaccounted) == (9, 0, 0), "one frame a try"
    assert not shown.errors


def test_the_widget_shows_what_goes_wrong(lab: lk.Lab, shown: FrameMap) -> None:
    for what, values, words in (
        ("try", {"kind": "meta", "bytes": "many"}, "can't move by 'many' bytes"),
        ("try", {"kind": None}, "can't be (None, None)"),
        ("choose", {"id": "mode", "value": "offload"}, "mode can't be 'offload'"),
        ("choose", {"id": "colour", "value": "red"}, "colour can't be 'red'"),
        ("width", {"width": "wide"}, "ValueError"),
    ):
        turn = shown.state["turn"]
        say(shown, what, **values)
        assert words in shown.state["error"]
        assert shown.state["turn"] > turn, "every message has an answer"
    assert len(shown.errors) == 5
    for _ in range(9):
        say(shown, "try", kind="meta", bytes=-4)
    assert "8 steps are the most" in shown.state["error"]
    say(shown, "undo")
    assert shown.state["error"] == ""
    shown._heard(shown, "nonsense", [])


def test_the_widget_ends_with_its_lab_and_when_it_is_shown_again() -> None:
    with lk.Lab(lk.Topology.pair(), name="test") as lab:
        first = FrameMap(lab)
        second = FrameMap(lab)
        assert "shown again" in first.state["ended"]
        assert second.state["ended"] == ""
    assert second.state["ended"].startswith("The lab is closed.")
    say(second, "try", kind="meta", bytes=-8)
    assert second.state["steps"] == 0
    assert "A still picture" in second._repr_mimebundle_()[0]["text/html"]
    assert "data_meta = data" in second._picture()
    with pytest.raises(StateError, match="lab is closed"):
        second.reset()
    with pytest.raises(StateError):
        FrameMap(lab)
    first.close()
    second.close()


def test_findings_add_up() -> None:
    finding = Finding(None, 0, 8, 64, 216, 100, bytes(280))
    assert (finding.data_meta, finding.data, finding.data_end, finding.end) == (208, 216, 280, 380)
