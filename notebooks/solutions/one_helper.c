// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* Hosts of the switch by their slot, the rest to the uplink: one helper, as the uplink has a slot, too. */
#include "common/parse.h"
#include "common/verdict.h"

#define UPLINK 7 /* slot of ports */

LAB_DEVMAP(ports, 8);

int one_helper(struct xdp_md *ctx)
{
	struct cursor at = cursor_begin(ctx);
	struct ethhdr *eth = next_eth(&at);
	u32 slot = eth ? eth->h_dest[4] : UPLINK;

	return ports.redirect_map(slot < UPLINK ? slot : UPLINK, XDP_PASS);
}
