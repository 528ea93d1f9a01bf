// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * Sets the destination after the redirect has said yes. Today the frame is still here then;
 * with one step less it would be on its way already.
 */
#include "common/rewrite.h"
#include "common/maps.h"

/* Where packets go. */
LAB_DEVMAP(ports, 8);

int changed_behind(struct xdp_md *ctx)
{
	struct cursor at = cursor_begin(ctx);
	struct ethhdr *eth = next_eth(&at);
	struct mac to = {{ 2, 0, 0, 0, 0, 9 }};
	int action;

	if (!eth)
		return XDP_PASS;
	action = ports.redirect_map(0, 0);
	if (action == XDP_REDIRECT)
		set_destination(eth, &to);
	return action;
}
