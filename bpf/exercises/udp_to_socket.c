// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * UDP to port 9999 is the socket's, where its queue has one. All the rest is the stack's.
 * Here everything is the socket's, as if there were no program.
 */
#include "common/parse.h"
#include "common/verdict.h"

LAB_XSKMAP(sockets, 64); /* by the number of the receive queue */

int udp_to_socket(struct xdp_md *ctx)
{
	return verdict(ctx, sockets.redirect_map(ctx->rx_queue_index, 0));
}
