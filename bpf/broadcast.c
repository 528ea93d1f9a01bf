// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * Sends a copy of every packet out of every interface in the map, but not back where it
 * came from.
 *
 * One XDP_REDIRECT here, as many packets on the wires as the map has other interfaces.
 * Without BPF_F_EXCLUDE_INGRESS the sender hears its own echo.
 */
#include "common/verdict.h"

/* Every port; the index means nothing here. */
LAB_DEVMAP(ports, 8);

int broadcast(struct xdp_md *ctx)
{
	return verdict(ctx, ports.redirect_map(0, BPF_F_BROADCAST | BPF_F_EXCLUDE_INGRESS));
}
