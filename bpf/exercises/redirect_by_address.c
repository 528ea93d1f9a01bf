// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * Send IPv4 out of the port that port_of has for its destination, pass the rest.
 * Here one address serves for all.
 */
#include "common/parse.h"
#include "common/verdict.h"

LAB_DEVMAP(ports, 8);
LAB_HASH(port_of, u32, u32, 8); /* address, in network byte order: slot of ports */

int redirect_by_address(struct xdp_md *ctx)
{
	u32 destination = 0, *slot = port_of.lookup(&destination);

	return verdict(ctx, ports.redirect_map(slot ? *slot : 0, 0));
}
