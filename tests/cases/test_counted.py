"""Counters that move by themselves, stand still, lose counts, or say something else than one thinks."""

from __future__ import annotations

import ipaddress
import os
import sys
import time
from collections.abc import Callable

import pytest

import labkit as lk
from labkit.kernel.cpus import possible_cpus
from labkit.traffic.tcp import tcp_transfer

N = 1_009  # prime
FEW = 5  # prime

Gained = Callable[[Callable[[], dict[str, int]]], Callable[[], dict[str, int]]]

COUNTING = """\
#include "common/parse.h"
#include "common/verdict.h"

LAB_HASH(types, u16, u64, 64);
LAB_HASH(sources, u32, u64, 64);
LAB_PERCPU_ARRAY(lengths, u64, 2);

/* Packets by EtherType (host order). */
int by_type(struct xdp_md *ctx)
{
	struct cursor at = cursor_begin(ctx);
	struct ethhdr *eth = next_eth(&at);
	u64 zero = 0, *count;
	u16 type;

	if (!eth)
		return verdict(ctx, XDP_PASS);
	type = ntohs(eth->h_proto);
	count = types.lookup_or_try_init(&type, &zero);
	if (count)
		__sync_fetch_and_add(count, 1);
	return verdict(ctx, XDP_PASS);
}

/* Drops IPv4, as one means it and as one writes it. */
int right_order(struct xdp_md *ctx)
{
	struct cursor at = cursor_begin(ctx);
	struct ethhdr *eth = next_eth(&at);

	return verdict(ctx, eth && eth->h_proto == htons(ETH_P_IP) ? XDP_DROP : XDP_PASS);
}

int wrong_order(struct xdp_md *ctx)
{
	struct cursor at = cursor_begin(ctx);
	struct ethhdr *eth = next_eth(&at);

	return verdict(ctx, eth && eth->h_proto == ETH_P_IP ? XDP_DROP : XDP_PASS);
}

/* Packets by source address, the key in network byte order. */
int by_source(struct xdp_md *ctx)
{
	struct cursor at = cursor_begin(ctx);
	struct ethhdr *eth = next_eth(&at);
	struct iphdr *ip = eth && eth->h_proto == htons(ETH_P_IP) ? next_ipv4(&at) : NULL;
	u64 zero = 0, *count;
	u32 source;

	if (!ip)
		return verdict(ctx, XDP_PASS);
	source = ip->saddr;
	count = sources.lookup_or_try_init(&source, &zero);
	if (count)
		__sync_fetch_and_add(count, 1);
	return verdict(ctx, XDP_DROP);
}

/* Slot 0: packets; slot 1: those longer than an Ethernet frame may be. */
int by_length(struct xdp_md *ctx)
{
	u32 all = 0, large = 1;
	u64 *count = lengths.lookup(&all);

	if (count)
		(*count)++;
	count = lengths.lookup(&large);
	if (count && ctx->data_end - ctx->data > 1514)
		(*count)++;
	return verdict(ctx, XDP_PASS);
}
"""

SHARED = """\
#include "common/verdict.h"

LAB_ARRAY(plain, u64, 1);
LAB_ARRAY(atomic, u64, 1);
LAB_PERCPU_ARRAY(separate, u64, 1);

int count(struct xdp_md *ctx)
{
	u32 slot = 0;
	u64 *a = plain.lookup(&slot), *b = atomic.lookup(&slot), *c = separate.lookup(&slot);

	if (!a || !b || !c)
		return verdict(ctx, XDP_ABORTED);
	(*a)++;
	__sync_fetch_and_add(b, 1);
	(*c)++;
	return verdict(ctx, XDP_DROP);
}
"""


@pytest.fixture(scope="module")
def counting() -> lk.ProgramSpec:
    return lk.compile(text=COUNTING)


def test_cn_01_no_packet_that_nobody_sent(lab: lk.Lab, counting: lk.ProgramSpec) -> None:
    """CN-01, FDio/csit#2969: a fresh pair sends neighbour discovery and router solicitations, and more after pings."""
    types = []
    for host in lab.hosts.values():
        program = lab.load(counting, "by_type")
        program.attach(host["eth0"])
        types.append(program.maps["types"])
    time.sleep(1.2)  # with IPv6 on, the first two packets come within a second
    assert [each.read() for each in types] == [{}, {}]
    assert lk.ping(lab["client"], lab["server"], FEW).received == FEW
    assert [each.read() for each in types] == [{0x0800: FEW}, {0x0800: FEW}], "no ARP: neighbours are fixed"
    ledger = lab.ledger()
    assert (ledger.sent, ledger.delivered, ledger.unaccounted) == (2 * FEW, 2 * FEW, 0)


