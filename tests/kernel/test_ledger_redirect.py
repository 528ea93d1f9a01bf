"""The ledger of what XDP sends elsewhere: redirects, XDP_TX, broadcasts, programs at the way out; native and generic."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from patience import until

import labkit as lk
from labkit.observe.protocols import read_protocols
from labkit.uapi import AttachType

N = 10_007  # prime
MANY = 1_000_003  # prime
FEW = 1_009  # prime

SOURCE = """\
#include "common/rewrite.h"
#include "common/verdict.h"

LAB_DEVMAP_PROGRAMS(ports, 8);
LAB_ARRAY(target, u32, 1);

int away(struct xdp_md *ctx) { return verdict(ctx, ports.redirect_map(0, 0)); }
int away_or_pass(struct xdp_md *ctx) { return verdict(ctx, ports.redirect_map(7, XDP_PASS)); }
int to_all(struct xdp_md *ctx)
{
	return verdict(ctx, ports.redirect_map(0, BPF_F_BROADCAST | BPF_F_EXCLUDE_INGRESS));
}

int by_index(struct xdp_md *ctx)
{
	u32 only = 0, *ifindex = target.lookup(&only);

	return verdict(ctx, ifindex ? bpf_redirect(*ifindex, 0) : XDP_ABORTED);
}

/* Back where it came from while there are lives left: the TTL is what keeps the loop from going on for ever. */
int bounce(struct xdp_md *ctx)
{
	struct cursor at = cursor_begin(ctx);
	struct ethhdr *eth = next_eth(&at);
	struct iphdr *ip = eth ? next_ipv4(&at) : NULL;

	if (!ip || ip->ttl <= 1)
		return verdict(ctx, XDP_DROP);
	decrease_ttl(ip);
	return verdict(ctx, XDP_TX);
}

static __always_inline int grow(struct xdp_md *ctx) { return bpf_xdp_adjust_head(ctx, -100); }
int grow_and_tx(struct xdp_md *ctx) { return verdict(ctx, grow(ctx) ? XDP_ABORTED : XDP_TX); }
int grow_and_away(struct xdp_md *ctx) { return verdict(ctx, grow(ctx) ? XDP_ABORTED : ports.redirect_map(0, 0)); }

/* For the way out. */
int out_pass(struct xdp_md *ctx) { return verdict(ctx, XDP_PASS); }
int out_drop(struct xdp_md *ctx) { return verdict(ctx, XDP_DROP); }
int out_abort(struct xdp_md *ctx) { return verdict(ctx, XDP_ABORTED); }
int out_tx(struct xdp_md *ctx) { return verdict(ctx, XDP_TX); }
int out_silent(struct xdp_md *ctx) { return XDP_DROP; }

/* One in two, by the last bit of the UDP source port. */
int out_half(struct xdp_md *ctx)
{
	struct cursor at = cursor_begin(ctx);
	struct ethhdr *eth = next_eth(&at);
	struct iphdr *ip = eth ? next_ipv4(&at) : NULL;
	struct udphdr *udp = ip ? next_udp(&at) : NULL;

	return verdict(ctx, udp && ntohs(udp->source) & 1 ? XDP_DROP : XDP_PASS);
}
"""

MODES = pytest.mark.parametrize("mode", ["native", "generic"])


@pytest.fixture(scope="module")
def spec() -> lk.ProgramSpec:
    return lk.compile(text=SOURCE)


@pytest.fixture
def router() -> Iterator[lk.Lab]:
    with lk.Lab(lk.Topology.router(), name="redirect") as made:
        yield made


@pytest.fixture
def fanout() -> Iterator[lk.Lab]:
    """The hub is called client; server1 sends, the others hear."""
    with lk.Lab(lk.Topology.fanout(4), name="redirect") as made:
        yield made


def exact(ledger: lk.Ledger) -> bool:
    return ledger.unaccounted == 0 and all(check.agrees for check in ledger.checks)


def fill(lab: lk.Lab, frame: bytes | None = None, packets: int = N, **how: int) -> None:
    """``packets`` from the client towards the router."""
    frame = lk.udp(lab["client"], lab["router"]["eth0"]) if frame is None else frame
    assert lk.generate(lab["client"]["eth0"], frame, packets, **how).sent == packets


def away(lab: lk.Lab, spec: lk.ProgramSpec, mode: lk.Mode, function: str = "away") -> lk.Program:
    """From the router's eth0 to its eth1."""
    program, out = lab.load(spec, function), lab["router"]["eth1"]
    program.maps["target" if function == "by_index" else "ports"][0] = out.ifindex if function == "by_index" else out
    program.attach(lab["router"]["eth0"], mode=mode)
    return program


