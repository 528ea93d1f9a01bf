// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * Counts each packet by what the redirect answered: so behind it, as most of the lab's own
 * programs do.
 */
#include "common/verdict.h"

/* Where packets go. */
LAB_DEVMAP(ports, 8);

int counted_behind(struct xdp_md *ctx)
{
	return verdict(ctx, ports.redirect_map(0, 0));
}
