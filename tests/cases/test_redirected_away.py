"""Packets that a redirect or XDP_TX sends into nothing, while every usual counter says that all is well."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

import labkit as lk
from labkit.kernel import bpf
from labkit.observe.protocols import read_protocols

N = 1_009  # prime
FEW = 7  # prime

# To the interface in slot 0, addressed to the server's end of the second link as a router would.
REDIRECT = """\
#include "common/parse.h"
#include "common/verdict.h"

LAB_DEVMAP(out, 2);

int redirect(struct xdp_md *ctx) { return verdict(ctx, out.redirect_map(0, 0)); }
int redirect_or_pass(struct xdp_md *ctx) { return verdict(ctx, out.redirect_map(1, XDP_PASS)); }

static __always_inline int readdress(struct xdp_md *ctx, u8 link, u8 end)
{
	struct cursor at = cursor_begin(ctx);
	struct ethhdr *eth = next_eth(&at);

	if (!eth)
		return verdict(ctx, XDP_ABORTED);
	eth->h_dest[4] = link;
	eth->h_dest[5] = end;
	return verdict(ctx, out.redirect_map(0, 0));
}

int to_server(struct xdp_md *ctx) { return readdress(ctx, 2, 2); }
int to_client(struct xdp_md *ctx) { return readdress(ctx, 1, 1); }
"""

Gained = Callable[[Callable[[], dict[str, int]]], Callable[[], dict[str, int]]]


@pytest.fixture(scope="module")
def redirects() -> lk.ProgramSpec:
    return lk.compile(text=REDIRECT)


def aimed(lab: lk.Lab, spec: lk.ProgramSpec, function: str, out: lk.Interface) -> lk.Program:
    """A redirecting program whose slot 0 is ``out``: a devmap looks an index up in the namespace of its writer."""
    program = lab.load(spec, function)
    out.run(partial(program.maps["out"].__setitem__, 0, out.ifindex))
    return program


@pytest.fixture
def received(gained: Gained) -> Callable[[lk.Interface], Callable[[], int]]:
    def start(interface: lk.Interface) -> Callable[[], int]:
        change = gained(interface.statistics)
        return lambda: change().get("rx_packets", 0)

    return start


@pytest.mark.parametrize("mode", ["native", "generic"])
@pytest.mark.parametrize("receiver", ["nothing", "program", "GRO"])
def test_rd_01_redirect_needs_a_receiver(
    router: lk.Lab,
    redirects: lk.ProgramSpec,
    verdicts: lk.ProgramSpec,
    received: Callable[[lk.Interface], Callable[[], int]],
    mode: str,
    receiver: str,
) -> None:
    """RD-01, xdp-project/xdp-tutorial#348: every verdict says "redirected", and the other end gets none."""
    client, middle, server = router["client"]["eth0"], router["router"], router["server"]["eth0"]
    if receiver == "program":
        router.load(verdicts, "pass").attach(server)
    elif receiver == "GRO":
        server.set_feature("gro", True)
    program = aimed(router, redirects, "redirect", middle["eth1"])
    program.attach(middle["eth0"], mode=mode)
    arrived = received(server)
    report = lk.send_frames(client, lk.udp(client, middle["eth0"]), N)
    ledger = router.ledger()
    lost = N if (mode, receiver) == ("native", "nothing") else 0
    assert report.sent == N
    counts = program.verdicts()
    assert counts is not None
    assert counts["XDP_REDIRECT"] == N, "the program's own view is the same whether anything arrives or not"
    assert arrived() == N - lost
    assert middle["eth0"].driver_statistics()["rx_queue_0_drops"] == lost
    if mode == "native":
        assert ledger.losses == ({"redirect EOPNOTSUPP": N} if lost else {"OTHERHOST": N})
        assert ledger.unaccounted == 0