def receiver(lab: lk.Lab, verdicts: lk.ProgramSpec, kind: str) -> lk.Program | None:
    server = lab["server"]["eth0"]
    if kind == "GRO":
        server.set_feature("gro", True)
    if kind != "program":
        return None
    program = lab.load(verdicts, "drop")
    program.attach(server)
    return program


# ---- A redirect ---------------------------------------------------------------------------------------------------------


@MODES
@pytest.mark.parametrize("how", ["away", "by_index"])
@pytest.mark.parametrize("kind", ["program", "GRO", "nothing"])
def test_a_redirect(
    router: lk.Lab, spec: lk.ProgramSpec, verdicts: lk.ProgramSpec, kind: str, how: str, mode: lk.Mode
) -> None:
    far = receiver(router, verdicts, kind)
    program = away(router, spec, mode, how)
    fill(router)
    ledger = router.ledger()
    refused = (kind, mode) == ("nothing", "native")
    name = "redirect EOPNOTSUPP" if refused else "XDP_DROP" if far else "OTHERHOST"
    assert ledger.losses == {name: N}, ledger
    assert (ledger.sent, ledger.copies) == (N, 0)
    assert exact(ledger), ledger
    counts = program.verdicts()
    assert counts is not None
    assert counts["XDP_REDIRECT"] == N
    assert router["server"]["eth0"].statistics()["rx_packets"] == (0 if refused else N)
    assert router["router"]["eth0"].driver_statistics()["rx_queue_0_drops"] == (N if refused else 0)


def test_a_million_redirected_and_a_million_refused(
    router: lk.Lab, spec: lk.ProgramSpec, verdicts: lk.ProgramSpec
) -> None:
    away(router, spec, "native")
    fill(router, packets=MANY)
    assert router.ledger().losses == {"redirect EOPNOTSUPP": MANY}
    far = receiver(router, verdicts, "program")
    assert far is not None
    fill(router, packets=MANY)
    ledger = router.ledger()
    counted = far.verdicts()
    assert counted is not None
    full = ledger.losses.get("ring full", 0)
    assert ledger.losses.get("XDP_DROP") == counted["XDP_DROP"] == MANY - full
    assert exact(ledger), ledger


@MODES
@pytest.mark.parametrize("how", ["away", "by_index"])
def test_to_an_interface_that_is_down(router: lk.Lab, spec: lk.ProgramSpec, how: str, mode: lk.Mode) -> None:
    away(router, spec, mode, how)
    receiver(router, spec, "GRO")
    router["router"]["eth1"].set_down()
    fill(router)
    ledger = router.ledger()
    assert ledger.losses == {"redirect ENETDOWN": N}, ledger
    assert exact(ledger), ledger


@MODES
@pytest.mark.parametrize("how", ["away", "by_index"])
def test_to_an_interface_whose_peer_is_down(router: lk.Lab, spec: lk.ProgramSpec, how: str, mode: lk.Mode) -> None:
    away(router, spec, mode, how)
    receiver(router, spec, "GRO")
    router["server"]["eth0"].set_down()
    fill(router)
    ledger = router.ledger()
    assert ledger.losses == {"redirect ENXIO" if mode == "native" else "ring full or peer down": N}, ledger
    assert exact(ledger), ledger
    assert router["router"]["eth1"].statistics()["tx_dropped"] == N


