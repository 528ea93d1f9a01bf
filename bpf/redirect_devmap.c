// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * Sends every packet out of an interface by a device map, to the next hop of its slot.
 *
 * The map answers at once: XDP_REDIRECT, or for an empty slot whatever "miss" says. 0 is
 * XDP_ABORTED, so a slot that somebody forgot looks like a broken program; 2 is XDP_PASS,
 * and the stack takes over.
 */
#include "common/rewrite.h"
#include "common/verdict.h"

struct choice {
	u32 slot;	/* of the map ports */
	u32 miss;	/* verdict for an empty slot: 0 to 3 */
};

/* Where packets can go. */
LAB_DEVMAP(ports, 8);

/* Slot to the MAC address at the other end; a slot without one leaves the packet as it is. */
LAB_HASH(next_hop, u32, struct mac, 8);

/* One entry: which slot, and what if it is empty. */
LAB_ARRAY(choice, struct choice, 1);

int redirect_devmap(struct xdp_md *ctx)
{
	struct cursor at = cursor_begin(ctx);
	struct ethhdr *eth = next_eth(&at);
	u32 only = 0;
	struct choice *wanted = choice.lookup(&only);
	struct mac *mac;
	int action;

	if (!eth || !wanted)
		return verdict(ctx, XDP_ABORTED);
	action = ports.redirect_map(wanted->slot, wanted->miss);
	mac = next_hop.lookup(&wanted->slot);
	if (mac && action == XDP_REDIRECT)
		set_destination(eth, mac);
	return verdict(ctx, action);
}
