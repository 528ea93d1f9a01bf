// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * Counts IPv4 packets by their protocol, and lets everything through.
 */
#include "common/parse.h"
#include "common/verdict.h"

/* IPv4 packets by protocol number (IPPROTO_…). */
LAB_PERCPU_ARRAY(packets_by_protocol, u64, 256);

int count_only(struct xdp_md *ctx)
{
	struct cursor cursor = cursor_begin(ctx);
	struct ethhdr *eth = next_eth(&cursor);
	struct iphdr *ip;
	u32 protocol;
	u64 *packets;

	if (!eth || eth->h_proto != htons(ETH_P_IP))
		return verdict(ctx, XDP_PASS);
	ip = next_ipv4(&cursor);
	if (!ip)
		return verdict(ctx, XDP_PASS);

	protocol = ip->protocol;
	packets = packets_by_protocol.lookup(&protocol);
	if (packets)
		(*packets)++;
	return verdict(ctx, XDP_PASS);
}
