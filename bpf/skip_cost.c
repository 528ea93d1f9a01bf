// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * The way of a packet to an AF_XDP socket, cut into pieces for the clock: each program goes one
 * step further than the one before, so that the difference of two rates is the price of a step.
 *
 *	skip_drop	drops: what every packet costs, the call of a program included
 *	skip_ask	asks the map for the queue's socket, and drops all the same: the first step alone
 *	skip_nobody	redirects to every device in an empty map: the second step too, but no socket
 *	skip_minimal	redirects to the queue's socket, and does nothing else
 *	skip_counting	the same, and counts its verdict, as the lessons' programs do
 *	skip_parsing	as skip_minimal, for UDP to a port that a map knows; the rest is the stack's
 *
 * In generic mode no driver counts what a program drops, so there
 *
 *	skip_drop_counted and skip_ask_counted
 *
 * stand beside skip_counting.
 */
#include "common/parse.h"
#include "common/verdict.h"

LAB_XSKMAP(sockets, 64);

/* Never filled. */
LAB_DEVMAP(nobody, 1);

/* UDP ports, in network byte order, of which the packets are the socket's. */
LAB_HASH(wanted, u16, u64, 64);

int skip_drop(struct xdp_md *ctx)
{
	return XDP_DROP;
}

int skip_ask(struct xdp_md *ctx)
{
	sockets.redirect_map(ctx->rx_queue_index, XDP_DROP);
	return XDP_DROP;
}

int skip_nobody(struct xdp_md *ctx)
{
	return nobody.redirect_map(0, BPF_F_BROADCAST);
}

int skip_minimal(struct xdp_md *ctx)
{
	return sockets.redirect_map(ctx->rx_queue_index, XDP_DROP);
}

int skip_counting(struct xdp_md *ctx)
{
	return verdict(ctx, sockets.redirect_map(ctx->rx_queue_index, XDP_DROP));
}

int skip_parsing(struct xdp_md *ctx)
{
	struct cursor at = cursor_begin(ctx);
	struct ethhdr *eth = next_eth(&at);
	struct iphdr *ip = eth && eth->h_proto == htons(ETH_P_IP) ? next_ipv4(&at) : NULL;
	struct udphdr *udp;
	u16 port;

	if (!ip || ip->protocol != IPPROTO_UDP || is_later_fragment(ip))
		return XDP_PASS;
	udp = next_udp(&at);
	if (!udp)
		return XDP_PASS;
	port = udp->dest;
	if (!wanted.lookup(&port))
		return XDP_PASS;
	return sockets.redirect_map(ctx->rx_queue_index, XDP_PASS);
}

int skip_drop_counted(struct xdp_md *ctx)
{
	return verdict(ctx, XDP_DROP);
}

int skip_ask_counted(struct xdp_md *ctx)
{
	sockets.redirect_map(ctx->rx_queue_index, XDP_DROP);
	return verdict(ctx, XDP_DROP);
}
