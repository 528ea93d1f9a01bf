// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * Counts IPv4 packets by their protocol, and drops all but the protocols to keep.
 *
 * The idea of the sample program that came with the first XDP patches in 2016.
 * keep_protocol is empty at first, so all IPv4 is dropped; write 1 at index 1 (ICMP) to
 * let pings through, at 6 for TCP, at 17 for UDP. What is not IPv4, ARP among it, passes.
 */
#include "common/parse.h"
#include "common/verdict.h"

/* IPv4 packets by protocol number (IPPROTO_…). */
LAB_PERCPU_ARRAY(packets_by_protocol, u64, 256);

/* Not 0: let this protocol through. */
LAB_ARRAY(keep_protocol, u32, 256);

int drop_by_protocol(struct xdp_md *ctx)
{
	struct cursor cursor = cursor_begin(ctx);
	struct ethhdr *eth = next_eth(&cursor);
	struct iphdr *ip;
	u32 protocol, *keep;
	u64 *packets;

	if (!eth || eth->h_proto != htons(ETH_P_IP))
		return verdict(ctx, XDP_PASS);
	ip = next_ipv4(&cursor);
	if (!ip)
		return verdict(ctx, XDP_PASS);

	protocol = ip->protocol;
	packets = packets_by_protocol.lookup(&protocol);
	keep = keep_protocol.lookup(&protocol);
	if (!packets || !keep)
		return verdict(ctx, XDP_ABORTED);
	(*packets)++;
	return verdict(ctx, *keep ? XDP_PASS : XDP_DROP);
}
