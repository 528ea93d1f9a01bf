// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * Drops every packet, after reading one byte of it: the protocol in the IPv4 header.
 *
 * On a network card the byte comes from memory, and waiting for it is most of the cost.
 * Compare with touch_nothing.c.
 */
#include "common/parse.h"
#include "common/verdict.h"

int touch_data(struct xdp_md *ctx)
{
	struct cursor cursor = cursor_begin(ctx);
	struct ethhdr *eth = next_eth(&cursor);
	struct iphdr *ip = eth ? next_ipv4(&cursor) : NULL;

	/* volatile: read it, though nothing depends on it */
	if (ip)
		(void)*(volatile u8 *)&ip->protocol;
	return verdict(ctx, XDP_DROP);
}
