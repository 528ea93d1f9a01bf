// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * Makes a burst: sends every packet as often as the map has slots that are filled.
 *
 * All slots may hold the same interface. The copies are made in one turn of the driver that
 * received the packet, and nobody empties the queue at the other end before that turn is
 * over: a queue that is too short for them shows it every time.
 */
#include "common/verdict.h"

/* The interface to send by, once for each copy. */
LAB_DEVMAP(ports, 1024);

int burst(struct xdp_md *ctx)
{
	return verdict(ctx, ports.redirect_map(0, BPF_F_BROADCAST));
}
