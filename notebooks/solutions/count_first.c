// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* Send each packet to its slot, and count it there, before anybody knows what the redirect will answer. */
#include "common/parse.h"
#include "common/verdict.h"

LAB_DEVMAP(ports, 8);
LAB_PERCPU_ARRAY(asked, u64, 8); /* packets that were to go to each slot */

int count_first(struct xdp_md *ctx)
{
	struct cursor at = cursor_begin(ctx);
	struct ethhdr *eth = next_eth(&at);
	u32 slot = eth ? eth->h_dest[4] & 7 : 0;
	u64 *packets = asked.lookup(&slot);

	if (packets)
		(*packets)++;
	return ports.redirect_map(slot, XDP_PASS);
}