@MODES
@pytest.mark.parametrize("how", ["away", "by_index"])
def test_longer_than_the_next_mtu(router: lk.Lab, spec: lk.ProgramSpec, how: str, mode: lk.Mode) -> None:
    away(router, spec, mode, how)
    receiver(router, spec, "GRO")
    router["router"]["eth1"].set_mtu(600)
    fill(router, size=619)
    ledger = router.ledger()
    assert ledger.losses == {"redirect EMSGSIZE": N}, ledger
    assert exact(ledger), ledger
    fill(router, size=618)
    assert router.ledger().losses == {"redirect EMSGSIZE": N, "OTHERHOST": N}
    assert exact(router.ledger()), router.ledger()


@MODES
def test_longer_than_the_mtu_at_the_other_end(router: lk.Lab, spec: lk.ProgramSpec, mode: lk.Mode) -> None:
    away(router, spec, mode)
    receiver(router, spec, "GRO")
    router["server"]["eth0"].set_mtu(600)
    fill(router, size=1000)
    ledger = router.ledger()
    assert ledger.losses == {"ring full or EMSGSIZE": N}, ledger
    assert exact(ledger), ledger


@MODES
def test_back_to_the_interface_itself(
    router: lk.Lab, spec: lk.ProgramSpec, verdicts: lk.ProgramSpec, mode: lk.Mode
) -> None:
    near = router["router"]["eth0"]
    program = router.load(spec, "away")
    program.maps["ports"][0] = near
    program.attach(near, mode=mode)
    back = router.load(verdicts, "drop")
    back.attach(router["client"]["eth0"])
    fill(router)
    ledger = router.ledger()
    assert ledger.losses == {"XDP_DROP": N}, ledger
    assert exact(ledger), ledger
    counted = back.verdicts()
    assert counted is not None
    assert counted["XDP_DROP"] == N


@MODES
def test_an_index_that_nobody_has(router: lk.Lab, spec: lk.ProgramSpec, mode: lk.Mode) -> None:
    program = away(router, spec, mode, "by_index")
    program.maps["target"][0] = 9_999
    fill(router)
    ledger = router.ledger()
    assert ledger.losses == {"redirect EINVAL": N}, ledger
    assert exact(ledger), ledger


@MODES
def test_out_of_an_interface_of_another_host(
    router: lk.Lab, spec: lk.ProgramSpec, verdicts: lk.ProgramSpec, mode: lk.Mode
) -> None:
    """A devmap holds the interface itself, of whatever namespace: the frame leaves the server, and arrives back here."""
    program = router.load(spec, "away")
    program.maps["ports"][0] = router["server"]["eth0"]
    program.attach(router["router"]["eth0"], mode=mode)
    back = router.load(verdicts, "drop")
    back.attach(router["router"]["eth1"])
    fill(router)
    ledger = router.ledger()
    assert ledger.losses == {"XDP_DROP": N}, ledger
    assert exact(ledger), ledger
    assert router["router"]["eth1"].statistics()["rx_packets"] == N


@MODES
def test_an_empty_slot(router: lk.Lab, spec: lk.ProgramSpec, mode: lk.Mode) -> None:
    router.load(spec, "away").attach(router["router"]["eth0"], mode=mode)
    fill(router)
    assert router.ledger().losses == {"XDP_ABORTED": N}
    router.load(spec, "away_or_pass").attach(router["router"]["eth0"], mode=mode)
    fill(router)
    ledger = router.ledger()
    assert ledger.losses == {"XDP_ABORTED": N, "NO_SOCKET": N}, ledger
    assert exact(ledger), ledger


@pytest.mark.parametrize("threads", [1, 2])
def test_an_overrun_through_a_redirect(
    router: lk.Lab, spec: lk.ProgramSpec, verdicts: lk.ProgramSpec, threads: int
) -> None:
    far = receiver(router, verdicts, "program")
    assert far is not None
    away(router, spec, "native")
    fill(router, packets=MANY, threads=threads)
    ledger = router.ledger()
    counted = far.verdicts()
    assert counted is not None
    assert ledger.losses["XDP_DROP"] == counted["XDP_DROP"] == router["server"]["eth0"].statistics()["rx_packets"]
    assert ledger.losses.get("ring full", 0) == MANY - counted["XDP_DROP"]
    assert set(ledger.losses) <= {"XDP_DROP", "ring full"}
    assert exact(ledger), ledger


