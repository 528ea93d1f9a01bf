// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* Send each packet out of every other port in the map. Here the sender gets its own back. */
#include "common/verdict.h"

LAB_DEVMAP(ports, 8);

int no_echo(struct xdp_md *ctx)
{
	return verdict(ctx, ports.redirect_map(0, BPF_F_BROADCAST));
}
