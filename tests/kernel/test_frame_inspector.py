"""The frame inspector without a browser: what comes is replayed, what the page says is done or shown as wrong, nothing stays."""

from __future__ import annotations

import gc
import os
import threading
from pathlib import Path

import pytest
from patience import until

import labkit as lk
from labkit.widgets import FrameInspector

ROOT = Path(__file__).resolve().parents[2]
N = 7  # a prime


@pytest.fixture
def dropping(lab: lk.Lab) -> lk.Program:
    """A program at the server that drops all IPv4 but ICMP."""
    program = lab.load(lk.compile(path=ROOT / "bpf/drop_by_protocol.c"))
    program.attach(lab["server"]["eth0"])
    program.maps["keep_protocol"][1] = 1
    return program


def frames_of(lab: lk.Lab) -> list[bytes]:
    client, server = lab["client"], lab["server"]
    return [lk.udp(client, server), lk.icmp(client, server), lk.arp(client, server)]


def replayed(view: FrameInspector, count: int) -> None:
    """As a browser would answer, until so many frames are there with their verdicts."""

    def done() -> bool:
        view._heard(view, {"type": "hello"}, [])
        return len(view.rows) == count and all(row.trace is not None or row.failed for row in list(view.rows))

    until(done, f"{count} frames with their verdicts")
    view._heard(view, {"type": "hello"}, [])
    until(
        lambda: (
            [each["verdict"] for each in view.state["frames"]].count("…") == 0 and len(view.state["frames"]) == count
        )
    )


def verdicts(view: FrameInspector) -> list[str]:
    return [each["verdict"] for each in view.state["frames"]]


def test_what_is_dropped_is_seen_at_the_sender_and_counted_once(lab: lk.Lab, dropping: lk.Program) -> None:
    view = FrameInspector(lab, interval_s=0.02)
    lk.send_frames(lab["client"]["eth0"], frames_of(lab))
    replayed(view, 3)
    assert verdicts(view) == ["XDP_DROP", "XDP_PASS", "XDP_PASS"]
    assert view.state["frames"][0]["summary"].startswith("UDP 10.0.1.1:")
    # Two counters: the program's own, and the driver's of received packets.
    until(lambda: sum(dropping.verdicts().values()) == 3)  # type: ignore[union-attr]
    assert lab["server"]["eth0"].statistics()["rx_packets"] == 3
    view.choose(1)
    assert view.detail["verdict"] == "XDP_DROP"
    assert view.detail["decided"] == [[23, 1]]
    decides = [line["text"] for line in view.detail["lines"] if line["mark"] == "decides"]
    assert decides == ["\treturn verdict(ctx, *keep ? XDP_PASS : XDP_DROP);"]
    assert sum(dropping.verdicts().values()) == 3  # type: ignore[union-attr]
    assert not view.errors
    view.close()


def test_a_changed_byte_is_another_frame_with_another_verdict(lab: lk.Lab, dropping: lk.Program) -> None:
    view = FrameInspector(lab["server"]["eth0"], interval_s=0.02)
    lk.send_frames(lab["client"]["eth0"], frames_of(lab)[:1])
    replayed(view, 1)
    view._heard(view, {"type": "edit", "offset": 23, "hex": "01"}, [])
    assert verdicts(view) == ["XDP_DROP", "XDP_PASS"]
    assert (view.chosen, view.state["frames"][1]["time"]) == (2, "edited #1")
    assert view.rows[0].frame[:23] == view.rows[1].frame[:23]
    for wrong in (
        {"offset": 63, "hex": "0102"},
        {"offset": -1, "hex": "01"},
        {"offset": 1, "hex": "0"},
        {"offset": "x"},
    ):
        view._heard(view, {"type": "edit", **wrong}, [])
    assert len(view.rows) == 2
    assert len(view.errors) == 4
    assert view.state["error"]
    view.choose(1)
    dropping.maps["keep_protocol"][17] = 1
    view.replay()
    replayed(view, 2)
    assert verdicts(view) == ["XDP_PASS", "XDP_PASS"]
    view.close()


def test_given_frames_need_no_capture(lab: lk.Lab, dropping: lk.Program) -> None:
    view = FrameInspector(frames_of(lab), dropping, interval_s=0.02)
    replayed(view, 3)
    assert verdicts(view) == ["XDP_DROP", "XDP_PASS", "XDP_PASS"]
    assert "nothing is captured" in view.state["captures"]
    assert view.trace is not None
    assert "frames at server eth0: 3, live" in repr(view)
    view.close()


def test_a_flood_keeps_the_first_and_says_so(lab: lk.Lab, dropping: lk.Program) -> None:
    view = FrameInspector(lab, most=N, interval_s=0.02)
    lk.send_frames(lab["client"]["eth0"], frames_of(lab)[:1] * 101)
    replayed(view, N)
    until(lambda: view.state["full"])
    view.clear()
    assert (view.rows, view.chosen, view.state["frames"]) == ([], 0, [])
    lk.send_frames(lab["client"]["eth0"], frames_of(lab)[1:])
    replayed(view, 2)
    assert verdicts(view) == ["XDP_PASS", "XDP_PASS"]
    view.close()