@pytest.mark.parametrize("mode", ["native", "generic"])
@pytest.mark.parametrize("receiver", [False, True])
def test_rd_01_xdp_tx_needs_a_program_at_the_other_end(
    lab: lk.Lab,
    verdicts: lk.ProgramSpec,
    received: Callable[[lk.Interface], Callable[[], int]],
    mode: str,
    receiver: bool,
) -> None:
    """RD-01, xdp-project/xdp-tutorial#399: XDP_TX for every packet, ENXIO for every packet, nothing comes back."""
    client, server = lab["client"]["eth0"], lab["server"]["eth0"]
    back = lab.load(verdicts, "drop")
    if receiver:
        back.attach(client)
    program = lab.load(verdicts, "tx")
    program.attach(server, mode=mode)
    arrived = received(client)
    lk.send_frames(client, lk.udp(client, server), N)
    ledger = lab.ledger()
    lost = N if mode == "native" and not receiver else 0
    counts, dropped = program.verdicts(), back.verdicts()
    assert counts is not None
    assert dropped is not None
    assert counts["XDP_TX"] == N
    assert arrived() == N - lost
    assert server.driver_statistics()["rx_queue_0_xdp_tx_errors"] == lost
    assert dropped["XDP_DROP"] == (N if receiver else 0)
    assert ledger.losses == ({"XDP_TX ENXIO": N} if lost else {"XDP_DROP": N} if receiver else {"OTHERHOST": N})
    assert ledger.unaccounted == 0


def test_rd_03_a_slot_that_is_empty_aborts(lab: lk.Lab, redirects: lk.ProgramSpec, gained: Gained) -> None:
    """RD-03, xdp-project/xdp-tutorial#167: redirect_map on an empty slot is no failed redirect, it is XDP_ABORTED."""
    client, server = lab["client"]["eth0"], lab["server"]["eth0"]
    program = lab.load(redirects, "redirect")
    program.attach(server)
    driver = gained(server.driver_statistics)
    lk.send_frames(client, lk.udp(client, server), N)
    ledger = lab.ledger()
    counts = program.verdicts()
    assert counts is not None
    assert counts["XDP_ABORTED"] == N
    assert counts["XDP_REDIRECT"] == 0
    assert driver()["rx_queue_0_xdp_drops"] == N
    assert "rx_queue_0_drops" not in driver(), "no redirect was tried, none failed"
    assert ledger.losses == {"XDP_ABORTED": N}
    assert ledger.unaccounted == 0


def test_rd_03_a_slot_that_is_empty_can_pass(lab: lk.Lab, redirects: lk.ProgramSpec) -> None:
    """RD-03: with XDP_PASS as its flags a look-up that misses passes the packet on."""
    client, server = lab["client"], lab["server"]
    program = lab.load(redirects, "redirect_or_pass")
    program.attach(server["eth0"])
    with lk.UdpSink(server) as sink:
        lk.send_frames(client["eth0"], lk.udp(client, server), N)
        assert sink.wait(N) == N
        assert lab.ledger().delivered == N
    counts = program.verdicts()
    assert counts is not None
    assert counts["XDP_PASS"] == N


def test_rd_05_the_wire_carries_what_the_stack_ignores(lab: lk.Lab, verdicts: lk.ProgramSpec, gained: Gained) -> None:
    """RD-05, a blog's "packets vanishing into the void": a MAC address that is not the interface's."""
    client, server = lab["client"], lab["server"]
    lab.load(verdicts, "pass").attach(server["eth0"])
    right = lk.udp(client, server)
    wrong = bytes.fromhex("020000000909") + right[6:]
    for frame, taken in ((wrong, 0), (right, N)):
        lab.reset()
        link, stack = gained(server["eth0"].statistics), gained(lambda: server.run(read_protocols))
        lk.send_frames(client["eth0"], frame, N)
        ledger = lab.ledger()
        assert link()["rx_packets"] == N, "both arrive at the device"
        assert "rx_dropped" not in link(), "and no interface counts a drop"
        assert stack().get("IpInReceives", 0) == taken
        assert ledger.losses == ({"NO_SOCKET": N} if taken else {"OTHERHOST": N})
        assert ledger.unaccounted == 0


