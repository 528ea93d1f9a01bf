// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * Counts each packet before the redirect: what it will answer isn't known yet, so this counts
 * tries.
 */
#include "common/maps.h"

/* Where packets go. */
LAB_DEVMAP(ports, 8);

/* Packets that were to be redirected. */
LAB_PERCPU_ARRAY(tries, u64, 1);

int counted_before(struct xdp_md *ctx)
{
	u32 only = 0;
	u64 *packets = tries.lookup(&only);

	if (packets)
		(*packets)++;
	return ports.redirect_map(0, 0);
}
