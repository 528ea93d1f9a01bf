// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * Odd addresses go to slot 1, even ones to slot 0.
 * Where a slot is empty, packets should pass; here they abort.
 */
#include "common/parse.h"
#include "common/verdict.h"

LAB_DEVMAP(ports, 2);

int missing_peer(struct xdp_md *ctx)
{
	struct cursor at = cursor_begin(ctx);
	struct ethhdr *eth = next_eth(&at);
	struct iphdr *ip = eth && eth->h_proto == htons(ETH_P_IP) ? next_ipv4(&at) : NULL;

	if (!ip)
		return verdict(ctx, XDP_PASS);
	return verdict(ctx, ports.redirect_map(ntohl(ip->daddr) & 1, 0));
}
