// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* Hosts of the switch by their slot, the rest to the uplink. Here that is two helpers. */
#include "common/parse.h"
#include "common/verdict.h"

#define UPLINK 7 /* slot of ports */

LAB_DEVMAP(ports, 8);
LAB_ARRAY(uplink, u32, 1); /* the index of the interface in that slot */

int one_helper(struct xdp_md *ctx)
{
	struct cursor at = cursor_begin(ctx);
	struct ethhdr *eth = next_eth(&at);
	u32 only = 0, *ifindex = uplink.lookup(&only);
	u32 slot = eth ? eth->h_dest[4] : UPLINK;

	if (slot < UPLINK)
		return ports.redirect_map(slot, XDP_PASS);
	return ifindex ? bpf_redirect(*ifindex, 0) : XDP_PASS;
}
