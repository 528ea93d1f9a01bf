// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* Drop IPv4 packets with a TTL of 0 or 1: the check covers the header that is read. */
#include "common/parse.h"
#include "common/verdict.h"

int low_ttl(struct xdp_md *ctx)
{
	void *end = (void *)(long)ctx->data_end;
	struct ethhdr *eth = (void *)(long)ctx->data;
	struct iphdr *ip = (void *)(eth + 1);

	if ((void *)(ip + 1) > end || eth->h_proto != htons(ETH_P_IP))
		return verdict(ctx, XDP_PASS);
	return verdict(ctx, ip->ttl < 2 ? XDP_DROP : XDP_PASS);
}
