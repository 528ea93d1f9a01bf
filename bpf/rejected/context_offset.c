// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * Goes over the context with a pointer of its own.
 *
 * The verifier says: "variable ctx access"
 */
#include <uapi/linux/bpf.h>

int context_offset(struct xdp_md *ctx)
{
	u32 *word = (u32 *)ctx + (ctx->rx_queue_index & 3);

	return *word ? XDP_PASS : XDP_DROP;
}
