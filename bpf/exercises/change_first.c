// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* Send each packet to its slot, with the MAC address of its next hop. Here it comes too late. */
#include "common/rewrite.h"
#include "common/verdict.h"

LAB_DEVMAP(ports, 8);
LAB_HASH(next_hop, u32, struct mac, 8); /* slot: the address at the other end */

int change_first(struct xdp_md *ctx)
{
	struct cursor at = cursor_begin(ctx);
	struct ethhdr *eth = next_eth(&at);
	u32 slot = eth ? eth->h_dest[4] & 7 : 0;
	struct mac *mac = next_hop.lookup(&slot);

	if (!eth || !mac)
		return XDP_PASS;
	if (ports.redirect_map(slot, XDP_PASS) != XDP_REDIRECT)
		return XDP_PASS;
	set_destination(eth, mac);
	return XDP_REDIRECT;
}
