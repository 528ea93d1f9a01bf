// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* UDP to port 9999 is the socket's, where its queue has one. All the rest is the stack's. */
#include "common/parse.h"
#include "common/verdict.h"

LAB_XSKMAP(sockets, 64); /* by the number of the receive queue */

int udp_to_socket(struct xdp_md *ctx)
{
	struct cursor at = cursor_begin(ctx);
	struct ethhdr *eth = next_eth(&at);
	struct iphdr *ip = eth && eth->h_proto == htons(ETH_P_IP) ? next_ipv4(&at) : NULL;
	struct udphdr *udp;

	if (!ip || ip->protocol != IPPROTO_UDP || is_later_fragment(ip))
		return verdict(ctx, XDP_PASS);
	udp = next_udp(&at);
	if (!udp || udp->dest != htons(9999))
		return verdict(ctx, XDP_PASS);
	return verdict(ctx, sockets.redirect_map(ctx->rx_queue_index, XDP_PASS));
}