@MODES
def test_through_three_hosts(spec: lk.ProgramSpec, verdicts: lk.ProgramSpec, mode: lk.Mode) -> None:
    with lk.Lab(lk.Topology.chain(5), name="redirect") as lab:
        for name in ("h2", "h3", "h4"):
            program = lab.load(spec, "away")
            program.maps["ports"][0] = lab[name]["eth1"]
            program.attach(lab[name]["eth0"], mode=mode)
        end = lab.load(verdicts, "drop")
        end.attach(lab["h5"]["eth0"])
        lk.generate(lab["h1"]["eth0"], lk.udp(lab["h1"], lab["h2"]["eth0"]), N)
        ledger = lab.ledger()
        assert ledger.losses == {"XDP_DROP": N}, ledger
        assert exact(ledger), ledger
        assert lab["h5"]["eth0"].statistics()["rx_packets"] == N


def test_a_loop_that_the_ttl_ends(lab: lk.Lab, spec: lk.ProgramSpec) -> None:
    programs = [lab.load(spec, "bounce") for _ in range(2)]
    for program, host in zip(programs, ("client", "server"), strict=True):
        program.attach(lab[host]["eth0"])
    lk.send_frames(lab["client"]["eth0"], lk.udp(lab["client"], lab["server"]), FEW, rate_pps=10_000)
    ledger = lab.ledger()
    assert ledger.losses == {"XDP_DROP": FEW}, ledger
    assert exact(ledger), ledger
    seen = [program.verdicts() for program in programs]
    assert sum(counts["XDP_TX"] for counts in seen if counts) == 63 * FEW  # from a TTL of 64 down to 1


# ---- XDP_TX -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("packets", [7, MANY])
def test_xdp_tx_without_a_receiver(lab: lk.Lab, verdicts: lk.ProgramSpec, packets: int) -> None:
    lab.load(verdicts, "tx").attach(lab["server"]["eth0"])
    lk.generate(lab["client"]["eth0"], lk.udp(lab["client"], lab["server"]), packets)
    ledger = lab.ledger()
    assert ledger.losses == {"XDP_TX ENXIO": packets}, ledger
    assert exact(ledger), ledger
    assert lab["server"]["eth0"].driver_statistics()["rx_queue_0_xdp_tx_errors"] == packets


def test_xdp_tx_with_a_receiver(lab: lk.Lab, verdicts: lk.ProgramSpec) -> None:
    lab.load(verdicts, "tx").attach(lab["server"]["eth0"])
    back = lab.load(verdicts, "drop")
    back.attach(lab["client"]["eth0"])
    lk.generate(lab["client"]["eth0"], lk.udp(lab["client"], lab["server"]), MANY)
    ledger = lab.ledger()
    counted = back.verdicts()
    assert counted is not None
    assert ledger.losses["XDP_DROP"] == counted["XDP_DROP"]
    assert set(ledger.losses) <= {"XDP_DROP", "XDP_TX ring full"}
    assert ledger.lost == MANY
    assert exact(ledger), ledger


def test_xdp_tx_into_a_full_ring(lab: lk.Lab, verdicts: lk.ProgramSpec) -> None:
    """GRO gives the peer a ring, and without a program nothing wakes it for XDP_TX: 255 frames fit, no more do."""
    lab.load(verdicts, "tx").attach(lab["server"]["eth0"])
    lab["client"]["eth0"].set_feature("gro", True)
    lk.generate(lab["client"]["eth0"], lk.udp(lab["client"], lab["server"]), N)
    ledger = lab.ledger()
    lost = lab["server"]["eth0"].driver_statistics()["rx_queue_0_xdp_tx_errors"]
    assert ledger.losses.get("XDP_TX ring full", 0) == lost
    assert ledger.in_flight + ledger.losses.get("OTHERHOST", 0) == N - lost
    assert exact(ledger), ledger


