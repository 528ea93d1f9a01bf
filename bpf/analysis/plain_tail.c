// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * Hands every packet to the socket of its receive queue. The redirect is the program's last word.
 */
#include "common/maps.h"

/* A socket for each queue. */
LAB_XSKMAP(sockets, 64);

int plain_tail(struct xdp_md *ctx)
{
	return sockets.redirect_map(ctx->rx_queue_index, XDP_PASS);
}
