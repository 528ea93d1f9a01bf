// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* Send IPv4 out of the port that port_of has for its destination; an address it doesn't have is the stack's. */
#include "common/parse.h"
#include "common/verdict.h"

LAB_DEVMAP(ports, 8);
LAB_HASH(port_of, u32, u32, 8); /* address, in network byte order: slot of ports */

int redirect_by_address(struct xdp_md *ctx)
{
	struct cursor at = cursor_begin(ctx);
	struct ethhdr *eth = next_eth(&at);
	struct iphdr *ip = eth && eth->h_proto == htons(ETH_P_IP) ? next_ipv4(&at) : NULL;
	u32 destination, *slot;

	if (!ip)
		return verdict(ctx, XDP_PASS);
	destination = ip->daddr;
	slot = port_of.lookup(&destination);
	return verdict(ctx, slot ? ports.redirect_map(*slot, 0) : XDP_PASS);
}