@MODES
def test_xdp_tx_to_a_peer_that_is_down(lab: lk.Lab, verdicts: lk.ProgramSpec, mode: lk.Mode) -> None:
    """It goes down in the midst of traffic; what is sent back then is lost."""
    client, server = lab["client"]["eth0"], lab["server"]["eth0"]
    lab.load(verdicts, "tx").attach(server, mode=mode)
    generator = lk.Generator(client, lk.udp(lab["client"], lab["server"]), seconds=20, rate_pps=100_000).start()
    until(lambda: lab.ledger(0.01).sent >= FEW)
    client.set_down()
    until(lambda: lab.ledger(0.01).losses.get("redirect ENETDOWN", 0) >= FEW)
    generator.stop()
    ledger = lab.ledger()
    assert ledger.unaccounted == 0, ledger


@MODES
@pytest.mark.parametrize("function", ["grow_and_tx", "grow_and_away"])
def test_sent_back_longer_than_the_peer_takes(
    router: lk.Lab, spec: lk.ProgramSpec, mode: lk.Mode, function: str
) -> None:
    """In generic mode the stack frees what the driver does not send: that is one loss, not two."""
    router["client"]["eth0"].set_feature("gro", True)
    near = router["router"]["eth0"]
    near.set_mtu(3000)
    program = router.load(spec, function)
    if function == "grow_and_away":
        program.maps["ports"][0] = near
    program.attach(near, mode=mode)
    fill(router, size=1500)
    ledger = router.ledger()
    [(name, count)] = ledger.losses.items()
    assert count == N, ledger
    assert name in ("ring full or EMSGSIZE", "XDP_TX ring full")
    assert exact(ledger), ledger


def test_the_kernel_forwards_into_nothing(router: lk.Lab) -> None:
    """Not XDP's doing, but the same place: what a driver does not send is in its tx_dropped, and in no other row."""
    lk.generate(router["client"]["eth0"], lk.udp(router["client"], router["server"]), N, threads=1)
    assert exact(router.ledger())
    router["server"]["eth0"].set_down()
    fill(router, lk.udp(router["client"], router["server"]))
    assert exact(router.ledger()), router.ledger()


# ---- Copies -------------------------------------------------------------------------------------------------------------


def hub(lab: lk.Lab, spec: lk.ProgramSpec, mode: lk.Mode, ports: int = 4) -> lk.Program:
    """What server1 sends goes to every other server by the hub, which is the client."""
    program = lab.load(spec, "to_all")
    for slot in range(ports):
        program.maps["ports"][slot] = lab["client"][f"eth{slot}"]
    program.attach(lab["client"]["eth0"], mode=mode)
    return program


def listeners(lab: lk.Lab, verdicts: lk.ProgramSpec, *numbers: int) -> list[lk.Program]:
    programs = [lab.load(verdicts, "drop") for _ in numbers]
    for number, program in zip(numbers, programs, strict=True):
        program.attach(lab[f"server{number}"]["eth0"])
    return programs


def shout(lab: lk.Lab, packets: int = N) -> None:
    frame = lk.udp(lab["server1"], lab["client"]["eth0"])
    assert lk.generate(lab["server1"]["eth0"], frame, packets).sent == packets


def dropped(programs: list[lk.Program]) -> list[int]:
    counts = [program.verdicts() for program in programs]
    return [each["XDP_DROP"] for each in counts if each is not None]


@MODES
def test_a_broadcast(fanout: lk.Lab, spec: lk.ProgramSpec, verdicts: lk.ProgramSpec, mode: lk.Mode) -> None:
    heard = listeners(fanout, verdicts, 2, 3, 4)
    hub(fanout, spec, mode)
    shout(fanout)
    ledger = fanout.ledger()
    assert (ledger.sent, ledger.copies) == (N, 2 * N), ledger
    assert ledger.losses == {"XDP_DROP": 3 * N}, ledger
    assert exact(ledger), ledger
    assert dropped(heard) == [N, N, N]
    assert [fanout[f"server{i}"]["eth0"].statistics()["rx_packets"] for i in (1, 2, 3, 4)] == [0, N, N, N]
    assert "copied by broadcast" in str(ledger)


