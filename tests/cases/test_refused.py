"""What the verifier says, where, and what it means; and bounds checks that throw real packets away."""

from __future__ import annotations

import re

import pytest

import labkit as lk

N = 11  # prime

HEAD = '#include "common/parse.h"\n#include "common/verdict.h"\n'

# C of one function, the text of the line at fault, the verifier's words, a word of the explanation.
CLASSICS = {
    "no check": (
        "int f(struct xdp_md *ctx) {\n\tstruct ethhdr *eth = (void *)(long)ctx->data;\n"
        "\treturn eth->h_proto ? XDP_PASS : XDP_DROP;\n}",
        "eth->h_proto",
        "invalid access to packet",
        "data_end",
    ),
    "a check too small": (
        "int f(struct xdp_md *ctx) {\n\tvoid *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;\n"
        "\tif (data + 14 > end)\n\t\treturn XDP_PASS;\n\treturn *(u8 *)(data + 23) ? XDP_PASS : XDP_DROP;\n}",
        "data + 23",
        "invalid access to packet",
        "data_end",
    ),
    "no end": (
        "int f(struct xdp_md *ctx) {\n\tvolatile u32 one = 1;\n\twhile (one)\n\t\t;\n\treturn XDP_PASS;\n}",
        "while",
        "infinite loop|too (large|complex)",
        "loop",
    ),
    "a write to the context": (
        "int f(struct xdp_md *ctx) {\n\tctx->data_end = 0;\n\treturn XDP_PASS;\n}",
        "ctx->data_end = 0",
        "invalid bpf_context access",
        "context",
    ),
    "a helper of other programs": (
        "int f(struct xdp_md *ctx) {\n\treturn bpf_skb_vlan_pop((void *)ctx) ? XDP_DROP : XDP_PASS;\n}",
        "bpf_skb_vlan_pop",
        "cannot use helper|unknown func",
        "helper",
    ),
}


@pytest.mark.parametrize("classic", CLASSICS)
def test_vf_01_the_line_the_words_and_the_meaning(lab: lk.Lab, classic: str) -> None:
    """VF-01, xdp-project/xdp-tutorial#136 and many more: a log of hundreds of lines, of which one matters."""
    body, line_text, said, meaning = CLASSICS[classic]
    with pytest.raises(lk.VerifierError) as refused:
        lab.load(lk.compile(text=HEAD + body))
    error = refused.value
    expected = next(i for i, line in enumerate((HEAD + body).splitlines(), 1) if line_text in line)
    if classic == "no end":  # the log names an instruction of the loop, whichever
        assert error.line is not None
        assert error.line >= expected - 1
    else:
        assert error.line == expected
        assert line_text in error.source_line
    assert re.search(said, error.said), error.said
    assert meaning in error.meaning + error.remedy
    assert error.said in error.log, "the whole log is there for who wants it"


SIXTY = (
    HEAD
    + """\
int sixty(struct xdp_md *ctx)
{
	if ((void *)(long)ctx->data + 60 > (void *)(long)ctx->data_end)
		return verdict(ctx, XDP_DROP);
	return verdict(ctx, XDP_PASS);
}

int header_by_header(struct xdp_md *ctx)
{
	struct cursor at = cursor_begin(ctx);
	struct ethhdr *eth = next_eth(&at);
	struct iphdr *ip = eth && eth->h_proto == htons(ETH_P_IP) ? next_ipv4(&at) : NULL;

	if (ip && ip->protocol == IPPROTO_TCP)
		return verdict(ctx, XDP_DROP);
	return verdict(ctx, XDP_PASS);
}
"""
)


@pytest.mark.parametrize("mode", ["native", "generic"])
@pytest.mark.parametrize(("function", "passed"), [("sixty", 0), ("header_by_header", 1)])
def test_vf_01_a_check_for_60_bytes_drops_real_packets(lab: lk.Lab, mode: str, function: str, passed: int) -> None:
    """VF-01, iovisor/bcc#2389: veth does not pad: empty datagrams have 42 bytes, ARP too, and both are real."""
    client, server = lab["client"], lab["server"]
    program = lab.load(lk.compile(text=SIXTY), function)
    program.attach(server["eth0"], mode=mode)
    smallest = lk.udp(client, server, payload=b"")
    arp = lk.arp(client, server)
    assert (len(smallest), len(arp)) == (42, 42)
    with lk.UdpSink(server) as sink:
        lk.send_frames(client["eth0"], smallest, N)
        lk.send_frames(client["eth0"], arp, N)
        lk.send_frames(client["eth0"], smallest[:14], N)  # a header alone is a frame for veth
        lk.send_udp(client, server, N, size=42)
        assert sink.wait(2 * N * passed) == 2 * N * passed
        lab.ledger()
    counts = program.verdicts()
    assert counts is not None
    assert counts["XDP_PASS"] == 4 * N * passed
    assert counts["XDP_DROP"] == 4 * N * (1 - passed)
    answered = lk.ping(client, server, N, size=42, timeout_s=0.05).received
    assert answered == N * passed
