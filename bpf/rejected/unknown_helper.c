// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * Calls a helper by a number that no helper has.
 *
 * The verifier says: "invalid func unknown"
 */
#include <uapi/linux/bpf.h>

static int (*no_such_helper)(void *) = (void *)9999;

int unknown_helper(struct xdp_md *ctx)
{
	return no_such_helper(ctx) ? XDP_PASS : XDP_DROP;
}