def test_a_million_broadcast(fanout: lk.Lab, spec: lk.ProgramSpec, verdicts: lk.ProgramSpec) -> None:
    heard = listeners(fanout, verdicts, 2, 3, 4)
    hub(fanout, spec, "native")
    shout(fanout, MANY)
    ledger = fanout.ledger()
    assert ledger.sent == MANY
    assert sum(dropped(heard)) == ledger.losses["XDP_DROP"]
    full = ledger.losses.get("ring full", 0)
    at_hub = sum(row.packets for row in ledger.rows if row.where == "after server1 eth0")
    assert ledger.copies == 2 * (MANY - at_hub)
    assert ledger.lost == ledger.losses["XDP_DROP"] + full == MANY + ledger.copies
    assert exact(ledger), ledger


def test_a_broadcast_that_some_cannot_take(fanout: lk.Lab, spec: lk.ProgramSpec, verdicts: lk.ProgramSpec) -> None:
    """Native: the kernel skips a slot whose peer takes no redirected frames, and one that is down; a copy less each."""
    heard = listeners(fanout, verdicts, 2)
    hub(fanout, spec, "native")
    fanout["client"]["eth3"].set_down()
    shout(fanout)
    ledger = fanout.ledger()
    assert (ledger.sent, ledger.copies, ledger.losses) == (N, 0, {"XDP_DROP": N}), ledger
    assert exact(ledger), ledger
    assert dropped(heard) == [N]


def test_a_copy_that_is_refused(fanout: lk.Lab, spec: lk.ProgramSpec, verdicts: lk.ProgramSpec) -> None:
    """Its peer is down: the copy was made, and the driver refused it."""
    heard = listeners(fanout, verdicts, 2, 3)
    hub(fanout, spec, "native", 3)
    fanout["server3"]["eth0"].set_down()
    shout(fanout)
    ledger = fanout.ledger()
    assert (ledger.sent, ledger.copies) == (N, N), ledger
    assert ledger.losses == {"XDP_DROP": N, "redirect ENXIO": N}, ledger
    assert exact(ledger), ledger
    assert dropped(heard) == [N, 0]
    assert fanout["client"]["eth2"].statistics()["tx_dropped"] == N


@MODES
def test_a_broadcast_to_nobody(fanout: lk.Lab, spec: lk.ProgramSpec, mode: lk.Mode) -> None:
    """The map is empty but for the way the packet came: XDP_REDIRECT, no error, no packet."""
    program = hub(fanout, spec, mode, 1)
    shout(fanout)
    ledger = fanout.ledger()
    assert (ledger.sent, ledger.copies, ledger.losses) == (N, 0, {"broadcast to nobody": N}), ledger
    assert exact(ledger), ledger
    counts = program.verdicts()
    assert counts is not None
    assert counts["XDP_REDIRECT"] == N


def test_frames_of_a_packet_socket_are_the_senders_own(fanout: lk.Lab, spec: lk.ProgramSpec) -> None:
    """IP counts none of them: they aren't taken for what the hub sent on, where that went to nobody."""
    hub(fanout, spec, "generic", 1)
    frame = lk.udp(fanout["server1"], fanout["client"]["eth0"])
    assert lk.send_frames(fanout["server1"]["eth0"], frame, FEW).sent == FEW
    ledger = fanout.ledger()
    assert (ledger.sent, ledger.copies, ledger.losses) == (FEW, 0, {"broadcast to nobody": FEW}), ledger
    assert exact(ledger), ledger


