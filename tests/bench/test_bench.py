"""Every benchmark runs, small, and gives the agreed shape. How fast things are is for `labkit bench` to say."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from labkit.bench import (
    BENCHMARKS,
    BenchResult,
    compilation,
    cpumap,
    drop,
    editor,
    generator,
    hints,
    ledger,
    observe,
    panel,
    redirect,
    redirect_cost,
    ring_model,
    sandbox,
    skip_bpf,
    swap,
    topology,
    xsk,
)
from labkit.bench.topology import _script
from labkit.cli import main
from labkit.models import PUBLISHED
from labkit.topology import Topology

pytest.importorskip("numpy")  # starts a worker thread when first imported: no leak of a test


def quiet(_: str) -> None:
    pass


def check(result: BenchResult, unit: str, *baselines: str) -> dict[str, Any]:
    found = json.loads(json.dumps(result.as_dict()))
    assert found["value"] > 0
    assert found["unit"] == unit
    assert found["runs"] == 1
    assert set(baselines) <= set(found["baseline"])
    assert found["baseline"].keys() == found["ratio"].keys()
    for name, value in found["baseline"].items():
        ratio = found["value"] / value if unit == "Mpps" else value / found["value"]
        assert found["ratio"][name] == pytest.approx(ratio, rel=0.01)  # of one run: no median to part them
    assert str(result).startswith(f"{result.value:,.0f}" if result.value >= 100 else f"{result.value:.3g}")
    return found


def test_generator() -> None:
    result = generator.run(1, quiet, packets=50_021, socket_packets=1009, scapy_packets=53)
    found = check(result, "Mpps", "af_packet_loop", "scapy_sendp_list")
    assert found["ratio"]["scapy_sendp_list"] > 1


def test_panel() -> None:
    found = check(panel.run(1, quiet, seconds=0.3), "Mpps", "no_panel")
    assert 0 < found["also"]["cpu_share"] < 1


def test_editor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDP_LAB_PROGRESS", str(tmp_path / "progress.json"))
    found = check(editor.run(1, quiet, most=2), "ms", "compile_alone")
    assert 0 < found["also"]["swap_ms"] <= found["also"]["slowest_ms"]
    assert found["also"]["programs"] == 2


def test_drop() -> None:
    check(drop.run(1, quiet, packets=50_021), "Mpps", "generic", "native_without_reading")


def test_xsk() -> None:
    found = check(xsk.run(1, quiet, packets=20_011), "Mpps", "af_packet")
    assert 0 < found["also"]["share_of_what_was_redirected"] <= 1
    assert all(found["also"][f"{what}_af_packet"] > 0 < found["also"][what] for what in ("forward", "send"))


@pytest.mark.leaks("the compiler's child is a new one afterwards")
def test_compile() -> None:
    before = os.environ.get("XDG_CACHE_HOME")
    found = check(compilation.run(1, quiet), "ms")
    assert found["also"]["cached_ms"] < found["value"]
    assert found["also"]["with_start_of_compiler_ms"] > 0
    assert os.environ.get("XDG_CACHE_HOME") == before
    assert "clang_command" in found["baseline"] or "no clang" in found["notes"][0]


def test_swap() -> None:
    check(swap.run(1, quiet, swaps=3), "ms", "close_and_attach")


def test_ledger() -> None:
    check(ledger.run(1, quiet, readings=3), "ms")


def test_topology_leaves_no_names() -> None:
    names = Path("/run/netns")
    before = sorted(names.iterdir()) if names.exists() else []
    found = check(topology.run(1, quiet, hosts=5), "ms", "ip_commands", "ip_batches")
    assert found["ratio"]["ip_commands"] > 1
    assert (sorted(names.iterdir()) if names.exists() else []) == before


def test_the_commands_make_what_the_lab_makes() -> None:
    chain = Topology.chain(4)
    lines = _script(chain, batches=False).splitlines()
    assert sum("netns add" in line for line in lines) == 4
    assert sum("type veth" in line for line in lines) == 3
    assert sum("address add" in line for line in lines) == 6
    assert sum("nud permanent" in line for line in lines) == 6
    assert sum("route add" in line for line in lines) == len(chain.routes)
    assert sum("disable_ipv6" in line for line in lines) == 4
    assert sum("ip_forward" in line for line in lines) == 2


def test_redirect() -> None:
    check(redirect.run(1, quiet, packets=50_021), "Mpps", "by_ifindex", "generic_by_devmap", "kernel_ip_forward")


def test_redirect_cost() -> None:
    found = check(
        redirect_cost.run(1, quiet, packets=503), "ns", "dropped_at_once", "by_ifindex", "taken_at_the_way_out"
    )
    also = found["also"]
    assert also["saved_in_2020_ns"] == pytest.approx(3.408, abs=0.001)
    for step in ("step_one", "step_two", "queue", "other_end", "most_saved"):
        assert also[f"{step}_low_ns"] <= also[f"{step}_ns"] <= also[f"{step}_high_ns"]
    assert len(also) == 16


def test_skip_bpf() -> None:
    baselines = ("dropped_at_once", "asked_and_dropped", "redirected_to_nobody", "parsing")
    also = check(skip_bpf.run(1, quiet, packets=503), "ns", *baselines)["also"]
    assert also["saved_in_2019_copy_ns"] == pytest.approx(14.902, abs=0.001)
    for name in ("saved_at_least", "saved_at_most", "parsing_more", "counting_more", "call_without_slot_more"):
        assert also[f"{name}_low_ns"] <= also[f"{name}_ns"] <= also[f"{name}_high_ns"]
    assert 0 < also["slots"] <= 48


def test_ring_model() -> None:
    found = ring_model.run(1, quiet)
    assert found.baseline.keys() == found.ratio.keys() <= {each.name for each in PUBLISHED}
    for each in PUBLISHED:
        assert found.also[f"{each.name}_published"] == each.mpps
        assert found.also[f"{each.name}_ratio"] == pytest.approx(1, abs=0.05)
    assert found.also["simulation_ms"] > 0


def test_cpumap() -> None:
    found = check(cpumap.run(1, quiet, packets=4_001), "Mpps", "same_cpu", "no_cpumap")
    assert found["baseline"]["no_cpumap"] > found["also"]["with_work_no_cpumap"] > 0
    assert {"with_work_other_cpu", "with_work_same_cpu", "with_work_all_cpus"} <= set(found["also"])


def test_cpumap_on_one_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("labkit.lesson.workshop.usable_cpus", lambda: (0,))
    found = check(cpumap.run(1, quiet, packets=1_009), "Mpps", "same_cpu", "no_cpumap")
    assert any("one CPU only" in note for note in found["notes"])


def test_observe() -> None:
    observers = ("program_per_bulk", "program_per_packet", "line_per_packet")
    check(observe.run(1, quiet, packets=50_021), "Mpps", *observers)


def test_hints() -> None:
    found = check(hints.run(1, quiet, packets=1_009), "Mpps", "without_metadata")
    also = found["also"]
    assert also["drop_mpps"] > 0
    assert also["gro_with"] > 0
    assert 0 <= also["threshold_given_bytes"] <= 65_536
    assert len([name for name in also if name.endswith(("_with", "_without"))]) == 6


def test_sandbox() -> None:
    found = check(sandbox.run(1, quiet, packets=50_021), "Mpps", "as_root")
    assert [name for name in found["also"] if name.startswith("ms to open a sandbox")]


def test_the_command_prints_one_object(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "swap", "ledger", "--runs", "1", "--json"]) == 0
    out, err = capsys.readouterr()
    found = json.loads(out)
    assert list(found) == ["swap", "ledger"]
    assert set(found["swap"]) >= {"value", "unit", "baseline", "ratio", "runs"}
    assert "run 1 of 1" in err
    assert main(["bench", "ledger", "--runs", "1"]) == 0
    assert capsys.readouterr().out.startswith("ledger: ")


def test_every_benchmark_named_by_the_command_is_here() -> None:
    names = {
        "generator",
        "drop",
        "editor",
        "panel",
        "compile",
        "swap",
        "topology",
        "ledger",
        "redirect",
        "redirect-cost",
        "ring-model",
        "cpumap",
        "hints",
        "observe",
        "sandbox",
        "skip-bpf",
        "xsk",
    }
    assert set(BENCHMARKS) == names
