// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * Lets a packet pass where nobody listens: an empty slot is answered with XDP_ABORTED here, and
 * only that is turned into something else.
 */
#include "common/maps.h"

/* A socket for each queue. */
LAB_XSKMAP(sockets, 64);

int softer_miss(struct xdp_md *ctx)
{
	int action = sockets.redirect_map(ctx->rx_queue_index, XDP_ABORTED);

	if (action == XDP_ABORTED)
		return XDP_PASS;
	return action;
}
