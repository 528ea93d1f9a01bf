// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * Drops every packet, before the network stack knows of it.
 *
 * Every packet means ARP too: the other end will not find us any more.
 */
#include "common/verdict.h"

int drop_all(struct xdp_md *ctx)
{
	return verdict(ctx, XDP_DROP);
}
