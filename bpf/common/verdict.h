/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The one way out of a lesson's program: counts what the program decided, and decides it.
 *
 *	return verdict(ctx, XDP_DROP);
 *
 * One slot for each of the five actions, and one for every other number a program may return,
 * which the kernel takes for XDP_ABORTED. A counter for each CPU, as nothing is shared then: one
 * map lookup and one addition a packet.
 */
#ifndef LAB_COMMON_VERDICT_H
#define LAB_COMMON_VERDICT_H

#include "common/maps.h"

#define VERDICT_OTHER (XDP_REDIRECT + 1)

/* Packets by verdict: XDP_ABORTED, XDP_DROP, XDP_PASS, XDP_TX, XDP_REDIRECT, any other number. */
LAB_PERCPU_ARRAY(verdicts, u64, VERDICT_OTHER + 1);

/* Counts action, and returns it as it is. */
static __always_inline int verdict(struct xdp_md *ctx, int action)
{
	u32 slot = action;
	u64 *packets;

	if (slot > XDP_REDIRECT)
		slot = VERDICT_OTHER;
	packets = verdicts.lookup(&slot);
	if (packets)
		(*packets)++;
	return action;
}

#endif
