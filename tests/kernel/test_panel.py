"""LivePanel over a real lab: what it shows is what the kernel counted, and it ends when it should."""

from __future__ import annotations

import gc
import os
import random
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from ipywidgets.widgets.widget import _instances

from labkit.compile import compile_source
from labkit.errors import AttachError, StateError, TrafficError
from labkit.lab import Lab
from labkit.lesson import live_rates
from labkit.program.program import Program
from labkit.topology import Topology
from labkit.traffic.frames import udp
from labkit.traffic.generator import Generator, generate
from labkit.widgets import LivePanel

BPF = Path(__file__).resolve().parents[2] / "bpf"
PACKETS = 10_007


def until(condition: Callable[[], Any], seconds: float = 20.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)


def panel_threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("panel-")]


@pytest.fixture
def lab() -> Iterator[Lab]:
    with Lab(Topology.pair(), name="panel") as lab:
        yield lab
    assert panel_threads() == []


def load(lab: Lab, name: str) -> Program:
    return lab.load(compile_source(path=BPF / f"{name}.c"), name)


def say(panel: LivePanel, kind: str, **values: Any) -> None:
    """What the browser says."""
    panel._heard(panel, {"type": kind, **values}, [])


def row(panel: LivePanel, name: str) -> int:
    return sum(r["packets"] for r in panel.frame["ledger"]["rows"] if r["name"] == name)


def test_it_shows_what_the_kernel_counted(lab: Lab, capfd: pytest.CaptureFixture[str]) -> None:
    load(lab, "drop_all").attach(lab["server"]["eth0"])
    panel = LivePanel(lab)
    generate(lab["client"]["eth0"], udp(lab["client"], lab["server"]), PACKETS)
    until(lambda: panel.refresh() or row(panel, "dropped by the program") == PACKETS)
    assert row(panel, "sent") == PACKETS
    assert panel.frame["ledger"]["unaccounted"] == 0
    (program,) = panel.frame["programs"]
    assert (program["name"], program["mode"]) == ("drop_all", "native")
    assert program["verdicts"] == {"DROP": PACKETS}
    assert panel.frame["state"] == "stopped"
    assert not panel.errors
    assert capfd.readouterr() == ("", "")


def test_it_ticks_while_somebody_looks_and_not_otherwise(lab: Lab) -> None:
    panel = LivePanel(lab, interval_s=0.01)
    until(lambda: panel.frame["seq"] == 2)
    for more in range(4, 14, 2):
        say(panel, "hello")
        until(lambda seq=more: panel.frame["seq"] == seq)
    assert panel.ticker.waiting
    say(panel, "ack", seq=12)
    until(lambda: panel.frame["seq"] == 14)


def test_statistics_come_while_somebody_looks_at_them(lab: Lab) -> None:
    load(lab, "drop_all").attach(lab["server"]["eth0"])
    panel = LivePanel(lab)
    generate(lab["client"]["eth0"], udp(lab["client"], lab["server"]), PACKETS)
    panel.refresh()
    assert panel.frame["moved"] == []
    say(panel, "show", statistics=True)
    panel.refresh()
    counted = {(one["where"], one["name"]): one["by"] for one in panel.frame["moved"]}
    assert counted["client eth0", "tx_packets"] == PACKETS
    assert counted["server eth0", "rx_queue_0_xdp_drops"] == PACKETS
    assert all(counted.values())
    lab.reset()
    panel.refresh()
    assert panel.frame["moved"] == []
    say(panel, "show", statistics=False)
    generate(lab["client"]["eth0"], udp(lab["client"], lab["server"]), 101)
    panel.refresh()
    assert panel.frame["moved"] == []
    assert not panel.errors


