"""VLAN tags that travel beside the packet, where XDP does not see them."""

from __future__ import annotations

import os

import pytest

import labkit as lk
from labkit.kernel import bpf
from labkit.uapi import AttachType, ProgType

N = 101  # prime

TYPES = """\
#include "common/parse.h"
#include "common/verdict.h"

LAB_HASH(types, u16, u64, 64);

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
	return verdict(ctx, XDP_DROP);
}
"""
PUSH = """\
#include <uapi/linux/bpf.h>
#include <uapi/linux/if_ether.h>

int push(struct __sk_buff *skb)
{
	bpf_skb_vlan_push(skb, htons(ETH_P_8021Q), 10);
	return 0;
}
"""


@pytest.mark.parametrize("mode", ["native", "generic"])
@pytest.mark.parametrize(("offload", "seen"), [(False, 0x8100), (True, 0x0800)], ids=["as the lab is", "offload on"])
def test_md_05_a_tag_the_kernel_pushes(lab: lk.Lab, mode: str, offload: bool, seen: int) -> None:
    """MD-05, xdp-project/xdp-tutorial#294: with tx-vlan on the tag is not in the packet when XDP looks at it."""
    client, server = lab["client"], lab["server"]
    client["eth0"].set_feature("tx-vlan", offload)
    program = lab.load(lk.compile(text=TYPES))
    program.attach(server["eth0"], mode=mode)
    push = lab.load(lk.compile(text=PUSH), type=ProgType.SCHED_CLS, expected_attach_type=AttachType.TCX_EGRESS)
    link = client.run(bpf.link_create, push.fd, client["eth0"].ifindex, AttachType.TCX_EGRESS)
    try:
        assert lk.send_udp(client, server, N).sent == N
        ledger = lab.ledger()
    finally:
        os.close(link)
    assert program.maps["types"].read() == {seen: N}
    assert ledger.losses == {"XDP_DROP": N}
    assert ledger.unaccounted == 0


@pytest.mark.parametrize("mode", ["native", "generic"])
def test_md_05_a_tag_in_the_frame_itself(lab: lk.Lab, mode: str) -> None:
    """MD-05, secdev/scapy#969: what an AF_PACKET socket or the generator sends has its tag in it, offload or not."""
    client, server = lab["client"]["eth0"], lab["server"]["eth0"]
    client.set_feature("tx-vlan", True)
    program = lab.load(lk.compile(text=TYPES))
    program.attach(server, mode=mode)
    frame = lk.vlan(lk.udp(lab["client"], lab["server"]), 10)
    lk.send_frames(client, frame, N)
    lk.generate(client, frame, N)
    assert lab.ledger().losses == {"XDP_DROP": 2 * N}
    types = program.maps["types"].read()
    if mode == "native":
        assert types == {0x8100: 2 * N}
    else:  # generic XDP runs behind the stack's own untagging, include/linux/if_vlan.h
        assert sum(types.values()) == 2 * N


def test_md_05_a_generated_tag_stays_in_every_frame(lab: lk.Lab) -> None:
    """MD-05: the stack takes a tag off in place; a recycled page must not bring the rest back as the next frame."""
    client, server = lab["client"]["eth0"], lab["server"]["eth0"]
    lk.generate(client, lk.vlan(lk.udp(lab["client"], lab["server"]), 10), 1_009)
    ledger = lab.ledger()
    assert ledger.losses == {"OTHERHOST": 1_009}, "no VLAN device: every one is for somebody else"
    assert server.statistics()["rx_packets"] == 1_009
