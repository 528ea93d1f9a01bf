// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * Sends every packet back out of the interface it came in by, addressed to its sender
 * (XDP_TX).
 *
 * On veth the other end must be able to receive it: a program there, or GRO.
 */
#include "common/rewrite.h"
#include "common/verdict.h"

int tx_back(struct xdp_md *ctx)
{
	struct cursor at = cursor_begin(ctx);
	struct ethhdr *eth = next_eth(&at);

	if (!eth)
		return verdict(ctx, XDP_ABORTED);
	swap_macs(eth);
	return verdict(ctx, XDP_TX);
}
