// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * Uses what a lookup returned without a look at whether it is NULL.
 *
 * The verifier says: "invalid mem access 'map_value_or_null'"
 */
#include "common/maps.h"

LAB_HASH(seen, u32, u64, 16);

int null_map_value(struct xdp_md *ctx)
{
	u32 queue = ctx->rx_queue_index;
	u64 *packets = seen.lookup(&queue);

	(*packets)++;
	return XDP_PASS;
}
