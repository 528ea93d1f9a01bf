// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* Send each packet to its slot, with the MAC address of the next hop; what passes gets its own back. */
#include "common/rewrite.h"
#include "common/verdict.h"

LAB_DEVMAP(ports, 8);
LAB_HASH(next_hop, u32, struct mac, 8); /* slot: the address at the other end */

int change_first(struct xdp_md *ctx)
{
	struct cursor at = cursor_begin(ctx);
	struct ethhdr *eth = next_eth(&at);
	u32 slot = eth ? eth->h_dest[4] & 7 : 0;
	struct mac *mac = next_hop.lookup(&slot), before;
	int action;

	if (!eth || !mac)
		return XDP_PASS;
	__builtin_memcpy(&before, eth->h_dest, ETH_ALEN);
	set_destination(eth, mac);
	action = ports.redirect_map(slot, XDP_PASS);
	if (action == XDP_PASS) /* the slot is empty: nothing was sent, and the packet is still ours */
		set_destination(eth, &before);
	return action;
}
