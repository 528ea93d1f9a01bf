// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* Drop UDP to port 9999, pass the rest: header by header, and whatever can't be parsed passes. */
#include "common/parse.h"
#include "common/verdict.h"

int drop_udp_port(struct xdp_md *ctx)
{
	struct cursor at = cursor_begin(ctx);
	struct ethhdr *eth = next_eth(&at);
	struct iphdr *ip;
	struct udphdr *udp;

	if (!eth || eth->h_proto != htons(ETH_P_IP))
		return verdict(ctx, XDP_PASS);
	ip = next_ipv4(&at);
	if (!ip || ip->protocol != IPPROTO_UDP || is_later_fragment(ip))
		return verdict(ctx, XDP_PASS);
	udp = next_udp(&at);
	if (!udp || udp->dest != htons(9999))
		return verdict(ctx, XDP_PASS);
	return verdict(ctx, XDP_DROP);
}
