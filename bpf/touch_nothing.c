// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * Drops every packet without a look at it: its bytes need not even come to the processor's
 * cache.
 *
 * Compare with touch_data.c.
 */
#include "common/verdict.h"

int touch_nothing(struct xdp_md *ctx)
{
	return verdict(ctx, XDP_DROP);
}
