// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * A per-CPU value of 12 bytes. Found before the kernel sees it.
 *
 * The compiler says: "must be a multiple of 8"
 */
#include "common/maps.h"

struct counter {
	u32 packets;
	u32 bytes;
	u32 errors;
};

LAB_PERCPU_ARRAY(counters, struct counter, 1);

int packed_counter(struct xdp_md *ctx)
{
	u32 slot = 0;
	struct counter *counter = counters.lookup(&slot);

	if (counter)
		counter->packets++;
	return XDP_PASS;
}