def test_each_cpu_has_its_part_of_the_verdicts(lab: Lab) -> None:
    program = load(lab, "drop_all")
    program.attach(lab["server"]["eth0"])
    panel = LivePanel(lab)
    say(panel, "show", statistics=True)
    cpus = sorted(os.sched_getaffinity(0))
    first, second = cpus[0], cpus[-1]

    def send(packets: int, cpu: int) -> None:
        """From one CPU: a veth's NAPI runs on the CPU that sent."""
        os.sched_setaffinity(0, {cpu})
        try:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as out:
                for _ in range(packets):
                    out.sendto(b"x" * 18, (lab["server"].ip, 9))
        finally:
            os.sched_setaffinity(0, set(cpus))

    lab["client"].run(lambda: send(1_009, first))
    lab["client"].run(lambda: send(502, second))
    until(lambda: panel.refresh() or sum(one["packets"] for one in panel.frame["cpus"]) == 1_511)
    assert sum(program.verdicts_by_cpu()["XDP_DROP"]) == 1_511
    assert (
        sum(one["by"] for one in panel.frame["moved"] if one["name"].endswith("_xdp_drops")) == 1_511
    )  # the driver's count
    assert all(one["verdicts"] == {"DROP": one["packets"]} for one in panel.frame["cpus"])
    lab.reset()
    panel.refresh()
    assert panel.frame["cpus"] == []
    say(panel, "show", statistics=False)
    assert not panel.errors


def test_its_controls_work_the_lab(lab: Lab) -> None:
    programs = {"drop": load(lab, "drop_all"), "pass": load(lab, "pass")}
    panel = LivePanel(lab, programs)
    first_look = [c["id"] for c in panel.controls if not c.get("more")]
    assert first_look == ["program", "mode", "rate_pps", "size_bytes", "threads"]
    assert [c["id"] for c in panel.controls if c.get("more")] == ["kind", "flows", "tx_checksum", "tx_vlan", "rx_vlan"]
    say(panel, "control", id="program", value="drop")
    say(panel, "control", id="rate_pps", value=20_000)
    say(panel, "control", id="size_bytes", value=128)
    say(panel, "action", name="start")
    assert panel.frame["state"] == "running"
    assert panel.frame["hosts"]["client"] == ["generator, 1 thread", "128 B, 1 flow, at 20 kpps"]
    until(lambda: panel.refresh() or row(panel, "dropped by the program") > 1009)
    assert panel.frame["links"][0]["pps_ab"] > 0
    assert panel.frame["series"][0]["pps"] > 0
    say(panel, "control", id="threads", value=2)
    assert panel.frame["hosts"]["client"][0] == "generator, 2 threads"
    say(panel, "action", name="stop")
    assert panel.frame["state"] == "stopped"
    assert lab.ledger().unaccounted == 0
    say(panel, "action", name="reset")
    assert (panel.frame["state"], row(panel, "sent")) == ("idle", 0)
    assert lab.attached[0].program is programs["drop"]
    say(panel, "control", id="program", value="none")
    assert lab.attached == []
    assert not panel.errors


def test_a_swap_under_traffic_loses_nothing(lab: Lab) -> None:
    programs = {"drop": load(lab, "drop_all"), "pass": load(lab, "pass")}
    panel = LivePanel(lab, programs)
    panel.set(program="drop", rate_pps=50_000)
    link = lab.attached[0]
    panel.start()
    for label in ("pass", "drop") * 3:
        until(lambda: panel.refresh() or panel.frame["links"][0]["pps_ab"] > 0)
        panel.set(program=label)
        assert lab.attached == [link], "the same link, with another program"
    panel.stop()
    ledger = lab.ledger()
    assert ledger.unaccounted == 0
    assert ledger.losses["XDP_DROP"] + ledger.losses["NO_SOCKET"] == ledger.sent - ledger.delivered


def test_an_attached_program_is_offered_by_its_name(lab: Lab) -> None:
    program = load(lab, "drop_all")
    program.attach(lab["server"]["eth0"], mode="generic")
    panel = LivePanel(lab)
    choice, mode = panel.controls[:2]
    assert (choice["options"], choice["value"], mode["value"]) == (["drop_all", "none"], "drop_all", "generic")
    panel.set(program="none")
    panel.set(program="drop_all", mode="native")
    assert [(link.program, link.mode) for link in lab.attached] == [(program, "native")]


