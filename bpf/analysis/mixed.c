// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * Sends even queues by a map, odd ones by the index of an interface: two helpers, and only one
 * of them could send at once.
 */
#include "common/maps.h"

/* Where packets of even queues go. */
LAB_DEVMAP(ports, 8);

int mixed(struct xdp_md *ctx)
{
	if (ctx->rx_queue_index & 1)
		return bpf_redirect(2, 0);
	return ports.redirect_map(0, 0);
}
