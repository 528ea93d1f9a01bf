// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * The two steps of a redirect, pulled apart.
 *
 *	only_asked	calls the helper, and then drops: nothing was sent by the call
 *	asked_by_another	every other packet calls the helper and is dropped; the one after it
 *			returns XDP_REDIRECT and has never called anything
 *
 * What the helper found out, it notes; who reads the note afterwards is the driver, and that is
 * told by the return code alone.
 */
#include "common/verdict.h"

/* Slot 0: where to. */
LAB_DEVMAP(ports, 1);

/* How many packets came to each CPU. */
LAB_PERCPU_ARRAY(turns, u64, 1);

int only_asked(struct xdp_md *ctx)
{
	ports.redirect_map(0, 0);
	return verdict(ctx, XDP_DROP);
}

int asked_by_another(struct xdp_md *ctx)
{
	u32 only = 0;
	u64 *turn = turns.lookup(&only);

	if (!turn)
		return verdict(ctx, XDP_ABORTED);
	if ((*turn)++ & 1)
		return verdict(ctx, XDP_REDIRECT);
	ports.redirect_map(0, 0);
	return verdict(ctx, XDP_DROP);
}