@pytest.mark.parametrize(
    ("offload", "mode", "delivered"),
    [(False, "native", N), (True, "native", 0), (True, "generic", N)],
    ids=["as the lab is", "offload on, native", "offload on, generic"],
)
def test_rd_06_a_checksum_left_to_hardware(
    router: lk.Lab,
    redirects: lk.ProgramSpec,
    verdicts: lk.ProgramSpec,
    gained: Gained,
    offload: bool,
    mode: str,
    delivered: int,
) -> None:
    """RD-06, xdp-project/xdp-tutorial#357: ping works through a redirect, UDP and TCP do not (CHECKSUM_PARTIAL)."""
    client, middle, server = router["client"], router["router"], router["server"]
    client["eth0"].set_feature("tx-checksum", offload)
    for end in (client["eth0"], server["eth0"]):
        router.load(verdicts, "pass").attach(end)
    aimed(router, redirects, "to_server", middle["eth1"]).attach(middle["eth0"], mode=mode)
    aimed(router, redirects, "to_client", middle["eth0"]).attach(middle["eth1"], mode=mode)
    assert lk.ping(client, server, FEW).received == FEW
    router.reset()
    stack = gained(lambda: server.run(read_protocols))
    with lk.UdpSink(server) as sink:
        assert lk.send_udp(client, server, N).sent == N
        assert sink.wait(delivered) == delivered
        ledger = router.ledger()
    assert stack().get("UdpInCsumErrors", 0) == N - delivered
    assert ledger.delivered == delivered
    assert ledger.losses == ({} if delivered else {"UDP_CSUM": N})
    if mode == "native":
        assert ledger.unaccounted == 0


def test_rd_06_the_ledger_of_a_generic_redirect(
    router: lk.Lab, redirects: lk.ProgramSpec, verdicts: lk.ProgramSpec
) -> None:
    """RD-06: a redirect moves a packet, in either mode: it is no second packet sent."""
    client, middle, server = router["client"], router["router"], router["server"]
    aimed(router, redirects, "to_server", middle["eth1"]).attach(middle["eth0"], mode="generic")
    with lk.UdpSink(server) as sink:
        lk.send_frames(client["eth0"], lk.udp(client, server), N)
        assert sink.wait(N) == N
        ledger = router.ledger()
    assert (ledger.sent, ledger.delivered, ledger.unaccounted) == (N, N, 0)


def test_rd_08_a_tracepoint_that_is_missing_costs_one_line(
    monkeypatch: pytest.MonkeyPatch, verdicts: lk.ProgramSpec
) -> None:
    """RD-08, xdp-project/xdp-tutorial#116: kernels rename and drop tracepoints; a diagnosis less, never a lesson less."""

    def absent(name: str, prog_fd: int) -> int:
        raise FileNotFoundError(2, f"No such file or directory: {name}")

    monkeypatch.setattr(bpf, "raw_tracepoint_open", absent)
    with lk.Lab(lk.Topology.pair(), name="case") as lab:
        client, server = lab["client"]["eth0"], lab["server"]["eth0"]
        lab.load(verdicts, "drop").attach(server)
        lk.generate(client, lk.udp(client, server), N)
        ledger = lab.ledger()
    assert ledger.losses == {"XDP_DROP": N}
    assert ledger.unaccounted == 0
    for note, name in zip(ledger.notes, ("kfree_skb", "xdp_redirect_err"), strict=True):
        assert name in note
    assert not any("\n" in note for note in ledger.notes)


def test_rd_08_the_lab_asks_for_no_tracepoint_that_this_kernel_lacks() -> None:
    """RD-08: what the lab watches is there, wherever the machine can list its tracepoints."""
    listed = Path("/sys/kernel/tracing/available_events")
    if not listed.exists():
        pytest.skip("no tracefs: mount -t tracefs tracefs /sys/kernel/tracing")
    events = set(listed.read_text().split())
    watched = ("xdp_redirect_err", "xdp_bulk_tx", "xdp_devmap_xmit", "xdp_cpumap_enqueue", "xdp_cpumap_kthread")
    assert {"skb:kfree_skb", *(f"xdp:{name}" for name in watched)} <= events
