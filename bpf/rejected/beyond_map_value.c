// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * Goes beyond the end of a map value, by an index that nothing limits.
 *
 * The verifier says: "unbounded memory access"
 */
#include "common/maps.h"

struct table {
	u64 packets[4];
};

LAB_PERCPU_ARRAY(table, struct table, 1);

int beyond_map_value(struct xdp_md *ctx)
{
	u32 slot = 0;
	struct table *t = table.lookup(&slot);

	if (!t)
		return XDP_ABORTED;
	t->packets[ctx->rx_queue_index]++;
	return XDP_PASS;
}
