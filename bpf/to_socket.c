// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * Gives every packet to the AF_XDP socket of the queue it came by: the kernel copies it into a frame of
 * the socket's memory and puts the frame's address into the receive ring. Where the queue has no
 * socket, the packet goes on to the stack.
 *
 * In Python: program.maps["sockets"][0] = xsk, for queue 0.
 */
#include "common/verdict.h"

LAB_XSKMAP(sockets, 64);

int to_socket(struct xdp_md *ctx)
{
	return verdict(ctx, sockets.redirect_map(ctx->rx_queue_index, XDP_PASS));
}