def test_without_a_program_it_waits_for_one(lab: lk.Lab) -> None:
    view = FrameInspector(lab, interval_s=0.02)
    lk.send_frames(lab["client"]["eth0"], frames_of(lab)[:1])
    until(
        lambda: (
            view._heard(view, {"type": "hello"}, [])
            or [each["verdict"] for each in view.state["frames"]] == ["no program"]
        )
    )
    program = lab.load(lk.compile(path=ROOT / "bpf/drop_all.c"))
    program.attach(lab["server"]["eth0"])
    replayed(view, 1)
    assert verdicts(view) == ["XDP_DROP"]
    view.close()


def test_at_the_receiver_it_sees_what_passed(lab: lk.Lab, dropping: lk.Program) -> None:
    view = FrameInspector(lab, at="receiver", interval_s=0.02)
    lk.send_frames(lab["client"]["eth0"], frames_of(lab))
    replayed(view, 2)
    assert verdicts(view) == ["XDP_PASS", "XDP_PASS"]
    assert "never seen" in view.state["captures"]
    view.close()


def test_the_labs_end_is_its_end_and_what_was_seen_stays(dropping: lk.Program, lab: lk.Lab) -> None:
    view = FrameInspector(lab, interval_s=0.02)
    lk.send_frames(lab["client"]["eth0"], frames_of(lab))
    replayed(view, 3)
    lab.close()
    until(lambda: view.ended == "gone")
    assert "The lab is closed" in view.state["ended"]
    view._heard(view, {"type": "choose", "number": 2}, [])
    assert view.detail["number"] == 2
    assert view.detail["verdict"] == "XDP_PASS"
    for kind in ("edit", "replay", "clear", "hello", "ack"):
        view._heard(view, {"type": kind}, [])
    assert "XDP_DROP" in view._picture()
    with pytest.raises(lk.StateError):
        view.clear()
    view.close()
    view.close()


@pytest.mark.parametrize(
    "rubbish",
    [
        *(None, 7, "choose", [], {}, {"type": None}, {"type": "choose"}, {"type": "choose", "number": "1"}),
        *({"type": "choose", "number": 10**9}, {"type": "choose", "number": True}, {"type": "ack", "seq": "x"}),
        *({"type": "edit", "offset": 0, "hex": "zz"}, {"type": "edit", "offset": None}, {"type": "nothing"}),
    ],
)
def test_rubbish_from_the_page_is_shown_or_ignored(lab: lk.Lab, dropping: lk.Program, rubbish: object) -> None:
    view = FrameInspector(frames_of(lab)[:1], dropping, interval_s=0.02)
    view._heard(view, rubbish, [])
    view._heard(view, {"type": "choose", "number": 1}, [])
    assert view.detail["verdict"] == "XDP_DROP"
    assert view.state["error"] == ""
    view.close()


def test_what_can_not_be_meant_is_refused(lab: lk.Lab, dropping: lk.Program) -> None:
    at = lab["server"]["eth0"]
    for given in (None, 7, [], "eth0", [b"short"], [7], [bytes(64)] * 65):
        with pytest.raises(lk.LabError):
            FrameInspector(given, dropping)  # type: ignore[arg-type]
    for more in ({"most": 0}, {"most": 10**7}, {"at": "between"}, {"program": 3}):
        with pytest.raises(lk.LabError):
            FrameInspector(at, **more)  # type: ignore[arg-type]
    with pytest.raises(lk.LabError):
        FrameInspector([bytes(64)])
    assert not [each for each in threading.enumerate() if "capture" in each.name or "inspector" in each.name]


def test_a_program_that_can_not_be_replayed_is_told_in_its_row(lab: lk.Lab, dropping: lk.Program) -> None:
    view = FrameInspector(lab["server"]["eth0"], dropping, interval_s=0.02)
    dropping.close()
    lk.send_frames(lab["client"]["eth0"], frames_of(lab)[:1])
    replayed(view, 1)
    assert verdicts(view) == ["not replayed"]
    assert "closed" in view.detail["sentence"]
    view.close()


def test_a_cell_that_is_run_again_leaves_nothing(lab: lk.Lab, dropping: lk.Program) -> None:
    FrameInspector(lab, interval_s=0.02).close()
    gc.collect()
    threads, descriptors = threading.active_count(), len(os.listdir("/proc/self/fd"))
    views = [FrameInspector(lab, interval_s=0.02) for _ in range(50)]
    assert [view.ended for view in views[:-1]] == ["replaced"] * 49
    lk.send_frames(lab["client"]["eth0"], frames_of(lab))
    replayed(views[-1], 3)
    for view in views:
        view.close()
    gc.collect()
    until(lambda: threading.active_count() <= threads and len(os.listdir("/proc/self/fd")) <= descriptors)


def test_a_hidden_page_costs_nothing(lab: lk.Lab, dropping: lk.Program) -> None:
    view = FrameInspector(lab, interval_s=0.01)
    until(lambda: view._ticker.waiting, "nobody to answer")
    said: list[object] = []
    view.observe(lambda change: said.append(change["name"]), ["state", "detail"])
    lk.send_frames(lab["client"]["eth0"], frames_of(lab))
    until(lambda: view._capture is not None and len(view._capture.frames) == 3)
    assert said == []
    view._heard(view, {"type": "hello"}, [])
    replayed(view, 3)
    view.close()
