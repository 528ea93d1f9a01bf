// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * Returns whatever number the map holds: 0 XDP_ABORTED, 1 XDP_DROP, 2 XDP_PASS, 3 XDP_TX, 4
 * XDP_REDIRECT, or one that means nothing, as 42.
 *
 * XDP_REDIRECT without a destination goes nowhere: see what the driver counts.
 */
#include "common/verdict.h"

/* One entry: the number to return. */
LAB_ARRAY(action, u32, 1);

int return_codes(struct xdp_md *ctx)
{
	u32 slot = 0;
	u32 *number = action.lookup(&slot);

	return verdict(ctx, number ? *number : XDP_ABORTED);
}