def test_a_generic_broadcast_with_an_interface_that_is_down(
    fanout: lk.Lab, spec: lk.ProgramSpec, verdicts: lk.ProgramSpec
) -> None:
    """Generic: copies are made in the map's order until one fails, and then the packet itself is dropped."""
    heard = listeners(fanout, verdicts, 2, 3, 4)
    hub(fanout, spec, "generic")
    fanout["client"]["eth2"].set_down()
    shout(fanout)
    ledger = fanout.ledger()
    assert (ledger.sent, ledger.losses["redirect ENETDOWN"]) == (N, N), ledger
    assert ledger.copies == sum(dropped(heard)) == ledger.losses.get("XDP_DROP", 0)
    assert exact(ledger), ledger


# ---- A program at the way out -------------------------------------------------------------------------------------------


def guarded(lab: lk.Lab, spec: lk.ProgramSpec, mode: lk.Mode, function: str) -> lk.Program:
    """A redirect through a devmap whose slot has ``function``, which is returned."""
    guard = lab.load(spec, function, expected_attach_type=AttachType.XDP_DEVMAP)
    program = lab.load(spec, "away")
    program.maps["ports"][0] = lab["router"]["eth1"], guard
    program.attach(lab["router"]["eth0"], mode=mode)
    return guard


GUARDS = [
    ("out_pass", "XDP_PASS", None),
    ("out_drop", "XDP_DROP", "devmap XDP_DROP"),
    ("out_abort", "XDP_ABORTED", "devmap XDP_ABORTED"),
    ("out_tx", "XDP_TX", "devmap unknown verdict"),
]


@MODES
@pytest.mark.parametrize(("function", "verdict", "name"), GUARDS)
def test_a_program_at_the_way_out(
    router: lk.Lab,
    spec: lk.ProgramSpec,
    verdicts: lk.ProgramSpec,
    function: str,
    verdict: str,
    name: str | None,
    mode: lk.Mode,
) -> None:
    receiver(router, verdicts, "program")
    guard = guarded(router, spec, mode, function)
    fill(router)
    ledger = router.ledger()
    assert ledger.losses == {name or "XDP_DROP": N}, ledger
    assert exact(ledger), ledger
    counts = guard.verdicts()
    assert counts is not None
    assert counts[verdict] == N
    assert router["server"]["eth0"].statistics()["rx_packets"] == (0 if name else N)
    if name:
        assert {row.where for row in ledger.rows if row.kind == "loss"} == {"router eth1"}


@MODES
@pytest.mark.parametrize("threads", [1, 2])
def test_half_of_them_are_dropped_at_the_way_out(
    router: lk.Lab, spec: lk.ProgramSpec, verdicts: lk.ProgramSpec, mode: lk.Mode, threads: int
) -> None:
    far = receiver(router, verdicts, "program")
    assert far is not None
    guard = guarded(router, spec, mode, "out_half")
    fill(router, packets=100_003, threads=threads, flows=2)
    ledger = router.ledger()
    counts, arrived = guard.verdicts(), far.verdicts()
    assert counts is not None
    assert arrived is not None
    assert ledger.losses["devmap XDP_DROP"] == counts["XDP_DROP"] > 0
    assert ledger.losses["XDP_DROP"] == arrived["XDP_DROP"] > 0
    assert set(ledger.losses) <= {"devmap XDP_DROP", "XDP_DROP", "ring full"}
    assert exact(ledger), ledger


@pytest.mark.parametrize("threads", [1, 2])
def test_a_program_at_the_way_out_that_keeps_no_count(
    router: lk.Lab, spec: lk.ProgramSpec, verdicts: lk.ProgramSpec, threads: int
) -> None:
    receiver(router, verdicts, "program")
    guarded(router, spec, "native", "out_silent")
    fill(router, threads=threads)
    ledger = router.ledger()
    full = ledger.losses.get("ring full", 0)
    assert ledger.losses["devmap drop"] == N - full
    assert exact(ledger), ledger


