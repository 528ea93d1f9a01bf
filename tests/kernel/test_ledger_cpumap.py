"""The ledger of what goes to another CPU: its queue, the program in its slot, and on to the stack."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import labkit as lk
from labkit.uapi import AttachType

N = 10_007  # prime
MANY = 1_000_003  # prime
FEW = 1_009  # prime

SOURCE = """\
#include "common/verdict.h"

LAB_CPUMAP(cpus, 2);
LAB_DEVMAP(ports, 2);

int to_cpu(struct xdp_md *ctx) { return verdict(ctx, cpus.redirect_map(1, 0)); }
int to_cpu_or_pass(struct xdp_md *ctx) { return verdict(ctx, cpus.redirect_map(1, XDP_PASS)); }

/* For the slot. */
int there_pass(struct xdp_md *ctx) { return verdict(ctx, XDP_PASS); }
int there_drop(struct xdp_md *ctx) { return verdict(ctx, XDP_DROP); }
int there_abort(struct xdp_md *ctx) { return verdict(ctx, XDP_ABORTED); }
int there_tx(struct xdp_md *ctx) { return verdict(ctx, XDP_TX); }
int there_away(struct xdp_md *ctx) { return verdict(ctx, ports.redirect_map(0, 0)); }
int there_silent(struct xdp_md *ctx) { return XDP_DROP; }
"""

MODES = pytest.mark.parametrize("mode", ["native", "generic"])


@pytest.fixture(scope="module")
def spec() -> lk.ProgramSpec:
    return lk.compile(text=SOURCE)


@pytest.fixture
def router() -> Iterator[lk.Lab]:
    with lk.Lab(lk.Topology.router(), name="cpumap") as made:
        yield made


def exact(ledger: lk.Ledger) -> bool:
    return ledger.unaccounted == 0 and all(check.agrees for check in ledger.checks)


def spread(
    lab: lk.Lab, spec: lk.ProgramSpec, mode: lk.Mode, there: str | None = None, queue: int = 2048
) -> tuple[lk.Program, lk.Program | None]:
    """What the first link brings goes to CPU 1 of the host at its other end, and ``there`` meets it."""
    at = lab["server"] if len(lab.hosts) == 2 else lab["router"]
    slot = None if there is None else lab.load(spec, there, expected_attach_type=AttachType.XDP_CPUMAP)
    program = lab.load(spec, "to_cpu")
    program.maps["cpus"][1] = queue if slot is None else (queue, slot)
    program.attach(at["eth0"], mode=mode)
    return program, slot


def fill(lab: lk.Lab, packets: int = N, **how: int) -> None:
    near = lab["client"]["eth0"]
    assert lk.generate(near, lk.udp(lab["client"], near.peer), packets, **how).sent == packets


@MODES
def test_on_to_the_stack(lab: lk.Lab, spec: lk.ProgramSpec, mode: lk.Mode) -> None:
    program, _ = spread(lab, spec, mode)
    with lk.UdpSink(lab["server"]) as sink:
        fill(lab, FEW, rate_pps=20_000)
        ledger = lab.ledger()
        assert sink.received == ledger.delivered == FEW, ledger
    assert ledger.losses == {}
    assert exact(ledger), ledger
    counts = program.verdicts()
    assert counts is not None
    assert counts["XDP_REDIRECT"] == FEW


@MODES
def test_a_queue_that_is_full(lab: lk.Lab, spec: lk.ProgramSpec, mode: lk.Mode) -> None:
    spread(lab, spec, mode, queue=8)
    fill(lab, MANY if mode == "native" else 100_003)
    ledger = lab.ledger(settle_s=10)
    full = ledger.losses.get("cpumap queue full" if mode == "native" else "redirect ENOSPC", 0)
    stack = ledger.losses["NO_SOCKET"]
    assert full > 0, ledger
    assert full + stack + ledger.losses.get("ring full", 0) == (MANY if mode == "native" else 100_003)
    assert ledger.in_flight == 0
    assert exact(ledger), ledger


THERE = [
    ("there_pass", "XDP_PASS", "NO_SOCKET"),
    ("there_drop", "XDP_DROP", "cpumap XDP_DROP"),
    ("there_abort", "XDP_ABORTED", "cpumap XDP_ABORTED"),
    ("there_tx", "XDP_TX", "cpumap unknown verdict"),
    ("there_silent", "", "cpumap drop"),
]


@MODES
@pytest.mark.parametrize(("function", "verdict", "name"), THERE)
def test_a_program_in_the_slot(
    lab: lk.Lab, spec: lk.ProgramSpec, function: str, verdict: str, name: str, mode: lk.Mode
) -> None:
    _, there = spread(lab, spec, mode, function, queue=16_384)
    fill(lab)
    ledger = lab.ledger()
    assert ledger.losses == {name: N}, ledger
    assert exact(ledger), ledger
    counts = there.verdicts() if there is not None else None
    assert (counts is None) == (function == "there_silent")
    if counts is not None:
        assert counts[verdict] == N
    if name.startswith("cpumap"):
        assert {row.where for row in ledger.rows if row.kind == "loss"} == {"server CPU 1"}


@MODES
@pytest.mark.parametrize("target", ["up", "nothing", "down", "empty"])
def test_redirected_on_from_the_other_cpu(
    router: lk.Lab, spec: lk.ProgramSpec, verdicts: lk.ProgramSpec, mode: lk.Mode, target: str
) -> None:
    _, there = spread(router, spec, mode, "there_away", queue=16_384)
    assert there is not None
    out = router["router"]["eth1"]
    if target != "empty":
        there.maps["ports"][0] = out
    far = router.load(verdicts, "drop")
    if target != "nothing":
        far.attach(router["server"]["eth0"])
    if target == "down":
        out.set_down()
    fill(router)
    ledger = router.ledger()
    refused = {"nothing": "redirect EOPNOTSUPP", "down": "redirect ENETDOWN", "empty": "cpumap XDP_ABORTED"}
    name = refused.get(target, "XDP_DROP")
    if (target, mode) == ("nothing", "generic"):
        name = "OTHERHOST"
    full = ledger.losses.pop("ring full", 0)
    assert ledger.losses == {name: N - full}, ledger
    assert exact(ledger), ledger
    counted = far.verdicts()
    assert counted is not None
    assert counted["XDP_DROP"] == (N - full if name == "XDP_DROP" else 0)


def test_an_empty_slot(lab: lk.Lab, spec: lk.ProgramSpec) -> None:
    lab.load(spec, "to_cpu").attach(lab["server"]["eth0"])
    fill(lab)
    lab.load(spec, "to_cpu_or_pass").attach(lab["server"]["eth0"])
    fill(lab)
    ledger = lab.ledger()
    assert ledger.losses == {"XDP_ABORTED": N, "NO_SOCKET": N}, ledger
    assert exact(ledger), ledger


@MODES
def test_a_slot_emptied_under_traffic(lab: lk.Lab, spec: lk.ProgramSpec, mode: lk.Mode) -> None:
    """What waits in the queue goes on to the stack; what comes later finds no slot."""
    program, _ = spread(lab, spec, mode, queue=2048)
    generator = lk.Generator(lab["client"]["eth0"], lk.udp(lab["client"], lab["server"]), seconds=20, rate_pps=200_000)
    generator.start()
    while lab.ledger(0.01).sent < N:  # bounded by the generator's seconds
        assert generator.running
    for _ in range(5):
        del program.maps["cpus"][1]
        lab.ledger(0.01)
        program.maps["cpus"][1] = 64
        lab.ledger(0.01)
    generator.stop()
    ledger = lab.ledger(settle_s=5)
    assert {"XDP_ABORTED", "NO_SOCKET"} <= set(ledger.losses), ledger
    assert exact(ledger), ledger


def test_tcp_is_merged_on_the_other_cpu(lab: lk.Lab, spec: lk.ProgramSpec, verdicts: lk.ProgramSpec) -> None:
    """The CPU's thread uses GRO: TCP gets fewer, larger segments, and the ledger still counts each frame."""
    spread(lab, spec, "native")
    lab.load(verdicts, "pass").attach(lab["client"]["eth0"])
    assert lk.tcp_transfer(lab["client"], lab["server"], 3_000_017).intact
    assert lk.ping(lab["client"], lab["server"], 7).received == 7
    ledger = lab.ledger(settle_s=5)
    assert ledger.unaccounted == 0, ledger
    assert ledger.delivered > 3_000_017 // 1460


def test_a_million_for_two_cpus(lab: lk.Lab) -> None:
    shared = lk.compile(path="bpf/spread_cpus.c")
    program = lab.load(shared)
    program.maps["cpus"][0] = program.maps["cpus"][1] = 192
    program.maps["cpus_in_use"][0] = 2
    program.attach(lab["server"]["eth0"])
    fill(lab, MANY, flows=64)
    ledger = lab.ledger(settle_s=10)
    assert ledger.sent == MANY + lab["server"]["eth0"].statistics()["tx_packets"]
    assert set(ledger.losses) <= {"NO_SOCKET", "cpumap queue full", "ring full"}
    meant = program.maps["packets_to_cpu"]
    assert sum(meant[cpu] for cpu in (0, 1)) == MANY - ledger.losses.get("ring full", 0)
    assert exact(ledger), ledger
