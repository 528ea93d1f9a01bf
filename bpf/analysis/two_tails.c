// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * Tries the socket of the packet's receive queue first, and where there is none a device.
 *
 * "Sent? Then that's it." is what the AF_XDP program of libbpf asked in 2020: a call, a jump
 * for more than 0, an exit.
 */
#include "common/maps.h"

/* A socket for each queue. */
LAB_XSKMAP(sockets, 64);

/* Where packets without a socket go. */
LAB_DEVMAP(ports, 8);

int two_tails(struct xdp_md *ctx)
{
	int action = sockets.redirect_map(ctx->rx_queue_index, 0);

	if (action > 0)
		return action;
	return ports.redirect_map(0, XDP_PASS);
}