# ---- Both modes at once -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("function", ["away", "drop"])
def test_one_program_in_both_modes_at_once(
    router: lk.Lab, spec: lk.ProgramSpec, verdicts: lk.ProgramSpec, function: str
) -> None:
    """Natively at one interface, generically at the other: one count, told apart by what the driver counts."""
    near, far = router["router"]["eth0"], router["router"]["eth1"]
    program = router.load(spec if function == "away" else verdicts, function)
    if function == "away":
        program.maps["ports"][0] = far
        receiver(router, verdicts, "program")
    program.attach(near, mode="native")
    fill(router)
    program.attach(far, mode="generic")
    fill(router)
    lk.generate(router["server"]["eth0"], lk.udp(router["server"], far), FEW)
    fill(router)
    ledger = router.ledger()
    assert ledger.sent == 3 * N + FEW
    assert ledger.losses == {"XDP_DROP": 3 * N + FEW}, ledger
    assert exact(ledger), ledger
    counts = program.verdicts()
    assert counts is not None
    assert counts["XDP_REDIRECT" if function == "away" else "XDP_DROP"] == 3 * N + FEW


# ---- A router -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def fib(router: lk.Lab, verdicts: lk.ProgramSpec) -> lk.Lab:
    """The kernel's routing table, asked by a program at both interfaces; the ends can take redirected frames."""
    program = router.load(lk.compile(path="bpf/router.c"))
    for each in router["router"].interfaces.values():
        program.maps["ports"][each.ifindex] = each
        program.attach(each)
    for end in ("client", "server"):
        router.load(verdicts, "pass").attach(router[end]["eth0"])
    return router


def forwarded_by_the_stack(lab: lk.Lab) -> int:
    return lab["router"].run(read_protocols)["IpForwDatagrams"]


def test_a_router_of_xdp_both_ways(fib: lk.Lab) -> None:
    client, server = fib["client"], fib["server"]
    assert lk.ping(client, server, 7).received == 7
    assert lk.ping(server, client, 7).received == 7
    assert exact(fib.ledger()), fib.ledger()
    for source, target in ((client, server), (server, client)):
        with lk.UdpSink(target) as sink:
            assert lk.send_udp(source, target, FEW, rate_pps=20_000).sent == FEW
            assert sink.wait(FEW) == FEW
            assert exact(fib.ledger()), fib.ledger()
        assert lk.tcp_transfer(source, target, 500_009).intact
    ledger = fib.ledger(settle_s=5)
    assert ledger.unaccounted == 0, ledger
    assert forwarded_by_the_stack(fib) == 0
    assert not any(row.where.startswith("router ") for row in ledger.rows if row.kind != "loss"), ledger


def test_a_router_of_xdp_answers_where_the_ttl_ends(fib: lk.Lab) -> None:
    frame = bytearray(lk.udp(fib["client"], fib["server"]))
    frame[22], frame[24:26] = 1, bytes(2)
    total = sum(int.from_bytes(frame[at : at + 2], "big") for at in range(14, 34, 2))
    total = (total & 0xFFFF) + (total >> 16)
    frame[24:26] = (~(total + (total >> 16)) & 0xFFFF).to_bytes(2, "big")
    fill(fib, bytes(frame), FEW)
    ledger = fib.ledger()
    assert ledger.losses == {"IP_INHDR": FEW}, ledger
    assert ledger.unaccounted == 0, ledger
    answers = fib["router"].run(read_protocols)["IcmpOutTimeExcds"]
    assert ledger.delivered == answers > 0
    assert ledger.sent == FEW + answers


def test_a_router_of_xdp_and_packets_that_are_too_big(fib: lk.Lab) -> None:
    fib["router"]["eth1"].set_mtu(600)
    frame = bytearray(lk.udp(fib["client"], fib["server"], size=1000))
    frame[20] |= 0x40  # don't fragment
    frame[24:26] = ((int.from_bytes(frame[24:26], "big") - 0x4000) % 0xFFFF).to_bytes(2, "big")
    fill(fib, bytes(frame), FEW)
    ledger = fib.ledger()
    assert ledger.losses == {"PKT_TOO_BIG": FEW}, ledger
    assert ledger.unaccounted == 0, ledger