@pytest.mark.parametrize("mode", ["native", "generic"])
@pytest.mark.parametrize(
    ("function", "verdict", "name"),
    [
        ("drop", "XDP_DROP", "XDP_DROP"),
        ("aborted", "XDP_ABORTED", "XDP_ABORTED"),
        ("strange", "unknown", "unknown verdict"),
    ],
)
def test_cn_02_a_drop_the_usual_places_do_not_show(
    lab: lk.Lab, verdicts: lk.ProgramSpec, gained: Gained, mode: str, function: str, verdict: str, name: str
) -> None:
    """CN-02, xdp-project/xdp-tools#456: rx_packets grows, rx_dropped does not, and ethtool mixes three things."""
    client, server = lab["client"]["eth0"], lab["server"]["eth0"]
    program = lab.load(verdicts, function)
    program.attach(server, mode=mode)
    link, driver = gained(server.statistics), gained(server.driver_statistics)
    lk.send_frames(client, lk.udp(lab["client"], lab["server"]), N)
    ledger = lab.ledger()
    assert link()["rx_packets"] == N
    assert "rx_dropped" not in link()
    assert driver().get("rx_queue_0_xdp_drops", 0) == (N if mode == "native" else 0)
    counts = program.verdicts()
    assert counts is not None
    assert counts[verdict] == N
    assert sum(counts.values()) == N
    assert ledger.losses == {name: N}
    assert ledger.unaccounted == 0


def test_cn_04_a_shared_counter_loses_what_separate_ones_keep() -> None:
    """CN-04, xdp-project/xdp-tutorial#121: ++ on a shared value is no atomic operation. Two queues, two CPUs."""
    packets = 200_003  # prime
    with lk.Lab(lk.Topology.pair(queues=2), name="case") as lab:
        client, server = lab["client"]["eth0"], lab["server"]["eth0"]
        program = lab.load(lk.compile(text=SHARED))
        program.attach(server)
        lk.generate(client, lk.udp(lab["client"], lab["server"]), packets, threads=2, flows=2)
        ledger = lab.ledger()
        arrived = packets - ledger.losses.get("ring full", 0)
        counted = {name: program.maps[name][0] for name in ("plain", "atomic", "separate")}
    assert ledger.unaccounted == 0
    assert ledger.losses["XDP_DROP"] == arrived
    assert counted["atomic"] == arrived
    assert counted["separate"] == arrived
    assert counted["plain"] <= arrived, "how many are lost is a matter of luck; never are there more"


SMALL = """\
#include "common/verdict.h"

struct twelve {{
	u32 words[3];
}};

LAB_PERCPU_ARRAY(counts, {leaf}, 2);

int f(struct xdp_md *ctx)
{{
	u32 slot = 1;
	{leaf} *value = counts.lookup(&slot);

	if (value)
		{count}++;
	return verdict(ctx, XDP_DROP);
}}
"""


@pytest.mark.parametrize("leaf", ["u8", "u16", "struct twelve"])
def test_cn_05_a_small_per_cpu_value_is_refused_early(leaf: str) -> None:
    """CN-05, iovisor/bcc#606: the kernel keeps per-CPU values 8 bytes apart, whatever their size."""
    text = SMALL.format(leaf=leaf, count="value->words[0]" if " " in leaf else "(*value)")
    with pytest.raises(lk.CompileError, match="8 bytes") as refused:
        lk.compile(text=text)
    assert "LAB_PERCPU_ARRAY" in refused.value.source_line


@pytest.mark.parametrize("leaf", ["u32", "u64"])
def test_cn_05_a_per_cpu_value_has_one_number_a_cpu(lab: lk.Lab, leaf: str) -> None:
    """CN-05, iovisor/gobpf#254: one value for each possible CPU, read 8 bytes apart."""
    program = lab.load(lk.compile(text=SMALL.format(leaf=leaf, count="(*value)")))
    program.attach(lab["server"]["eth0"])
    lk.send_frames(lab["client"]["eth0"], lk.udp(lab["client"], lab["server"]), N)
    assert lab.ledger().losses == {"XDP_DROP": N}
    assert program.maps["counts"].read() == {0: 0, 1: N}
    assert len(program.maps["counts"].per_cpu(1)) == possible_cpus()
    assert sum(program.maps["counts"].per_cpu(1)) == N


def test_cn_07_a_cell_that_runs_again(verdicts: lk.ProgramSpec) -> None:
    """CN-07, iovisor/bcc#806: the first object's counter stands still for ever, and each run keeps descriptors."""

    def cell() -> tuple[lk.Lab, lk.Program]:
        lab = lk.Lab(lk.Topology.pair(), name="case")
        program = lab.load(verdicts, "drop")
        program.attach(lab["server"]["eth0"])
        lk.send_frames(lab["client"]["eth0"], lk.udp(lab["client"], lab["server"]), N)
        return lab, program

    _, first = cell()
    held = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        lab, second = cell()
    assert len(os.listdir("/proc/self/fd")) == held
    with pytest.raises(lk.StateError, match="closed"):
        first.maps["verdicts"][1]
    assert lab.ledger().losses == {"XDP_DROP": N}
    counts = second.verdicts()
    assert counts is not None
    assert counts["XDP_DROP"] == N
    assert second.id != first.id
    lab.close()


