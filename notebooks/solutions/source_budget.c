// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* Each IPv4 source may send 100 packets: the source address is the key. */
#include "common/parse.h"
#include "common/verdict.h"

LAB_HASH(packets_by_source, u32, u64, 1024);

int source_budget(struct xdp_md *ctx)
{
	struct cursor at = cursor_begin(ctx);
	struct ethhdr *eth = next_eth(&at);
	struct iphdr *ip = eth && eth->h_proto == htons(ETH_P_IP) ? next_ipv4(&at) : NULL;
	u64 none = 0, *packets;
	u32 source;

	if (!ip)
		return verdict(ctx, XDP_PASS);
	source = ip->saddr;
	packets = packets_by_source.lookup_or_try_init(&source, &none);
	if (!packets)
		return verdict(ctx, XDP_ABORTED);
	__sync_fetch_and_add(packets, 1);
	return verdict(ctx, *packets > 100 ? XDP_DROP : XDP_PASS);
}