def test_what_goes_wrong_is_shown_and_kept(lab: Lab) -> None:
    panel = LivePanel(lab, {"gone": load(lab, "drop_all")})
    panel.controller.choice.programs["gone"].close()
    say(panel, "control", id="program", value="gone")
    assert isinstance(panel.errors[-1], StateError)
    assert panel.frame["error"] == {
        "text": "The program drop_all is closed.",
        "remedy": "Load it again: run the cell that calls lab.load(…).",
    }
    say(panel, "control", id="program", value="never heard of")
    assert isinstance(panel.errors[-1], AttachError)
    say(panel, "control", id="speed", value=7)
    say(panel, "control", id="threads", value=0)
    assert [type(error) for error in panel.errors][-2:] == [TrafficError, TrafficError]
    say(panel, "action", name="explode")
    assert isinstance(panel.errors[-1], KeyError)
    assert panel.frame["error"]["text"] == "KeyError: 'explode'"
    say(panel, "control", id="rate_pps", value=5000)
    assert panel.frame["error"] is None
    assert len(panel.errors) == 5
    with pytest.raises(TrafficError, match="threads can't be 1000"):
        panel.set(threads=1000)


def test_a_broken_tick_is_shown_once_and_mends_itself(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    panel = LivePanel(lab, interval_s=0.01)

    def broken() -> None:
        raise OSError(5, "broken counters")

    with monkeypatch.context() as patch:
        patch.setattr(lab, "sample", broken)
        for _ in range(3):
            until(lambda: panel.ticker.waiting)
            say(panel, "hello")
        until(lambda: panel.errors)
        assert "broken counters" in panel.frame["error"]["text"]
        until(lambda: panel.ticker.waiting)
        assert len(panel.errors) == 1
    say(panel, "hello")
    until(lambda: panel.frame["error"] is None)


def test_another_panel_of_the_lab_takes_over_with_the_traffic(lab: Lab) -> None:
    first = LivePanel(lab)
    first.set(rate_pps=20_000)
    first.start()
    second = LivePanel(lab)
    assert (first.ended, first.frame["state"]) == ("replaced", "replaced")
    assert panel_threads() == ["panel-panel"]
    assert second.frame["state"] == "running"
    assert second.controls[2]["value"] == 20_000
    say(first, "action", name="stop")
    assert second.controller.sending, "a replaced panel has nothing to say"
    assert first.comm is not None, "its picture stays on the page"
    third = LivePanel(lab)
    assert first.comm is None, "only one replaced panel is kept"
    third.close()
    assert not third.controller.sending
    assert panel_threads() == []
    third.close()


def test_panels_of_two_labs_live_side_by_side(lab: Lab) -> None:
    with Lab(Topology.router(), name="other") as other:
        panels = [LivePanel(lab), LivePanel(other)]
        assert [panel.ended for panel in panels] == [None, None]
        assert sorted(panel_threads()) == ["panel-other", "panel-panel"]
    assert [panel.ended for panel in panels] == [None, "closed"]


def test_the_end_of_the_lab_is_the_end_of_the_panel(lab: Lab) -> None:
    panel = LivePanel(lab)
    panel.start()
    lab.close()
    assert (panel.ended, panel.frame["state"]) == ("closed", "closed")
    assert panel_threads() == []
    assert repr(panel) == "<live panel of panel: closed>"
    say(panel, "action", name="start")
    assert not panel.errors
    assert panel.refresh() is None


def test_a_lab_made_again_gets_its_panel_again(lab: Lab) -> None:
    first = LivePanel(lab)
    with Lab(Topology.pair(), name="panel") as again:
        assert first.ended == "closed"
        second = LivePanel(again)
        assert second.frame["state"] == "idle"
        assert second.ended is None


def test_traffic_of_a_cell_is_shown_and_can_be_stopped(lab: Lab) -> None:
    panel = LivePanel(lab)
    source = Generator(lab["client"]["eth0"], udp(lab["client"], lab["server"]), rate_pps=10_000)
    source.start()
    panel.refresh()
    assert panel.frame["state"] == "running"
    assert panel.frame["hosts"]["client"][0] == "generator, 1 thread"
    panel.stop()
    assert not source.running
    assert panel.frame["state"] in ("stopped", "idle")


def test_a_reset_in_a_cell_starts_the_chart_anew(lab: Lab) -> None:
    panel = LivePanel(lab)
    epoch = panel.frame["epoch"]
    lab.reset()
    panel.refresh()
    assert panel.frame["epoch"] == epoch + 1


def held() -> tuple[int, int, int]:
    """Widgets (each with a comm), threads, descriptors of this process."""
    gc.collect()
    return len(_instances), threading.active_count(), len(os.listdir("/proc/self/fd"))


def test_a_cell_run_fifty_times_holds_no_more_than_one_run_twice(lab: Lab) -> None:
    counters = load(lab, "count_only").maps["packets_by_protocol"]

    def cell() -> None:
        LivePanel(lab)
        live_rates(lab, counters)

    cell()
    cell()
    before = held()
    for _ in range(48):
        cell()
    until(
        lambda: all(now <= then for now, then in zip(held(), before, strict=True))
    )  # a thread that has ended may hold a descriptor for a moment


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_controls_in_any_order_at_speed_lose_nothing(lab: Lab, seed: int) -> None:
    panel = LivePanel(lab, {"drop": load(lab, "drop_all"), "pass": load(lab, "pass")})
    choices: dict[str, tuple[Any, ...]] = {
        "program": ("drop", "pass", "none"),
        "mode": ("native", "generic"),
        "rate_pps": (1_000, 50_000, None),
        "size_bytes": (64, 1500),
        "threads": (1, 2),
    }
    luck = random.Random(seed)
    for _ in range(40):
        if luck.random() < 0.4:
            say(panel, "action", name=luck.choice(("start", "start", "stop", "reset")))
        else:
            id = luck.choice(list(choices))
            say(panel, "control", id=id, value=luck.choice(choices[id]))
    say(panel, "action", name="stop")
    assert lab.ledger(settle_s=3.0).unaccounted == 0
    assert not panel.errors
    assert panel.ended is None


def test_the_badge_agrees_with_the_ledger_over_changes_of_mode(lab: Lab) -> None:
    panel = LivePanel(lab, {"drop": load(lab, "drop_all"), "pass": load(lab, "pass")})
    near, frame = lab["client"]["eth0"], udp(lab["client"], lab["server"])
    panel.set(program="drop")
    generate(near, frame, 1_009)
    panel.reset()
    for mode in ("generic", "native", "generic"):
        panel.set(mode=mode)
        generate(near, frame, 2_003)
    until(lambda: panel.refresh() or row(panel, "dropped by the program") == 3 * 2_003)
    assert panel.frame["programs"][0]["verdicts"] == {"DROP": 3 * 2_003}


def test_a_change_of_mode_under_traffic_has_no_gap(lab: Lab) -> None:
    panel = LivePanel(lab, {"drop": load(lab, "drop_all")})
    panel.set(program="drop", rate_pps=200_000)
    panel.start()
    for mode in ("generic", "native") * 3:
        sent = row(panel, "sent")
        until(lambda before=sent: panel.refresh() or row(panel, "sent") > before)
        panel.set(mode=mode)
        assert panel.frame["state"] == "running"
    panel.stop()
    ledger = lab.ledger(settle_s=3.0)
    assert ledger.losses == {"XDP_DROP": ledger.sent}


def test_what_two_senders_lose_in_the_ring_has_a_name_and_a_place(lab: Lab) -> None:
    panel = LivePanel(lab, {"drop": load(lab, "drop_all")})
    panel.set(program="drop", mode="generic", threads=2)
    panel.start()
    until(lambda: panel.refresh() or row(panel, "receive ring full") > 0)
    panel.stop()
    assert panel.frame["losses"][0]["link"] == 0
    assert lab.ledger(settle_s=3.0).unaccounted == 0


@pytest.mark.parametrize("topology", [Topology.router(), Topology.chain(4), Topology.fanout(3)])
def test_every_shape_has_a_panel(topology: Topology) -> None:
    with Lab(topology, name="shape") as lab:
        panel = LivePanel(lab)
        panel.set(rate_pps=5_000)
        panel.start()
        until(lambda: panel.refresh() or panel.frame["links"][0]["pps_ab"] > 0)
        panel.stop()
        assert not panel.errors
        assert set(panel.frame["hosts"]) == set(topology.hosts)


def test_the_saved_view_has_a_still_picture(lab: Lab) -> None:
    panel = LivePanel(lab)
    bundle = panel._repr_mimebundle_()
    assert bundle is not None
    assert "application/vnd.jupyter.widget-view+json" in bundle[0]
    assert "a still picture" in bundle[0]["text/html"]


def test_a_lab_that_is_closed_has_no_panel(lab: Lab) -> None:
    lab.close()
    with pytest.raises(StateError, match="is closed"):
        LivePanel(lab)