def test_cn_07_the_same_lab_replaced_program_counts_on(lab: lk.Lab, verdicts: lk.ProgramSpec) -> None:
    """CN-07: an edited program that takes over the old one's maps goes on where it stopped."""
    client, server = lab["client"]["eth0"], lab["server"]["eth0"]
    first = lab.load(verdicts, "drop")
    first.attach(server)
    frame = lk.udp(lab["client"], lab["server"])
    lk.send_frames(client, frame, N)
    lab.ledger()
    second = lab.load(verdicts, "aborted", replaces=first)
    second.attach(server)
    lk.send_frames(client, frame, N)
    ledger = lab.ledger()
    counts = second.verdicts()
    assert counts is not None
    assert (counts["XDP_DROP"], counts["XDP_ABORTED"]) == (N, N)
    assert ledger.losses == {"XDP_DROP": N, "XDP_ABORTED": N}
    assert ledger.unaccounted == 0


@pytest.mark.parametrize(
    ("offloads", "mode", "large"), [(False, "generic", False), (True, "generic", True), (True, "native", False)]
)
def test_cn_09_packets_of_64_kilobytes(
    lab: lk.Lab, counting: lk.ProgramSpec, offloads: bool, mode: str, large: bool
) -> None:
    """CN-09, xdp-project/xdp-tutorial#292: generic XDP sees what TSO left together, native XDP makes the peer cut."""
    client, server = lab["client"], lab["server"]
    if offloads:
        for feature in ("tx-checksum", "tso"):
            client["eth0"].set_feature(feature, True)
    program = lab.load(counting, "by_length")
    program.attach(server["eth0"], mode=mode)
    exchange = tcp_transfer(client, server, 300_007)
    assert exchange.intact
    total, longer = program.maps["lengths"][0], program.maps["lengths"][1]
    assert total > 0
    assert (longer > 0) == large
    if not offloads:
        assert lab.ledger().unaccounted == 0


@pytest.mark.parametrize("mode", ["", "native", "generic"])
@pytest.mark.parametrize("topology", [lk.Topology.pair(), lk.Topology.router()], ids=["pair", "router"])
def test_cn_09_the_ledger_counts_large_packets(mode: str, topology: lk.Topology, counting: lk.ProgramSpec) -> None:
    """CN-09: with TSO on, one packet on the wire is many segments to TCP; both sides must count the same thing."""
    with lk.Lab(topology, name="large") as lab:
        client, server = lab["client"], lab["server"]
        for feature in ("tx-checksum", "tso"):
            client["eth0"].set_feature(feature, True)
            server["eth0"].set_feature(feature, True)
        if mode:
            lab.load(counting, "by_length").attach(server["eth0"], mode=mode)
        lab.reset()
        assert tcp_transfer(client, server, 1_000_003).intact
        ledger = lab.ledger()
        assert ledger.unaccounted == 0, ledger
        assert not ledger.losses


def test_cn_10_a_filter_in_the_wrong_byte_order_matches_nothing(lab: lk.Lab, counting: lk.ProgramSpec) -> None:
    """CN-10: ``h_proto == ETH_P_IP`` without htons compiles, runs, and is never true on a little-endian machine."""
    client, server = lab["client"]["eth0"], lab["server"]["eth0"]
    frame = lk.udp(lab["client"], lab["server"])
    matched = {"right_order": N, "wrong_order": 0 if sys.byteorder == "little" else N}
    for function, expected in matched.items():
        lab.reset()
        program = lab.load(counting, function)
        program.attach(server)
        lk.send_frames(client, frame, N)
        ledger = lab.ledger()
        assert ledger.losses.get("XDP_DROP", 0) == expected
        assert ledger.losses.get("NO_SOCKET", 0) == N - expected
        assert ledger.unaccounted == 0


def test_cn_10_an_address_key_is_in_network_order(lab: lk.Lab, counting: lk.ProgramSpec) -> None:
    """CN-10: a u32 key that came straight from the header, shown as a number, reads as the address backwards."""
    client, server = lab["client"]["eth0"], lab["server"]["eth0"]
    program = lab.load(counting, "by_source")
    program.attach(server)
    lk.send_frames(client, lk.udp(lab["client"], lab["server"]), N)
    lab.ledger()
    [(key, count)] = program.maps["sources"].items()
    assert count == N
    assert str(ipaddress.ip_address(key.to_bytes(4, sys.byteorder))) == client.ip
    naive = str(ipaddress.ip_address(key))
    assert (naive == client.ip) == (sys.byteorder == "big")
